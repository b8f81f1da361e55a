"""Create and revoke API keys."""

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from bots_service.errors import Flaw, InvalidInputError
from bots_service.ports.keys import EVERY_DATASET, KeyRow, Keys, Scope
from bots_service.ports.records import IdempotencyKey
from bots_service.usecases.authenticate import KnownKeys, digest_of


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that is wanted.

    datasets: patterns of names.
    expires_in_s: None for a key without end.
    """

    name: str
    scopes: frozenset[Scope]
    datasets: tuple[str, ...]
    expires_in_s: float | None = None

    @property
    def can_make_others(self) -> bool:
        """Whether the key can make other keys, and always will."""
        return Scope.ADMIN in self.scopes and EVERY_DATASET in self.datasets and self.expires_in_s is None


@dataclass(frozen=True, slots=True)
class CreateKey:
    """Make a key. Only its digest is kept, so it can be shown once."""

    keys: Keys
    known: KnownKeys
    clock: Callable[[], float] = time.time

    async def __call__(
        self, wish: NewKey, idempotency_key: IdempotencyKey | None, *, by_anybody: bool
    ) -> tuple[KeyRow, str]:
        """Return what is kept of the new key, and the key.

        Args:
            wish: what it shall be good for.
            idempotency_key: keeps the row.
            by_anybody: no keys guarded the service when it was asked for.

        Raises:
            InvalidInputError: it would be the first, and nobody could make another.
            UnauthenticatedError: keys guard the service by now.
            LimitReachedError: no more are kept in use.
        """
        if by_anybody and not wish.can_make_others:
            message = "the first key must have scope admin and dataset *, and not expire: nobody could make another"
            raise InvalidInputError(message, (Flaw(("body",), "this key could not create others"),))
        key_id = secrets.token_hex(8)
        key = f"bots_{key_id}_{secrets.token_hex(32)}"
        now = self.clock()
        row = KeyRow(
            id=key_id,
            name=wish.name,
            digest=digest_of(key),
            scopes=wish.scopes,
            datasets=wish.datasets,
            created_at=now,
            expires_at=None if wish.expires_in_s is None else now + wish.expires_in_s,
        )
        # To the end even if the caller stops waiting, or this process would still answer without a key.
        await asyncio.shield(self._add(row, by_anybody, idempotency_key))
        return row, key

    async def _add(self, row: KeyRow, first: bool, idempotency_key: IdempotencyKey | None) -> None:
        await self.keys.add(row, first=first, idempotency_key=idempotency_key)
        await self.known.learn(row)


@dataclass(frozen=True, slots=True)
class RevokeKey:
    """Revoke a key: here at once, elsewhere within seconds."""

    keys: Keys
    known: KnownKeys

    async def __call__(self, key_id: str, idempotency_key: IdempotencyKey | None) -> None:
        """Revoke the key; one that is revoked already stays so.

        Raises:
            UnknownApiKeyError: there never was one of this id.
        """
        await asyncio.shield(self._revoke(key_id, idempotency_key))

    async def _revoke(self, key_id: str, idempotency_key: IdempotencyKey | None) -> None:
        await self.keys.revoke(key_id, idempotency_key)
        await self.known.forget(key_id)
