"""API keys: scopes and datasets."""

from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase

EVERY_DATASET = "*"


class Scope(StrEnum):
    """What a key may do; `admin` may do everything."""

    READ = "read"
    SELECT = "select"
    REPORT = "report"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key as stored in SQL. Times are seconds since 1970, UTC.

    id: public part of the key.
    digest: sha256 of the key. A slow hash would not be safer, because the key is long and random.
    datasets: patterns of names; `*` matches any characters, `?` one. One such as "guru/alice-*" is for runs of
        datasets.
    """

    id: str
    name: str
    digest: bytes = field(repr=False)
    scopes: frozenset[Scope]
    datasets: tuple[str, ...]
    created_at: float
    expires_at: float | None
    revoked_at: float | None = None


def reaches(patterns: tuple[str, ...], dataset: str) -> bool:
    """Return whether one of the patterns matches a dataset's name: it may be for some of its runs alone."""
    return any(fnmatchcase(dataset, pattern.partition("/")[0]) for pattern in patterns)
