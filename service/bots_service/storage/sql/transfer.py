"""Journals as they are stored, read for an export; and staged by an import, then moved into a dataset at once."""

from typing import Annotated, NamedTuple

from msgspec import Meta, Raw, Struct
from sqlalchemy import Connection, delete, select, update
from sqlalchemy.exc import IntegrityError

from bots_service.core.entries import Entry
from bots_service.core.receipt import Receipt
from bots_service.core.run_settings import RunSettings
from bots_service.core.summary import BINS, RunFindings, UniformEstimate
from bots_service.errors import DamagedStateError
from bots_service.records import DatasetRow, EntryKind, IdempotencyKey, RunRow
from bots_service.storage.sql.datasets import changed_meanwhile, stage_gone
from bots_service.storage.sql.journal import FoldedEntry, append
from bots_service.storage.sql.runs import insert_run, lock_dataset, require_room_for_run, run_of, standing_run
from bots_service.storage.sql.store import Store, reading, writing, writing_once
from bots_service.storage.sql.tables import RUNS, datasets, journal, runs

# A value that another database can't store is refused before it gets there.
Count = Annotated[int, Meta(ge=0, le=2**53)]
Small = Annotated[int, Meta(ge=0, lt=2**31)]
Moment = Annotated[float, Meta(ge=0, le=1e11)]  # seconds since 1970, UTC
Share = Annotated[float, Meta(ge=0, le=1)]
Total = Annotated[float, Meta(ge=0, le=1e15)]
Key = Annotated[str, Meta(pattern=r"^[ -~]{1,128}\Z")]
Text = Annotated[str, Meta(pattern=r"^[^\0]*\Z")]


class SavedEntry(Struct, frozen=True, omit_defaults=True):
    """A journal entry as stored in SQL.

    body: as JSON; key, fingerprint: of its report.
    uniform, expected, distribution: the estimate of uniform sampling after it, and what it comes from.
    findings: what the service found against the run.
    """

    seq: Count
    epoch: Small
    profiles: Small
    created_at: Moment
    kind: EntryKind
    body: Raw
    key: Key | None = None
    fingerprint: Text | None = None
    uniform: Share | None = None
    expected: Total | None = None
    distribution: Annotated[tuple[Share, ...], Meta(max_length=BINS)] | None = None
    findings: RunFindings | None = None

    def folded(self, entry: Entry, receipt: Receipt) -> FoldedEntry:
        key = None if self.key is None else IdempotencyKey(self.key, self.fingerprint or "")
        uniform = UniformEstimate(self.uniform, self.expected, self.distribution)
        return FoldedEntry(entry, receipt, key, uniform, self.findings, self.created_at)


class Moved(NamedTuple):
    """The result of an import. replaced: the empty run in whose place it stands."""

    run: RunRow
    replaced: RunRow | None


PAGE = 50  # entries at a time: a report's body may take MBs, and drivers fetch a whole result at once
STAGED = "staged"  # the name of a run on a stage
TOLD = ("evaluations", "finished_seq")  # of a run's row, that no entry says
_SAVED = select(*(journal.c[name] for name in SavedEntry.__struct_fields__))


class SqlTransfers(Store):
    """Journals on their way out of a database, and into one.

    A stage is a dataset without a name, so its run is nobody's until it is finished.
    """

    @reading
    def entries(self, connection: Connection, run: RunRow, seq: int, up_to: int) -> list[SavedEntry]:
        """Return the next entries behind `seq` in order, none beyond `up_to`."""
        page = _SAVED.where(journal.c.run_id == run.id, journal.c.seq > seq, journal.c.seq <= min(up_to, seq + PAGE))
        rows = connection.execute(page.order_by(journal.c.seq)).mappings()
        return [SavedEntry(**{**row, "body": Raw(row["body"].encode())}) for row in rows]

    @writing
    def add_run(self, connection: Connection, stage: int, settings: RunSettings) -> RunRow:
        is_stage = (datasets.c.id == stage) & datasets.c.name.is_(None)
        if connection.scalar(select(datasets.c.id).where(is_stage)) is None:
            raise stage_gone()
        return _run(connection, insert_run(connection, stage, STAGED, settings))

    async def append(self, run: RunRow, folded: list[FoldedEntry]) -> None:
        try:
            await self._append(run, folded)
        except IntegrityError as error:
            raise DamagedStateError(f"two entries clash: {error.orig}") from error

    @writing
    def _append(self, connection: Connection, run: RunRow, folded: list[FoldedEntry]) -> None:
        if connection.scalar(select(runs.c.id).where(runs.c.id == run.id)) is None:
            raise stage_gone()
        append(connection, run.id, folded, 0.0)

    @writing_once
    def finish(self, connection: Connection, dataset: DatasetRow, name: str, stage: int, run: RunRow) -> Moved:
        """Move the staged run into a dataset, in place of an empty one of that name, in one transaction."""
        lock_dataset(connection, dataset.id)
        version = connection.scalar(select(datasets.c.version).where(datasets.c.id == dataset.id))
        if version != dataset.version:
            raise changed_meanwhile(dataset)
        replaced = standing_run(connection, dataset.id, name, "import under another name")
        if replaced is not None:
            connection.execute(delete(runs).where(runs.c.id == replaced.id))
        require_room_for_run(connection, dataset.id, self.capacity)
        staged = update(runs).where(runs.c.id == run.id, runs.c.dataset_id == stage)
        moved = {"dataset_id": dataset.id, "name": name, **{each: getattr(run, each) for each in TOLD}}
        if connection.execute(staged, moved).rowcount == 0:
            raise stage_gone()
        connection.execute(delete(datasets).where(datasets.c.id == stage, datasets.c.name.is_(None)))
        return Moved(_run(connection, run.id), replaced)


def _run(connection: Connection, run_id: int) -> RunRow:
    return run_of(connection.execute(RUNS.where(runs.c.id == run_id)).one())
