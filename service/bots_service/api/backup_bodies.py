"""The bodies around backups and pruning."""

from typing import Annotated

from msgspec import Meta, Struct

from bots_service.ports.backup import Imported
from bots_service.usecases.prune import PrunedRun


class ImportedRun(Struct, frozen=True):
    """A run that an import made. seq: of its last journal entry."""

    run: str
    seq: int
    epoch: int


class ImportAnswer(Struct, frozen=True):
    """What an import made. tasks: how many of the dataset can be selected."""

    dataset: str
    tasks: int
    runs: list[ImportedRun]

    @classmethod
    def of(cls, imported: Imported) -> "ImportAnswer":
        """Return the answer for what was made."""
        runs = [ImportedRun(row.name, row.head, row.epoch) for row in imported.runs]
        return cls(imported.dataset.name, imported.dataset.live, runs)


class PruneRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What shall go. dry_run: only tell; keep_journal_days: instead of the configured age."""

    dry_run: bool = False
    keep_journal_days: Annotated[float, Meta(gt=0, le=36_500)] | None = None


class Pruned(Struct, frozen=True):
    """Journal entries that went of a run. seq: the entry behind which its journal begins now."""

    dataset: str
    run: str
    entries: int
    seq: int

    @classmethod
    def of(cls, pruned: PrunedRun) -> "Pruned":
        """Return the answer for a run."""
        return cls(pruned.dataset, pruned.run, pruned.entries, pruned.seq)


class PruneAnswer(Struct, frozen=True):
    """What went, or would go, of which runs."""

    dry_run: bool
    runs: list[Pruned]
