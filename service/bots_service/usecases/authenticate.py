"""Who calls, and what the caller may do."""

import hashlib
import hmac
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from bots_service.errors import ForbiddenError, RateLimitedError, UnauthenticatedError
from bots_service.metrics.caches import Cache
from bots_service.ports.keys import EVERY_DATASET, KeyRow, Rate, RateLimits, Scope, reaches
from bots_service.usecases.known_keys import KnownKeys

SHAPE = re.compile("bots_([0-9a-f]{16})_[0-9a-f]{64}")  # an id, and 32 random bytes
STATIC_KEY = "BOTS_ADMIN_KEY"  # stands for its id where one is told; no key that was made has such an id


def digest_of(key: str) -> bytes:
    """Return what tells a key from all others, and doesn't tell the key."""
    return hashlib.sha256(key.encode()).digest()


_NO_DIGEST = digest_of("")


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever sent a request.

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
            raise ForbiddenError(f"this key does not reach dataset {dataset[:128]!r}, only {', '.join(self.datasets)}")

    def require_every_dataset(self) -> None:
        """Check that the caller reaches every dataset.

        Raises:
            ForbiddenError: it doesn't.
        """
        if EVERY_DATASET not in self.datasets:
            raise ForbiddenError(f"this takes a key for every dataset, {EVERY_DATASET!r}")


ANYBODY = Caller(None, frozenset(Scope), (EVERY_DATASET,))
OPERATOR = Caller(STATIC_KEY, frozenset({Scope.ADMIN}), (EVERY_DATASET,), STATIC_KEY)


@dataclass(frozen=True, slots=True)
class Authenticate:
    """Tell who calls, from memory: a request costs a hash and a comparison, and a key with a rate its count.

    cache: counts how often a key was known.
    admin_digest: of the key that the operator set, None without one.
    """

    known: KnownKeys
    limits: RateLimits
    cache: Cache
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
            RateLimitedError: it comes too often.
        """
        if self.is_open:
            return ANYBODY
        if presented is None:
            raise UnauthenticatedError("keys guard this service; send Authorization: Bearer KEY")
        digest = digest_of(presented)
        if self._is_operators(digest):
            return OPERATOR
        row = await self._known(presented)
        # The same work for an id that nobody has.
        is_right = hmac.compare_digest(digest, _NO_DIGEST if row is None else row.digest)
        if row is None or not is_right or (row.expires_at is not None and row.expires_at <= self.clock()):
            raise UnauthenticatedError("this key is unknown, expired or revoked")
        if row.rate is not None:
            await self._require_rate(row.id, row.rate)
        return Caller(row.id, row.scopes, row.datasets, row.name, row.expires_at)

    async def _known(self, presented: str) -> KeyRow | None:
        """Return the key that has the id in this one. Only an id can send us to SQL, and only now and then."""
        shape = SHAPE.fullmatch(presented)
        if shape is None:
            return None
        is_known = self.known.get(shape[1]) is not None
        self.cache.looked_up(found=is_known)
        if not is_known:
            await self.known.look_again()
        return self.known.get(shape[1])

    async def _require_rate(self, key_id: str, rate: Rate) -> None:
        wait_s = await self.limits.take(key_id, rate)
        if wait_s > 0:
            message = f"this key may call {rate.per_second:g} times a second, {rate.burst} at once"
            raise RateLimitedError(message, retry_after_s=wait_s)
