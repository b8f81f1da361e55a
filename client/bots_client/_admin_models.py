"""Responses about datasets, imports, API keys and the service, as frozen dataclasses.

Unknown fields of a response are ignored. Fields with a default may be missing from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """Predictions of a dataset that new runs see.

    tasks: how many tasks they are about; mean: of the predicted pass rates.
    parts: predictions are rounded to whole numbers of these parts of one.
    """

    name: str
    tasks: int
    mean: float
    parts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A pool of tasks under a name.

    tasks: number of tasks without retired ones; retired: number of retired tasks.
    offset_tags: tags that split profiles; a tracker learns an offset for each.
    profiles: number of distinct combinations of reference pass rates and offset tags.
    tags: number of tasks with each tag.
    digest: hash of the tasks; equal pools have equal digests.
    repeatable: whether tasks are handed out again without waiting.
    predictions: those that new runs see.
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
    repeatable: bool = False
    predictions: tuple[Predicted, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolChange:
    """The result of appending, retiring or restoring tasks; tasks: number of tasks now, without retired ones."""

    dataset: str
    tasks: int
    added: int = 0
    retired: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subset:
    """Some of a dataset's tasks.

    subset: its name, for `select`; None if the dataset does not have some of the tasks, and nothing was kept.
    tasks: how many of the tasks the dataset has, retired ones included; retired: how many of these are retired.
    others: how many tasks the dataset has besides them.
    missing: places of the tasks that the dataset does not have, in the order in which they were sent, from 0.
    """

    dataset: str
    subset: str | None
    tasks: int
    retired: int = 0
    others: int = 0
    missing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A stored state of a run; recovery starts from it."""

    seq: int
    epoch: int
    step: int
    bytes: int = 0
    checksum: str = ""
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRun:
    """An imported run. seq: last entry of its journal."""

    dataset: str
    run: str
    seq: int
    epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PrunedRun:
    """Removed journal entries of one run. entries: how many; seq: the last one removed."""

    dataset: str
    run: str
    entries: int
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """The removed journal entries of all runs; with dry_run, those that would be removed."""

    dry_run: bool
    runs: tuple[PrunedRun, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """An API key without its secret.

    scopes: of read, select, report and admin; admin may do everything.
    datasets: patterns of dataset names that it gives access to.
    """

    id: str
    name: str
    scopes: tuple[str, ...]
    datasets: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApiKey(ApiKey):
    """A new API key.

    key: the secret to send. The service returns it once and stores only its digest. None if that response was lost and
        this one answers a retry: revoke the key and create another.
    """

    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhoAmI:
    """The caller.

    guarded: whether the service has keys; without keys, anyone may do everything, and `name` is None.
    scopes, datasets: as in `ApiKey`.
    """

    guarded: bool
    scopes: tuple[str, ...]
    datasets: tuple[str, ...]
    name: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """The versions of the service and its parts; equal seeds give equal selections with equal versions of numpy."""

    version: str
    python: str = ""
    numpy: str = ""
    schema: str | int | None = None
