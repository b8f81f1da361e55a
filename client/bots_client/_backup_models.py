"""What the service answers about backups and pruning, as frozen values."""

from dataclasses import dataclass


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
