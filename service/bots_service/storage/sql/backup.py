"""What a backup holds, read from SQL; and staged in SQL, then made visible at once."""

import asyncio
import dataclasses
import json
import time
from collections.abc import Callable

import msgspec
from sqlalchemy import Connection, bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from bots_service.core.arrays import Tasks
from bots_service.core.entries import Entry
from bots_service.core.predictions import Predictions
from bots_service.core.receipt import Receipt
from bots_service.core.run_settings import RunSettings
from bots_service.errors import (
    BusyError,
    DamagedStateError,
    DatasetExistsError,
    RunHasHistoryError,
    UnknownDatasetError,
)
from bots_service.ports.backup import Cut, Imported, SavedEntry, SavedParent, SavedReceipt, SavedRun
from bots_service.ports.keys import EVERY_DATASET
from bots_service.ports.records import Capacity, DatasetFacts, DatasetRow, IdempotencyKey, RunRow, SnapshotRow
from bots_service.storage.sql import predictions
from bots_service.storage.sql.answers import keeping_result
from bots_service.storage.sql.capacity import require_room_for_dataset, require_room_for_run
from bots_service.storage.sql.codecs import KINDS, decode_body
from bots_service.storage.sql.database import Database, Job, Result, SqlRow
from bots_service.storage.sql.datasets import COLUMNS, dataset_of, facts_text, retired_blob, retired_of, stage_gone
from bots_service.storage.sql.history import receipt_of
from bots_service.storage.sql.runs import DEFAULT_RUN, insert_run, keys_text, new_id, new_uid, parent_columns, run_of
from bots_service.storage.sql.tables import datasets, journal, receipts, retired_tasks, runs, snapshots

MOST_ROWS = 1000  # at a time
MOST_BYTES = 4 * 2**20  # of entries at a time; one that is larger comes alone

_ONE_DATASET = select(*COLUMNS).where(datasets.c.name == bindparam("dataset"))
_ITS_RUNS = select(runs).where(runs.c.dataset_id == bindparam("dataset")).order_by(runs.c.name)
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
            row = connection.execute(_ONE_DATASET, {"dataset": dataset}).one_or_none()
            if row is None:
                raise UnknownDatasetError(f"no dataset {dataset!r}")
            found = connection.execute(_ITS_RUNS, {"dataset": row.id}).all()
            made = [(run_of(run), _saved(run)) for run in found]
            return Cut(dataset_of(row), retired_of(connection, row.id), made, predictions.all_of(connection, row.id))

        return await self._database.read(job)

    async def entries(self, run: RunRow, seq: int, up_to: int) -> list[SavedEntry]:
        """Return some entries behind `seq` in order, none beyond `up_to`; as many as fit into a few megabytes."""

        def job(connection: Connection) -> list[SavedEntry]:
            values = {"run": run.id, "after": seq, "up_to": up_to}
            sizes = connection.execute(_SIZES, values).all()
            last = last_within([(found, size) for found, size in sizes], seq)
            return [SavedEntry(*row) for row in connection.execute(_ENTRIES, {**values, "up_to": last})]

        return await self._database.read(job)

    async def receipts(self, run: RunRow, seq: int, up_to: int) -> list[SavedReceipt]:
        """Return some receipts behind `seq` in order, none beyond `up_to`."""
        values = {"run": run.id, "after": seq, "up_to": up_to}
        return await self._database.read(
            lambda connection: [SavedReceipt(*row) for row in connection.execute(_RECEIPTS, values)]
        )


def last_within(sizes: list[tuple[int, int]], last: int) -> int:
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
    parent = None if run.parent is None else SavedParent(*dataclasses.astuple(run.parent))
    settings, known = json.loads(row.settings), tuple((key.name, key.digest) for key in run.predictions)
    return SavedRun(run.name, run.uid, settings, run.head, run.epoch, row.pruned, run.created_at, parent, known)


_DATASET = select(*COLUMNS).where(datasets.c.id == bindparam("dataset"))
_STAGE = select(datasets.c.id).where(datasets.c.id == bindparam("stage"), datasets.c.name.is_(None))
_STAGE_OF_RUN = (
    select(runs.c.id)
    .join(datasets, datasets.c.id == runs.c.dataset_id)
    .where(runs.c.id == bindparam("run"), datasets.c.name.is_(None))
)
_TAKEN = select(datasets.c.id).where(datasets.c.name == bindparam("new_name"))
_NAME = (
    update(datasets)
    .where(datasets.c.id == bindparam("stage"), datasets.c.name.is_(None))
    .values(
        name=bindparam("new_name"),
        version=bindparam("new_version"),
        facts=bindparam("new_facts"),
        created_at=bindparam("made_at"),
    )
)
_COUNT_RETIRED = update(datasets).where(datasets.c.id == bindparam("stage")).values(retired=bindparam("count"))
_DROP_STAGE = delete(datasets).where(datasets.c.id == bindparam("stage"), datasets.c.name.is_(None))
_RUNS = select(runs).where(runs.c.dataset_id == bindparam("dataset")).order_by(runs.c.name)
_BY_NAME = _RUNS.where(runs.c.name == bindparam("run_name")).with_for_update()
_UIDS = select(runs.c.uid).where(runs.c.uid.in_(bindparam("uids", expanding=True)))
_SET_UID = update(runs).where(runs.c.id == bindparam("run")).values(uid=bindparam("new_uid"))
_MOVE_RUN = (
    update(runs)
    .where(runs.c.id == bindparam("run"), runs.c.dataset_id == bindparam("stage"))
    .values(dataset_id=bindparam("dataset"), name=bindparam("new_name"))
)
_DELETE_RUN = delete(runs).where(runs.c.id == bindparam("run"))


class SqlImports:
    """An Imports. A stage is a dataset without a name, so its runs are nobody's until it is finished."""

    def __init__(
        self, database: Database, capacity: Capacity | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        """Import into a database.

        Args:
            database: which.
            capacity: how much is kept at most.
            clock: seconds since 1970, UTC.
        """
        self._database = database
        self._capacity = capacity or Capacity()
        self._clock = clock

    async def retire(self, stage: int, tasks: Tasks) -> None:
        """Retire tasks of the stage."""
        blob, count = retired_blob(tasks), len(tasks)

        def job(connection: Connection) -> None:
            _require(connection, stage)
            connection.execute(insert(retired_tasks), {"dataset_id": stage, "tasks": blob})
            connection.execute(_COUNT_RETIRED, {"stage": stage, "count": count})

        await self._write(job)

    async def add_predictions(self, stage: int, content: bytes) -> Predictions:
        """Put predictions on the stage, and return them as they will be read, without a name."""
        column = await asyncio.to_thread(predictions.predictions_in, "", content)

        def job(connection: Connection) -> None:
            _require(connection, stage)
            predictions.keep(connection, stage, column.digest, content)

        await self._write(job)
        return column

    async def add_run(self, stage: int, run: SavedRun) -> int:
        """Put a run on the stage and return its number."""
        row = msgspec.structs.asdict(run)
        row["predictions"] = keys_text(run.predictions)
        parent = row.pop("parent")
        if parent is not None:
            row |= parent_columns(parent)
        row |= {"uid": new_uid(), "settings": json.dumps(run.settings, separators=(",", ":"), allow_nan=False)}

        def job(connection: Connection) -> int:
            _require(connection, stage)
            return new_id(connection.execute(insert(runs), {**row, "dataset_id": stage}))

        return await self._write(job)

    async def add_entries(self, run_id: int, rows: list[SavedEntry]) -> list[Entry]:
        """Put the next entries into a staged run's journal, and return them as they will be read."""
        entries = [Entry(row.seq, row.epoch, row.profiles, decode_body(row.body)) for row in rows]
        for row, entry in zip(rows, entries, strict=True):
            if KINDS[type(entry.body)] != row.kind:
                raise DamagedStateError(f"journal entry {row.seq} is no {row.kind[:20]!r}")
        await self._insert(insert(journal), run_id, [msgspec.structs.asdict(row) for row in rows])
        return entries

    async def add_receipts(self, run_id: int, rows: list[SavedReceipt]) -> list[Receipt]:
        """Put receipts into a staged run's history, and return them as they will be read."""
        await self._insert(insert(receipts), run_id, [msgspec.structs.asdict(row) for row in rows])
        return list(map(receipt_of, rows))

    async def add_snapshot(self, run_id: int, row: SnapshotRow, blob: bytes) -> None:
        """Put a stored state to a staged run."""
        values = {name: getattr(row, name) for name in SnapshotRow.__slots__}
        await self._insert(insert(snapshots), run_id, [{**values, "blob": blob}])

    async def taken(self, uids: list[str]) -> set[str]:
        """Return those of the uids that a run has."""
        return await self._database.read(lambda connection: _taken(connection, uids))

    async def finish_dataset(
        self,
        name: str,
        stage: int,
        saved: tuple[DatasetFacts, int, float],
        uids: dict[int, str],
        idempotency_key: IdempotencyKey | None,
    ) -> Imported:
        """Make the stage a dataset, in one transaction."""
        facts, version, created_at = saved

        def job(connection: Connection) -> Imported:
            if connection.execute(_TAKEN, {"new_name": name}).one_or_none() is not None:
                raise DatasetExistsError(f"dataset {name!r} exists; delete it, or import under another name")
            require_room_for_dataset(connection, self._capacity, (EVERY_DATASET,))
            values = {"new_name": name, "new_version": version, "new_facts": facts_text(facts), "made_at": created_at}
            if connection.execute(_NAME, {**values, "stage": stage}).rowcount == 0:
                raise stage_gone()
            _set_uids(connection, uids)
            made = list(map(run_of, connection.execute(_RUNS, {"dataset": stage})))
            if all(run.name != DEFAULT_RUN for run in made):
                known = facts.prediction_keys
                insert_run(connection, stage, DEFAULT_RUN, RunSettings(), self._clock(), known)
            require_room_for_run(connection, stage, self._capacity, more=0)
            return Imported(dataset_of(connection.execute(_DATASET, {"dataset": stage}).one()), made)

        return await self._finish(keeping_result(job, idempotency_key, self._clock))

    async def finish_run(
        self,
        dataset: DatasetRow,
        name: str,
        stage: int,
        uids: dict[int, str],
        idempotency_key: IdempotencyKey | None,
    ) -> Imported:
        """Move the one staged run into a dataset, in place of an empty one of that name, in one transaction."""
        (run_id,) = uids

        def job(connection: Connection) -> Imported:
            predictions.current(connection, dataset.id)  # nobody drops any meanwhile
            found = connection.execute(_DATASET, {"dataset": dataset.id}).one_or_none()
            if found is None or found.version != dataset.version:
                raise BusyError(f"dataset {dataset.name!r} was changed by another request at the same time; try again")
            replaced = _make_room(connection, dataset.id, name)
            require_room_for_run(connection, dataset.id, self._capacity)
            move = {"run": run_id, "stage": stage, "dataset": dataset.id, "new_name": name}
            if connection.execute(_MOVE_RUN, move).rowcount == 0:
                raise stage_gone()
            _set_uids(connection, uids)
            for digest, content in predictions.all_of(connection, stage).items():
                predictions.keep(connection, dataset.id, digest, content)
            connection.execute(_DROP_STAGE, {"stage": stage})
            moved = connection.execute(_BY_NAME, {"dataset": dataset.id, "run_name": name}).one()
            return Imported(dataset, [run_of(moved)], replaced)

        return await self._finish(keeping_result(job, idempotency_key, self._clock))

    async def _insert(self, statement: object, run_id: int, rows: list[dict[str, object]]) -> None:
        def job(connection: Connection) -> None:
            if connection.execute(_STAGE_OF_RUN, {"run": run_id}).one_or_none() is None:
                raise stage_gone()
            connection.execute(statement, [{**row, "run_id": run_id} for row in rows])  # type: ignore[call-overload]

        if rows:
            await self._write(job)

    async def _finish(self, job: Job[Imported]) -> Imported:
        try:
            return await self._database.write(job)
        except IntegrityError as error:
            raise BusyError("another request took the name at the same time; try again") from error

    async def _write(self, job: Job[Result]) -> Result:
        try:
            return await self._database.write(job)
        except IntegrityError as error:
            raise DamagedStateError(f"two rows clash: {error.orig}") from error


def _require(connection: Connection, stage: int) -> None:
    if connection.execute(_STAGE, {"stage": stage}).one_or_none() is None:
        raise stage_gone()


def _taken(connection: Connection, uids: list[str]) -> set[str]:
    return set(connection.execute(_UIDS, {"uids": uids}).scalars())


def _set_uids(connection: Connection, uids: dict[int, str]) -> None:
    """Restore the runs' uids, except those that another run has: a uid identifies one run."""
    taken = _taken(connection, list(uids.values()))
    for run_id, uid in uids.items():
        if uid not in taken:
            connection.execute(_SET_UID, {"run": run_id, "new_uid": uid})


def _make_room(connection: Connection, dataset_id: int, name: str) -> RunRow | None:
    """Delete the empty run of that name, if there is one, and return it."""
    found = connection.execute(_BY_NAME, {"dataset": dataset_id, "run_name": name}).one_or_none()
    if found is None:
        return None
    if found.head > 0:
        raise RunHasHistoryError(f"run {name!r} has {found.head} journal entries; import under another name")
    connection.execute(_DELETE_RUN, {"run": found.id})
    return run_of(found)
