"""Who calls, and what the caller may do."""

import asyncio
import hashlib
import hmac
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from bots_service.engine.background import repeating
from bots_service.errors import ForbiddenError, UnauthenticatedError
from bots_service.ports.keys import EVERY_DATASET, KeyRow, Keys, Scope, reaches, reaches_run

log = structlog.get_logger(__name__)


SHAPE = re.compile("bots_([0-9a-f]{16})_[0-9a-f]{64}")  # an id, and 32 random bytes
STATIC_KEY = "BOTS_ADMIN_KEY"  # its id in answers and logs; no stored key has this id


def digest_of(key: str) -> bytes:
    """Return what tells a key from all others, and doesn't tell the key."""
    return hashlib.sha256(key.encode()).digest()


_NO_DIGEST = digest_of("")


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request.

    key: id of the key; None where no keys guard the service.
    name, expires_at: the key's, in seconds since 1970, UTC; None where it has none.
    """

    key: str | None
    scopes: frozenset[Scope]
    datasets: tuple[str, ...]
    name: str | None = None
    expires_at: float | None = None

    def reaches(self, dataset: str) -> bool:
        """Say whether the key is good for a dataset, whether or not there is one of that name."""
        return reaches(self.datasets, dataset)

    def reaches_run(self, dataset: str, run: str | None) -> bool:
        """Say whether the key is good for a run of a dataset. run: None for the whole dataset."""
        return reaches_run(self.datasets, dataset, run)

    def require_scope(self, wanted: frozenset[Scope]) -> None:
        """Check that the caller has one of these scopes.

        Raises:
            ForbiddenError: it has none.
        """
        if not self.scopes & wanted and Scope.ADMIN not in self.scopes:
            lacking = " or ".join(sorted(wanted))
            raise ForbiddenError(f"this key has no scope {lacking}, only {', '.join(sorted(self.scopes))}")

    def require_dataset(self, dataset: str) -> None:
        """Check that the caller reaches a dataset.

        Raises:
            ForbiddenError: it doesn't.
        """
        if not self.reaches(dataset):
            raise ForbiddenError(
                f"this key has no access to dataset {dataset[:128]!r}, only to {', '.join(self.datasets)}"
            )

    def require_run(self, dataset: str, run: str | None) -> None:
        """Check that the caller reaches a run of a dataset. run: None for the whole dataset, with all its runs.

        Raises:
            ForbiddenError: it doesn't.
        """
        self.require_dataset(dataset)
        if not self.reaches_run(dataset, run):
            of = (
                f"all of dataset {dataset[:128]!r}"
                if run is None
                else f"run {run[:128]!r} of dataset {dataset[:128]!r}"
            )
            raise ForbiddenError(f"this key has no access to {of}, only to {', '.join(self.datasets)}")

    def require_every_dataset(self) -> None:
        """Check that the caller reaches every dataset.

        Raises:
            ForbiddenError: it doesn't.
        """
        if EVERY_DATASET not in self.datasets:
            raise ForbiddenError(f"this needs a key for every dataset, {EVERY_DATASET!r}")


ANYBODY = Caller(None, frozenset(Scope), (EVERY_DATASET,))
OPERATOR = Caller(STATIC_KEY, frozenset({Scope.ADMIN}), (EVERY_DATASET,), STATIC_KEY)


REFRESH_S = 2.0  # a key revoked elsewhere is refused here within 5 s: twice this, and a slow answer
LOOK_AGAIN_S = 1.0  # so that keys made up by a stranger bring one query a second and process, no more


class KnownKeys:
    """All keys in use, by id. While SQL is away, the last known keys stay valid."""

    def __init__(self, keys: Keys, *, every_s: float = REFRESH_S, clock: Callable[[], float] = time.monotonic) -> None:
        """Know nothing yet.

        Args:
            keys: where they are kept.
            every_s: time between two looks.
            clock: seconds that never go backwards.
        """
        self._keys = keys
        self._every_s = every_s
        self._clock = clock
        self._rows: dict[str, KeyRow] = {}
        self._changing = asyncio.Lock()
        self._looked_at = -LOOK_AGAIN_S
        self._is_away = False
        self.exist = True
        """Whether there ever was a key. True until SQL says otherwise, and always after the first key."""

    def get(self, key_id: str) -> KeyRow | None:
        """Return the key of this id, None if none is known."""
        return self._rows.get(key_id)

    async def load(self) -> None:
        """Read all keys.

        Raises:
            StorageUnavailableError: the last known ones stay.
        """
        async with self._changing:  # or an answer from before a revocation could come after it
            found = await self._keys.in_use()
            self._rows = {row.id: row for row in found.rows}
            self.exist = found.exist

    async def look_again(self) -> None:
        """Read all keys, unless that was begun within the last second: then wait for its end at most."""
        if self._clock() - self._looked_at >= LOOK_AGAIN_S:
            self._looked_at = self._clock()
            await self._refresh()
        else:
            async with self._changing:
                pass

    async def learn(self, row: KeyRow) -> None:
        """Know a key that was just made."""
        async with self._changing:
            self._rows[row.id] = row
            self.exist = True

    async def forget(self, key_id: str) -> None:
        """Forget a key that was just revoked."""
        async with self._changing:
            self._rows.pop(key_id, None)

    @asynccontextmanager
    async def in_background(self) -> AsyncIterator[None]:
        """Read all keys now, and again every few seconds until the block ends.

        Raises:
            StorageUnavailableError: they can't be read now, so it is not known whether keys guard the service.
        """
        await self.load()
        async with repeating(self._refresh, every_s=self._every_s, failure_event="keys_not_refreshed"):
            yield

    async def _refresh(self) -> None:
        try:
            await self.load()
        except Exception as error:  # whatever it is: if this task ended, a key revoked elsewhere would stay valid
            if not self._is_away:
                log.warning("keys_not_refreshed", reason=str(error))
            self._is_away = True
        else:
            self._is_away = False


@dataclass(frozen=True, slots=True)
class Authenticate:
    """Tell who calls, from memory: a request costs a hash and a comparison.

    admin_digest: of the key that the operator set, None without one.
    """

    known: KnownKeys
    admin_digest: bytes | None
    clock: Callable[[], float] = time.time

    @property
    def is_open(self) -> bool:
        """Whether no keys guard the service. Revoked and expired ones do: losing the last key opens nothing."""
        return self.admin_digest is None and not self.known.exist

    def is_operators(self, key: str) -> bool:
        """Say whether this is the key that the operator set."""
        return self._is_operators(digest_of(key))

    def _is_operators(self, digest: bytes) -> bool:
        return self.admin_digest is not None and hmac.compare_digest(digest, self.admin_digest)

    async def __call__(self, presented: str | None) -> Caller:
        """Return who sent this key.

        Raises:
            UnauthenticatedError: it is missing, or not good.
        """
        if self.is_open:
            return ANYBODY
        if presented is None:
            raise UnauthenticatedError("this service requires an API key; send Authorization: Bearer KEY")
        digest = digest_of(presented)
        if self._is_operators(digest):
            return OPERATOR
        row = await self._known(presented)
        # The same work for an id that nobody has.
        is_right = hmac.compare_digest(digest, _NO_DIGEST if row is None else row.digest)
        if row is None or not is_right or (row.expires_at is not None and row.expires_at <= self.clock()):
            raise UnauthenticatedError("this key is invalid, expired or revoked")
        return Caller(row.id, row.scopes, row.datasets, row.name, row.expires_at)

    async def _known(self, presented: str) -> KeyRow | None:
        """Return the key that has the id in this one. Only an id can send us to SQL, and only now and then."""
        shape = SHAPE.fullmatch(presented)
        if shape is None:
            return None
        if self.known.get(shape[1]) is None:
            await self.known.look_again()
        return self.known.get(shape[1])
