"""API keys: who may do what to which datasets, and how often."""

from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Protocol

from bots_service.ports.records import IdempotencyKey

EVERY_DATASET = "*"


class Scope(StrEnum):
    """What a key may do; `admin` may do everything."""

    READ = "read"
    SELECT = "select"
    REPORT = "report"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Rate:
    """How often a key may call. burst: calls at once, after a rest."""

    per_second: float
    burst: int


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key as SQL knows it. Times are seconds since 1970, UTC.

    id: public; stands in the key.
    digest: sha256 of the key. It is long and random, so a slow hash would protect nothing more.
    datasets: patterns of names; `*` stands for any characters, `?` for one.
    """

    id: str
    name: str
    digest: bytes = field(repr=False)
    scopes: frozenset[Scope]
    datasets: tuple[str, ...]
    rate: Rate | None
    created_at: float
    expires_at: float | None
    revoked_at: float | None = None


@dataclass(frozen=True, slots=True)
class KeysInUse:
    """Keys that were not revoked. exist: whether there ever was a key, revoked or not."""

    exist: bool
    rows: tuple[KeyRow, ...]


def reaches(patterns: tuple[str, ...], dataset: str) -> bool:
    """Say whether one of the patterns fits a dataset's name."""
    return any(fnmatchcase(dataset, pattern) for pattern in patterns)


class Keys(Protocol):
    """Where keys are kept. Every method may raise StorageUnavailableError."""

    async def in_use(self) -> KeysInUse:
        """Return all keys that were not revoked."""
        ...

    async def after(self, key_id: str, limit: int) -> list[KeyRow]:
        """Return up to `limit` keys by id, revoked ones too, beginning behind `key_id` ("" for the first)."""
        ...

    async def add(self, row: KeyRow, *, first: bool, idempotency_key: IdempotencyKey | None = None) -> KeyRow:
        """Add a key.

        Args:
            row: the key.
            first: only if there never was one.
            idempotency_key: keeps the result.

        Raises:
            UnauthenticatedError: `first`, and there is one by now.
            LimitReachedError: no more are kept in use.
        """
        ...

    async def revoke(self, key_id: str, idempotency_key: IdempotencyKey | None = None) -> None:
        """Revoke a key; one that is revoked already stays so.

        Raises:
            UnknownApiKeyError: there never was one of this id.
        """
        ...


class RateLimits(Protocol):
    """Counts calls. Never raises: where a shared store is away, each process counts for itself."""

    async def hit(self, key_id: str, rate: Rate) -> float:
        """Count one call of a key, unless it comes too early.

        Returns:
            0 if it was counted, else in how many seconds it would be.
        """
        ...
