"""Datasets in SQL."""

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

import msgspec
import numpy as np
from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from bots_service.core.arrays import Tasks, frozen
from bots_service.core.codec import pack, unpack
from bots_service.core.predictions import Predictions, PredictionsKey
from bots_service.core.run_settings import RunSettings
from bots_service.errors import BusyError, DatasetExistsError, UnknownDatasetError
from bots_service.keys import EVERY_DATASET
from bots_service.records import (
    AppendTasksResult,
    Capacity,
    CreateDatasetResult,
    DatasetFacts,
    DatasetRow,
    IdempotencyKey,
    RunRow,
    Subset,
    TaskBlock,
)
from bots_service.retention import STAGES_S
from bots_service.storage.sql import predictions, subsets
from bots_service.storage.sql.answers import keeping_result
from bots_service.storage.sql.capacity import require_room_for_dataset, require_room_for_tasks
from bots_service.storage.sql.codecs import decode_block, encode_block
from bots_service.storage.sql.database import Database, SqlRow
from bots_service.storage.sql.runs import (
    DEFAULT_RUN,
    insert_run,
    keys_text,
    new_id,
    new_uid,
    replace_empty_run,
    run_of,
)
from bots_service.storage.sql.tables import datasets, retired_tasks, runs, task_blocks

COLUMNS = tuple(datasets.c[name] for name in ("id", "name", "version", "retired", "created_at", "facts"))
_RETIRED = select(retired_tasks.c.tasks).where(retired_tasks.c.dataset_id == bindparam("dataset"))


def facts_text(facts: DatasetFacts) -> str:
    """Return the facts as JSON."""
    return msgspec.json.encode(facts).decode()


def dataset_of(row: SqlRow) -> DatasetRow:
    """Return the dataset that a row holds."""
    facts = msgspec.json.decode(row.facts, type=DatasetFacts)
    return DatasetRow(row.id, row.name, row.version, row.retired, row.created_at, facts)


def retired_of(connection: Connection, dataset_id: int) -> Tasks:
    """Return a dataset's retired tasks, sorted.

    Raises:
        DamagedStateError: the bytes don't match their checksum.
    """
    blob = connection.scalar(_RETIRED, {"dataset": dataset_id})
    tasks: Tasks = frozen(np.empty(0, np.int32)) if blob is None else unpack(blob)[1]["tasks"]
    return tasks


_NAME_STAGE = (
    update(datasets)
    .where(datasets.c.id == bindparam("stage"), datasets.c.name.is_(None))
    .values(name=bindparam("new_name"), version=1, facts=bindparam("new_facts"), created_at=bindparam("now"))
)
_RAISE_VERSION = update(datasets).where(
    datasets.c.id == bindparam("dataset"), datasets.c.version == bindparam("old_version")
)
_END = select(
    func.coalesce(func.max(task_blocks.c.position) + 1, 0).label("blocks"),
    func.coalesce(func.sum(task_blocks.c.count), 0).label("tasks"),
).where(task_blocks.c.dataset_id == bindparam("dataset"))
_ADD_BLOCK = insert(task_blocks)
_MOVE = (
    update(task_blocks)
    .where(task_blocks.c.dataset_id == bindparam("stage"))
    .values(
        dataset_id=bindparam("dataset"),
        position=task_blocks.c.position + bindparam("blocks"),
        first=task_blocks.c.first + bindparam("tasks"),
    )
)
_EMPTY_RUNS = select(runs).where(runs.c.dataset_id == bindparam("dataset"), runs.c.head == 0).with_for_update()
_DELETE_RETIRED = delete(retired_tasks).where(retired_tasks.c.dataset_id == bindparam("dataset"))


def stage_gone() -> BusyError:
    """Return the error for a stage that is no longer there."""
    return BusyError("the upload took more than a day and was dropped; send it again")


def _raise_version(connection: Connection, row: DatasetRow, **values: str | int) -> None:
    raised = _RAISE_VERSION.values(version=row.version + 1, **values)
    if connection.execute(raised, {"dataset": row.id, "old_version": row.version}).rowcount == 0:
        raise BusyError(f"dataset {row.name!r} was changed by another request at the same time; try again")


_BY_NAME = select(*COLUMNS).where(datasets.c.name == bindparam("dataset"))
_BY_ID = select(*COLUMNS).where(datasets.c.id == bindparam("dataset"))
_AFTER = select(*COLUMNS).where(datasets.c.name > bindparam("after")).order_by(datasets.c.name).limit(bindparam("most"))
_STAGE = insert(datasets)
_DROP_OLD_STAGES = delete(datasets).where(datasets.c.name.is_(None), datasets.c.created_at < bindparam("before"))
_DROP_STAGE = delete(datasets).where(datasets.c.name.is_(None), datasets.c.id == bindparam("dataset"))
_DELETE = delete(datasets).where(datasets.c.id == bindparam("dataset"))
_BLOCK = select(task_blocks).where(
    task_blocks.c.dataset_id == bindparam("dataset"), task_blocks.c.position == bindparam("this_position")
)


class SqlDatasets:
    """Datasets and their tasks.

    A write under an idempotency key keeps what it returns as the key's first answer, in its own transaction; here, and
    in the other stores. It raises KeyReusedError where the key came with another request before, and BusyError where
    the same request was answered meanwhile: the answer can be found then.
    """

    def __init__(self, database: Database, capacity: Capacity | None = None) -> None:
        """Keep datasets in a database. capacity: how much is kept at most."""
        self._database = database
        self._capacity = capacity or Capacity()

    async def get(self, name: str) -> DatasetRow:
        """Return the dataset of that name."""
        row = await self._database.read(
            lambda connection: connection.execute(_BY_NAME, {"dataset": name}).one_or_none()
        )
        if row is None:
            raise UnknownDatasetError(f"no dataset {name!r}")
        return dataset_of(row)

    async def after(self, name: str, limit: int) -> list[DatasetRow]:
        """Return up to `limit` datasets by name, beginning behind `name` ("" for the first)."""
        values = {"after": name, "most": limit}
        return await self._database.read(lambda connection: list(map(dataset_of, connection.execute(_AFTER, values))))

    async def stage(self) -> int:
        """Open a place for blocks that belong to no dataset yet, and return its number.

        Stages of uploads that died are dropped by the way.
        """

        def job(connection: Connection) -> int:
            now = time.time()
            connection.execute(_DROP_OLD_STAGES, {"before": now - STAGES_S})
            return new_id(connection.execute(_STAGE, {"version": 0, "retired": 0, "created_at": now}))

        return await self._database.write(job)

    async def add_block(self, stage: int, block: TaskBlock) -> None:
        """Put the next block on the stage."""
        body = await asyncio.to_thread(encode_block, block)
        count, crc = len(block), zlib.crc32(body)

        def job(connection: Connection) -> None:
            end = connection.execute(_END, {"dataset": stage}).one()
            require_room_for_tasks(int(end.tasks) + count, self._capacity)
            row = {"dataset_id": stage, "position": end.blocks, "first": end.tasks, "count": count}
            connection.execute(_ADD_BLOCK, {**row, "body": body, "checksum": crc})

        await self._database.write(job)

    async def drop_stage(self, stage: int) -> None:
        """Drop the stage and its blocks; one that is gone already, or became a dataset, is fine."""
        await self._database.write(lambda connection: connection.execute(_DROP_STAGE, {"dataset": stage}).rowcount)

    async def create(
        self,
        name: str,
        stage: int,
        facts: DatasetFacts,
        idempotency_key: IdempotencyKey | None = None,
        *,
        within: tuple[str, ...] = (EVERY_DATASET,),
    ) -> CreateDatasetResult:
        """Make the staged blocks a dataset, with its run `default` on default settings, in one transaction.

        Where a dataset of the name has the same content, that one is returned; the stage stays.
        """

        def job(connection: Connection) -> CreateDatasetResult:
            standing = connection.execute(_BY_NAME, {"dataset": name}).one_or_none()
            if standing is not None:
                row = dataset_of(standing)
                if row.facts.digest != facts.digest:
                    raise DatasetExistsError(
                        f"dataset {name!r} exists with other content; delete it or choose another name"
                    )
                return CreateDatasetResult(row, created=False)
            require_room_for_dataset(connection, self._capacity, within)
            now = time.time()
            values = {"stage": stage, "new_name": name, "new_facts": facts_text(facts), "now": now}
            if connection.execute(_NAME_STAGE, values).rowcount == 0:
                raise stage_gone()
            insert_run(connection, stage, DEFAULT_RUN, RunSettings(), now)
            return CreateDatasetResult(_row(connection, stage), created=True)

        return await self._database.write(keeping_result(job, idempotency_key))

    async def append(
        self, row: DatasetRow, stage: int, facts: DatasetFacts, idempotency_key: IdempotencyKey | None = None
    ) -> AppendTasksResult:
        """Move the staged blocks to the end of the dataset and set its facts, in one transaction."""

        def job(connection: Connection) -> AppendTasksResult:
            require_room_for_tasks(facts.size, self._capacity)
            _raise_version(connection, row, facts=facts_text(facts))
            end = connection.execute(_END, {"dataset": row.id}).one()
            connection.execute(_MOVE, {"stage": stage, "dataset": row.id, "blocks": end.blocks, "tasks": end.tasks})
            if connection.execute(_DELETE, {"dataset": stage}).rowcount == 0:
                raise stage_gone()
            return AppendTasksResult(_row(connection, row.id), facts.size - row.facts.size)

        return await self._database.write(keeping_result(job, idempotency_key))

    async def retire(self, row: DatasetRow, tasks: Tasks, idempotency_key: IdempotencyKey | None = None) -> DatasetRow:
        """Mark tasks as retired (those that are already stay so)."""
        return await self._change_retired(np.union1d, row, tasks, idempotency_key)

    async def restore(self, row: DatasetRow, tasks: Tasks, idempotency_key: IdempotencyKey | None = None) -> DatasetRow:
        """Mark tasks as not retired (those that are not stay so)."""
        return await self._change_retired(np.setdiff1d, row, tasks, idempotency_key)

    async def _change_retired(
        self,
        change: Callable[[Tasks, Tasks], Tasks],
        row: DatasetRow,
        tasks: Tasks,
        idempotency_key: IdempotencyKey | None,
    ) -> DatasetRow:
        own = tasks.copy()

        def job(connection: Connection) -> DatasetRow:
            retired = change(retired_of(connection, row.id), own).astype(np.int32)
            _raise_version(connection, row, retired=len(retired))
            connection.execute(_DELETE_RETIRED, {"dataset": row.id})
            connection.execute(insert(retired_tasks), {"dataset_id": row.id, "tasks": pack({}, {"tasks": retired})})
            return _row(connection, row.id)

        return await self._database.write(keeping_result(job, idempotency_key))

    async def put_predictions(
        self,
        row: DatasetRow,
        facts: DatasetFacts,
        column: Predictions | None,
        idempotency_key: IdempotencyKey | None = None,
    ) -> tuple[DatasetRow, list[RunRow]]:
        """Set the predictions that new runs see, and give them to the runs whose journal is empty.

        Args:
            row: of the dataset.
            facts: from now on.
            column: predictions that were not there, None if some are removed.
            idempotency_key: keeps the dataset's row.

        Returns:
            The dataset, and the runs with an empty journal as they were before they saw it too.
        """
        new = None if column is None else (column.digest, await asyncio.to_thread(predictions.content_of, column))
        empty: list[RunRow] = []

        def job(connection: Connection) -> DatasetRow:
            _raise_version(connection, row, facts=facts_text(facts))
            if new is not None:
                predictions.keep(connection, row.id, *new)
            empty[:] = [run_of(found) for found in connection.execute(_EMPTY_RUNS, {"dataset": row.id})]
            for run in empty:
                # A new uid: what was made without these predictions must not be taken for this run's.
                values = {"uid": new_uid(), "predictions": keys_text(facts.prediction_keys)}
                replace_empty_run(connection, run.id, values)
            predictions.drop_unused(connection, row.id, facts.prediction_keys)
            return _row(connection, row.id)

        return await self._database.write(keeping_result(job, idempotency_key)), empty

    async def predictions(self, dataset_id: int, keys: Sequence[PredictionsKey]) -> list[Predictions]:
        """Return predictions that new runs see or that a run knows, in the order of the keys."""
        found = await self._database.read(lambda connection: predictions.read(connection, dataset_id, keys))
        return await asyncio.to_thread(lambda: [predictions.predictions_in(*each) for each in found])

    async def keep_subset(
        self, row: DatasetRow, subset: Subset, tasks: Tasks, idempotency_key: IdempotencyKey | None = None
    ) -> Subset:
        """Keep a subset under its name; one that is kept already counts as kept now."""
        content = await asyncio.to_thread(subsets.content_of, tasks)

        def job(connection: Connection) -> Subset:
            if subset.name is None:
                raise ValueError("a subset without a name")
            subsets.keep(connection, row.id, subset.name, content, time.time())
            return subset

        return await self._database.write(keeping_result(job, idempotency_key))

    async def subset(self, dataset_id: int, name: str) -> Tasks | None:
        """Return a subset's tasks, sorted; None if there is no such subset."""
        content = await self._database.read(lambda connection: subsets.read(connection, dataset_id, name))
        return None if content is None else await asyncio.to_thread(subsets.tasks_in, content)

    async def delete(self, row: DatasetRow, idempotency_key: IdempotencyKey | None = None) -> None:
        """Delete the dataset with its runs, journals and snapshots."""

        def job(connection: Connection) -> None:
            connection.execute(_DELETE, {"dataset": row.id})

        await self._database.write(keeping_result(job, idempotency_key))

    async def blocks(self, dataset_id: int) -> AsyncIterator[TaskBlock]:
        """Yield the dataset's blocks in order, one in memory at a time.

        Raises:
            UnknownDatasetError: the dataset was deleted meanwhile.
            DamagedStateError: a block does not match its checksum.
        """
        position = 0
        while (block := await self._database.read(partial(_block_at, dataset_id, position))) is not None:
            yield block
            position += 1

    async def retired(self, dataset_id: int) -> Tasks:
        """Return the retired tasks, sorted."""
        return await self._database.read(lambda connection: retired_of(connection, dataset_id))


def _row(connection: Connection, dataset_id: int) -> DatasetRow:
    return dataset_of(connection.execute(_BY_ID, {"dataset": dataset_id}).one())


def _block_at(dataset_id: int, position: int, connection: Connection) -> TaskBlock | None:
    row = connection.execute(_BLOCK, {"dataset": dataset_id, "this_position": position}).one_or_none()
    if row is not None:
        return decode_block(row.body, row.checksum)
    if connection.execute(_BY_ID, {"dataset": dataset_id}).one_or_none() is None:
        raise UnknownDatasetError("the dataset was deleted while it was read")
    return None
