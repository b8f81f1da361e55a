"""Datasets in SQL."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from sqlalchemy import Connection, bindparam, delete, insert, select

from bots_service.core.arrays import Tasks
from bots_service.errors import UnknownDatasetError
from bots_service.ports.keys import EVERY_DATASET
from bots_service.ports.records import Capacity, DatasetFacts, DatasetRow, KeptAnswer, TaskBlock
from bots_service.storage import dataset_changes as changes
from bots_service.storage.block_codec import checksum, decode_block, encode_block
from bots_service.storage.database import Database
from bots_service.storage.dataset_rows import COLUMNS, dataset_of, retired_of
from bots_service.storage.room import require_room_for_dataset, require_room_for_tasks
from bots_service.storage.run_rows import new_id
from bots_service.storage.sql_answers import answered_once
from bots_service.storage.tables import datasets, task_blocks

STAGE_LIFETIME_S = 24 * 3600.0  # an upload that takes longer has died with its process

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
    """A Datasets."""

    def __init__(
        self, database: Database, capacity: Capacity | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        """Keep datasets in a database.

        Args:
            database: which.
            capacity: how much is kept at most.
            clock: seconds since 1970, UTC.
        """
        self._database = database
        self._capacity = capacity or Capacity()
        self._clock = clock

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
            now = self._clock()
            connection.execute(_DROP_OLD_STAGES, {"before": now - STAGE_LIFETIME_S})
            return new_id(connection.execute(_STAGE, {"version": 0, "retired": 0, "created_at": now}))

        return await self._database.write(job)

    async def add_block(self, stage: int, block: TaskBlock) -> None:
        """Put the next block on the stage."""
        body = await asyncio.to_thread(encode_block, block)
        count, crc = len(block), checksum(body)

        def job(connection: Connection) -> None:
            require_room_for_tasks(changes.add_block(connection, stage, count, body, crc), self._capacity)

        await self._database.write(job)

    async def drop_stage(self, stage: int) -> None:
        """Drop the stage and its blocks; one that is gone already, or became a dataset, is fine."""
        await self._database.write(lambda connection: connection.execute(_DROP_STAGE, {"dataset": stage}).rowcount)

    async def create(
        self,
        name: str,
        stage: int,
        facts: DatasetFacts,
        keep: KeptAnswer[DatasetRow] | None = None,
        *,
        within: tuple[str, ...] = (EVERY_DATASET,),
    ) -> DatasetRow:
        """Make the staged blocks a dataset, with its run `default` on default settings, in one transaction."""

        def job(connection: Connection) -> DatasetRow:
            changes.require_free(connection, name)
            require_room_for_dataset(connection, self._capacity, within)
            changes.create(connection, name, stage, facts, self._clock())
            return _row(connection, stage)

        return await self._database.write(answered_once(job, keep, self._clock))

    async def append(
        self, row: DatasetRow, stage: int, facts: DatasetFacts, keep: KeptAnswer[DatasetRow] | None = None
    ) -> DatasetRow:
        """Move the staged blocks to the end of the dataset and set its facts, in one transaction."""

        def job(connection: Connection) -> DatasetRow:
            require_room_for_tasks(facts.size, self._capacity)
            changes.append(connection, row, stage, facts)
            return _row(connection, row.id)

        return await self._database.write(answered_once(job, keep, self._clock))

    async def retire(self, row: DatasetRow, tasks: Tasks, keep: KeptAnswer[DatasetRow] | None = None) -> DatasetRow:
        """Mark tasks as retired (those that are already stay so)."""
        own = tasks.copy()

        def job(connection: Connection) -> DatasetRow:
            changes.retire(connection, row, own)
            return _row(connection, row.id)

        return await self._database.write(answered_once(job, keep, self._clock))

    async def delete(self, row: DatasetRow, keep: KeptAnswer[None] | None = None) -> None:
        """Delete the dataset with its runs, journals and snapshots."""

        def job(connection: Connection) -> None:
            connection.execute(_DELETE, {"dataset": row.id})

        await self._database.write(answered_once(job, keep, self._clock))

    async def blocks(self, dataset_id: int) -> AsyncIterator[TaskBlock]:
        """Yield the dataset's blocks in order, one in memory at a time.

        Raises:
            UnknownDatasetError: the dataset was deleted meanwhile.
            DamagedStateError: a block does not match its checksum.
        """
        position = 0
        while (block := await self._database.read(_block_at(dataset_id, position))) is not None:
            yield block
            position += 1

    async def retired(self, dataset_id: int) -> Tasks:
        """Return the retired tasks, sorted."""
        return await self._database.read(lambda connection: retired_of(connection, dataset_id))


def _row(connection: Connection, dataset_id: int) -> DatasetRow:
    return dataset_of(connection.execute(_BY_ID, {"dataset": dataset_id}).one())


def _block_at(dataset_id: int, position: int) -> Callable[[Connection], TaskBlock | None]:
    def job(connection: Connection) -> TaskBlock | None:
        row = connection.execute(_BLOCK, {"dataset": dataset_id, "this_position": position}).one_or_none()
        if row is not None:
            return decode_block(row.body, row.checksum)
        if connection.execute(_BY_ID, {"dataset": dataset_id}).one_or_none() is None:
            raise UnknownDatasetError("the dataset was deleted while it was read")
        return None

    return job
