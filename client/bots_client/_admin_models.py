"""Answers about datasets, backups, API keys and the service, as frozen dataclasses.

Unknown fields of an answer are ignored. Fields with a default may be missing from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A pool of tasks under a name.

    tasks: how many can be selected; retired: how many no longer can.
    offset_tags: the tags that tell profiles apart; a tracker gives each an offset.
    profiles: how many different combinations of reference pass rates and offset tags there are.
    tags: how many tasks bear each tag.
    digest: of the content; equal for equal pools.
    """

    name: str
    tasks: int
    description: str = ""
    reference_models: tuple[str, ...] = ()
    retired: int = 0
    offset_tags: tuple[str, ...] = ()
    profiles: int = 0
    tags: Mapping[str, int] = field(default_factory=dict)
    digest: str = ""
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolChange:
    """What appending or retiring tasks did; tasks: how many can be selected now."""

    dataset: str
    tasks: int
    added: int = 0
    retired: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A stored state of a run, from which recovery starts."""

    seq: int
    epoch: int
    step: int
    bytes: int = 0
    checksum: str = ""
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRun:
    """A run that came out of a backup. seq: of the last entry of its journal."""

    run: str
    seq: int
    epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came out of a backup. tasks: how many of the dataset can be selected."""

    dataset: str
    tasks: int
    runs: tuple[ImportedRun, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedRun:
    """Journal entries that went of a run. seq: the entry behind which its journal begins now."""

    dataset: str
    run: str
    entries: int
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """What went, or would go, of which runs."""

    dry_run: bool
    runs: tuple[PrunedRun, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimit:
    """How often a key may call; burst: calls at once, after a rest."""

    per_second: float
    burst: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key, without what makes it one.

    scopes: of read, select, report, admin; the last may do everything.
    datasets: patterns of the names that it is good for.
    rate_limit: None: as often as it likes.
    """

    id: str
    name: str
    scopes: tuple[str, ...]
    datasets: tuple[str, ...]
    created_at: datetime
    rate_limit: RateLimit | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApiKey(ApiKey):
    """A key that was just made.

    key: what to send. The service tells it once and keeps only its digest; None if that answer was lost on its way and
        asked for again: revoke the key then, and make another.
    """

    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhoAmI:
    """Whoever calls.

    guarded: whether keys guard the service; without them nobody has a name, and everybody may do everything.
    scopes, datasets: as of an `ApiKey`.
    """

    guarded: bool
    scopes: tuple[str, ...]
    datasets: tuple[str, ...]
    name: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """What the service runs on; draws can be repeated on the same version of numpy."""

    version: str
    python: str = ""
    numpy: str = ""
    schema: str | int | None = None
