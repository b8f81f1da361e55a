"""Who calls, what the caller may do, and the API keys that say so."""

import asyncio
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated

from msgspec import Meta, Struct

from bots_service.background import repeating
from bots_service.errors import BotsError, Flaw, ForbiddenError, InvalidInputError, UnauthenticatedError
from bots_service.keys import EVERY_DATASET, KeyRow, Scope, reaches
from bots_service.records import IdempotencyKey
from bots_service.retention import LONGEST_KEY_S
from bots_service.storage.sql.stores import SqlKeys

SHAPE = re.compile("bots_([0-9a-f]{16})_[0-9a-f]{64}")  # an id, and 32 random bytes
STATIC_KEY = "BOTS_ADMIN_KEY"  # its id in answers and logs; no stored key has this id


def digest_of(key: str) -> bytes:
    """Return what tells a key from all others, and doesn't tell the key."""
    return hashlib.sha256(key.encode()).digest()


_NO_DIGEST = digest_of("")


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request. key: id of the key; None where no keys guard the service."""

    key: str | None
    scopes: frozenset[Scope]
    datasets: tuple[str, ...]
    name: str | None = None
    expires_at: float | None = None

    def reaches(self, dataset: str) -> bool:
        """Say whether the key is good for a dataset of this name, if there is one."""
        return reaches(self.datasets, dataset)

    def reaches_run(self, dataset: str, run: str | None) -> bool:
        """Say whether the key is good for a run of a dataset. run: None for the whole dataset, with all its runs."""
        return any(
            fnmatchcase(dataset, of_dataset) and (not limited or (run is not None and fnmatchcase(run, of_run)))
            for of_dataset, limited, of_run in (pattern.partition("/") for pattern in self.datasets)
        )

    def require_scope(self, wanted: frozenset[Scope]) -> None:
        """Raise ForbiddenError unless the caller has one of these scopes."""
        if not self.scopes & wanted and Scope.ADMIN not in self.scopes:
            lacking = " or ".join(sorted(wanted))
            raise ForbiddenError(f"this key has no scope {lacking}, only {', '.join(sorted(self.scopes))}")

    def require_dataset(self, dataset: str) -> None:
        """Raise ForbiddenError unless the caller reaches a dataset, or some of its runs."""
        self._require(self.reaches(dataset), f"dataset {dataset[:128]!r}")

    def require_run(self, dataset: str, run: str | None) -> None:
        """Raise ForbiddenError unless the caller reaches a run; None for the whole dataset, with all its runs."""
        self.require_dataset(dataset)
        of = "all" if run is None else f"run {run[:128]!r}"
        self._require(self.reaches_run(dataset, run), f"{of} of dataset {dataset[:128]!r}")

    def require_every_dataset(self) -> None:
        """Raise ForbiddenError unless the caller reaches every dataset."""
        self._require(EVERY_DATASET in self.datasets, f"every dataset, {EVERY_DATASET!r}")

    def _require(self, is_reached: bool, what: str) -> None:
        if not is_reached:
            raise ForbiddenError(f"this key has no access to {what}, only to {', '.join(self.datasets)}")


ANYBODY = Caller(None, frozenset(Scope), (EVERY_DATASET,))
OPERATOR = Caller(STATIC_KEY, frozenset({Scope.ADMIN}), (EVERY_DATASET,), STATIC_KEY)


# No control characters, which could play tricks with a terminal.
KeyName = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f-\x9f]{1,128}\Z")]
Pattern = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._*?-]{1,128}(/[A-Za-z0-9._*?-]{1,128})?\Z")]


class KeyRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A key to create.

    name: a name for people.
    scopes: what the key may do.
    datasets: patterns of the datasets that it reaches, or of their runs, such as guru/alice-*; `*` stands for any
        characters, `?` for one.
    expires_in_seconds: how long it is valid; left out, until it is revoked.
    """

    name: KeyName
    scopes: Annotated[frozenset[Scope], Meta(min_length=1, max_length=8)]
    datasets: Annotated[tuple[Pattern, ...], Meta(min_length=1, max_length=64)]
    expires_in_seconds: Annotated[float, Meta(gt=0, le=LONGEST_KEY_S)] | None = None


REFRESH_S = 2.0  # a key revoked elsewhere is refused here within 5 s: twice this, and a slow answer
LOOK_AGAIN_S = 1.0  # so that keys made up by a stranger bring one query a second and process, no more


class Access:
    """Tells who calls, from memory: a request costs a hash and a comparison.

    While SQL is away, known keys stay valid.
    """

    def __init__(self, keys: SqlKeys, admin_digest: bytes | None = None) -> None:
        """Know no key yet. admin_digest: of the key that the operator set, None without one."""
        self._keys, self._admin_digest = keys, admin_digest
        self._every_s, self._monotonic, self._clock = REFRESH_S, time.monotonic, time.time
        self._rows: dict[str, KeyRow] = {}
        self._changing = asyncio.Lock()
        self._looked_at = -LOOK_AGAIN_S
        self._exist = True  # until SQL says otherwise, and always after the first key

    @property
    def is_open(self) -> bool:
        """Whether no keys guard the service. Revoked and expired ones do: losing the last key opens nothing."""
        return self._admin_digest is None and not self._exist

    def is_operators(self, key: str) -> bool:
        """Say whether this is the key that the operator set."""
        return self._admin_digest is not None and hmac.compare_digest(digest_of(key), self._admin_digest)

    async def authenticate(self, presented: str | None) -> Caller:
        """Return who sent this key. Raises UnauthenticatedError: it is missing, or not good."""
        if self.is_open:
            return ANYBODY
        if presented is None:
            raise UnauthenticatedError("this service requires an API key; send Authorization: Bearer KEY")
        if self.is_operators(presented):
            return OPERATOR
        row = await self._known(presented)
        # The same work for an id that nobody has.
        is_right = hmac.compare_digest(digest_of(presented), _NO_DIGEST if row is None else row.digest)
        if row is None or not is_right or (row.expires_at is not None and row.expires_at <= self._clock()):
            raise UnauthenticatedError("this key is invalid, expired or revoked")
        return Caller(row.id, row.scopes, row.datasets, row.name, row.expires_at)

    async def _known(self, presented: str) -> KeyRow | None:
        shape = SHAPE.fullmatch(presented)
        if shape is None:
            return None
        if shape[1] not in self._rows:
            if self._monotonic() - self._looked_at >= LOOK_AGAIN_S:
                self._looked_at = self._monotonic()
                with suppress(BotsError):  # as in the background, where it is logged
                    await self.load()
            else:
                async with self._changing:  # a look that was begun already
                    pass
        return self._rows.get(shape[1])

    async def create(
        self, wish: KeyRequest, idempotency_key: IdempotencyKey | None, *, by_anybody: bool
    ) -> tuple[KeyRow, str]:
        """Make a key, and return what is kept of it and the key. Only its digest is kept, so it can be shown once.

        by_anybody: no keys guarded the service when it was asked for. Raises InvalidInputError: it would be the first,
        and nobody could make another; UnauthenticatedError: keys guard the service by now; LimitReachedError.
        """
        is_lasting = wish.expires_in_seconds is None
        if by_anybody and not (is_lasting and Scope.ADMIN in wish.scopes and EVERY_DATASET in wish.datasets):
            message = "the first key must have scope admin and dataset *, and not expire: nobody could make another"
            raise InvalidInputError(message, (Flaw(("body",), "this key could not create others"),))
        key_id = secrets.token_hex(8)
        key = f"bots_{key_id}_{secrets.token_hex(32)}"
        now = self._clock()
        row = KeyRow(
            id=key_id,
            name=wish.name,
            digest=digest_of(key),
            scopes=wish.scopes,
            datasets=tuple(dict.fromkeys(wish.datasets)),
            created_at=now,
            expires_at=None if wish.expires_in_seconds is None else now + wish.expires_in_seconds,
        )
        await self._know(self._keys.add(idempotency_key, row, first=by_anybody), key_id, row)
        return row, key

    async def revoke(self, key_id: str, idempotency_key: IdempotencyKey | None) -> None:
        """Revoke a key, here at once and elsewhere within seconds. Raises UnknownApiKeyError: it never existed."""
        await self._know(self._keys.revoke(idempotency_key, key_id), key_id, None)

    async def _know(self, written: Awaitable[object], key_id: str, row: KeyRow | None) -> None:
        """Let a write be done, and answer by it from now on, even if the caller stops waiting. row: None if revoked."""

        async def finish() -> None:
            await written
            async with self._changing:
                self._exist = True
                self._rows.pop(key_id, None)
                if row is not None:
                    self._rows[key_id] = row

        await asyncio.shield(finish())

    @asynccontextmanager
    async def in_background(self) -> AsyncIterator[None]:
        """Read all keys now, and again every few seconds. Raises StorageUnavailableError: not now."""
        await self.load()
        async with repeating(self.load, every_s=self._every_s, failure_event="keys_not_refreshed"):
            yield

    async def load(self) -> None:
        """Read all keys. Raises StorageUnavailableError: the last known ones stay."""
        async with self._changing:  # or an answer from before a revocation could come after it
            found = await self._keys.in_use()
            self._rows = {row.id: row for row in found or ()}
            self._exist = found is not None
