"""What a backup holds, read from SQL."""

import json

from sqlalchemy import Connection, bindparam, func, select

from bots_service.errors import UnknownDatasetError
from bots_service.ports.backup import Cut, SavedEntry, SavedParent, SavedReceipt, SavedRun
from bots_service.ports.records import RunRow
from bots_service.storage.database import Database, SqlRow
from bots_service.storage.dataset_rows import COLUMNS, dataset_of, retired_of
from bots_service.storage.run_rows import run_of
from bots_service.storage.tables import datasets, journal, receipts, runs

MOST_ROWS = 1000  # at a time
MOST_BYTES = 4 * 2**20  # of entries at a time; one that is larger comes alone

_DATASET = select(*COLUMNS).where(datasets.c.name == bindparam("dataset"))
_RUNS = select(runs).where(runs.c.dataset_id == bindparam("dataset")).order_by(runs.c.name)
_BEHIND = (
    journal.c.run_id == bindparam("run"),
    journal.c.seq > bindparam("after"),
    journal.c.seq <= bindparam("up_to"),
)
_SIZES = select(journal.c.seq, func.length(journal.c.body)).where(*_BEHIND).order_by(journal.c.seq).limit(MOST_ROWS)
_ENTRIES = select(*(journal.c[name] for name in SavedEntry.__struct_fields__)).where(*_BEHIND).order_by(journal.c.seq)
_RECEIPTS = (
    select(*(receipts.c[name] for name in SavedReceipt.__struct_fields__))
    .where(
        receipts.c.run_id == bindparam("run"),
        receipts.c.seq > bindparam("after"),
        receipts.c.seq <= bindparam("up_to"),
    )
    .order_by(receipts.c.seq)
    .limit(MOST_ROWS)
)


class SqlExports:
    """An Exports."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def cut(self, dataset: str) -> Cut:
        """Return the dataset and its runs as of one moment."""

        def job(connection: Connection) -> Cut:
            row = connection.execute(_DATASET, {"dataset": dataset}).one_or_none()
            if row is None:
                raise UnknownDatasetError(f"no dataset {dataset!r}")
            found = connection.execute(_RUNS, {"dataset": row.id}).all()
            return Cut(dataset_of(row), retired_of(connection, row.id), [(run_of(run), _saved(run)) for run in found])

        return await self._database.read(job)

    async def entries(self, run: RunRow, seq: int, up_to: int) -> list[SavedEntry]:
        """Return some entries behind `seq` in order, none beyond `up_to`; as many as fit into a few megabytes."""

        def job(connection: Connection) -> list[SavedEntry]:
            values = {"run": run.id, "after": seq, "up_to": up_to}
            sizes = connection.execute(_SIZES, values).all()
            last = _last_within([(found, size) for found, size in sizes], seq)
            return [SavedEntry(*row) for row in connection.execute(_ENTRIES, {**values, "up_to": last})]

        return await self._database.read(job)

    async def receipts(self, run: RunRow, seq: int, up_to: int) -> list[SavedReceipt]:
        """Return some receipts behind `seq` in order, none beyond `up_to`."""
        values = {"run": run.id, "after": seq, "up_to": up_to}
        return await self._database.read(
            lambda connection: [SavedReceipt(*row) for row in connection.execute(_RECEIPTS, values)]
        )


def _last_within(sizes: list[tuple[int, int]], last: int) -> int:
    """Return the last seq of so many entries as fit: at least one, if there is one."""
    total = 0
    for place, (seq, size) in enumerate(sizes):
        total += size
        if place > 0 and total > MOST_BYTES:
            break
        last = seq
    return last


def _saved(row: SqlRow) -> SavedRun:
    run = run_of(row)
    parent = None if run.parent is None else SavedParent(run.parent.run, run.parent.step, run.parent.seq)
    return SavedRun(
        run.name, run.uid, json.loads(row.settings), run.head, run.epoch, row.pruned, run.created_at, parent
    )
