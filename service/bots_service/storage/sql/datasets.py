"""Datasets in SQL: their tasks in blocks, and subsets."""

import asyncio
import time
import zlib
from collections.abc import AsyncIterator

import numpy as np
from sqlalchemy import Connection, delete, func, insert, select, text, update

from bots_service.core.arrays import NO_TASKS, Floats, Tasks
from bots_service.core.codec import pack, unpack
from bots_service.core.run_settings import RunSettings
from bots_service.errors import (
    BusyError,
    DamagedStateError,
    DatasetExistsError,
    LimitReachedError,
    UnknownDatasetError,
)
from bots_service.keys import EVERY_DATASET, reaches
from bots_service.records import Capacity, DatasetFacts, DatasetRow, Subset, TaskBlock
from bots_service.retention import STAGES_S
from bots_service.storage.sql.database import SqlRow
from bots_service.storage.sql.runs import DEFAULT_RUN, insert_run, new_id
from bots_service.storage.sql.store import Store, insert_missing, reading, writing, writing_once
from bots_service.storage.sql.tables import datasets, subsets, task_blocks

MOST_SUBSETS = 1000  # of a dataset: a job has one, and each change of its training data makes another

_ROWS = select(*(datasets.c[name] for name in DatasetRow.__slots__))
_LOCK = 0x64617461  # of those who make datasets, among PostgreSQL's advisory locks: "data"
_ENDS = select(
    func.coalesce(func.max(task_blocks.c.position) + 1, 0).label("blocks"),
    func.coalesce(func.sum(task_blocks.c.count), 0).label("tasks"),
)


def stage_gone() -> BusyError:
    return BusyError("the upload took more than a day and was dropped; send it again")


def changed_meanwhile(dataset: DatasetRow) -> BusyError:
    """Return the error for a dataset that is no longer the one that a change was made for, or that is gone."""
    return BusyError(f"dataset {dataset.name!r} was changed by another request at the same time; try again")


class SqlDatasets(Store):
    """Datasets and their tasks."""

    @reading
    def get(self, connection: Connection, name: str) -> DatasetRow:
        row = connection.execute(_ROWS.where(datasets.c.name == name)).one_or_none()
        if row is None:
            raise UnknownDatasetError(f"no dataset {name!r}")
        return DatasetRow(*row)

    @reading
    def after(self, connection: Connection, name: str, limit: int) -> list[DatasetRow]:
        """Return up to `limit` datasets by name, beginning behind `name` ("" for the first)."""
        page = _ROWS.where(datasets.c.name > name).order_by(datasets.c.name).limit(limit)
        return [DatasetRow(*row) for row in connection.execute(page)]

    @writing
    def stage(self, connection: Connection) -> int:
        """Open a place for blocks that belong to no dataset yet, and return its number."""
        row = {"version": 0, "retired": 0, "created_at": time.time()}
        return new_id(connection.execute(insert(datasets), row))

    async def add_block(self, stage: int, block: TaskBlock) -> None:
        await self._add_block(stage, len(block), await asyncio.to_thread(encode_block, block))

    @writing
    def _add_block(self, connection: Connection, stage: int, count: int, body: bytes) -> None:
        end = _end(connection, stage)
        _require_room_for_tasks(int(end.tasks) + count, self.capacity)
        row = {"dataset_id": stage, "position": end.blocks, "count": count, "body": body}
        connection.execute(insert(task_blocks), row)

    @writing
    def drop_stage(self, connection: Connection, stage: int) -> None:
        """Drop the stage and its blocks; one that is gone already, or became a dataset, is fine."""
        connection.execute(delete(datasets).where(datasets.c.name.is_(None), datasets.c.id == stage))

    @reading
    def dead_stages(self, connection: Connection, now: float) -> list[int]:
        """Return the stages of uploads that died. now: seconds since 1970, UTC."""
        is_old = datasets.c.created_at < now - STAGES_S
        return list(connection.scalars(select(datasets.c.id).where(datasets.c.name.is_(None), is_old)))

    @writing_once
    def create(
        self,
        connection: Connection,
        name: str,
        stage: int,
        facts: DatasetFacts,
        *,
        within: tuple[str, ...] = (EVERY_DATASET,),
    ) -> tuple[DatasetRow, bool]:
        """Make the staged blocks a dataset, with its run `default` on default settings, in one transaction.

        Where a dataset of the name has the same content, that one is returned; the stage stays. Also return whether
        it is new.

        within: patterns of names that the caller's key reaches.

        Raises DatasetExistsError: the name is taken by other content; LimitReachedError: the service has as many
        datasets as it may, or the key does.
        """
        standing = connection.execute(_ROWS.where(datasets.c.name == name)).one_or_none()
        if standing is not None:
            row = DatasetRow(*standing)
            if row.facts.digest != facts.digest:
                raise DatasetExistsError(
                    f"dataset {name!r} exists with other content; delete it or choose another name"
                )
            return row, False
        _require_room_for_dataset(connection, self.capacity, within)
        named = update(datasets).where(datasets.c.id == stage, datasets.c.name.is_(None))
        values = {"name": name, "version": 1, "facts": facts, "created_at": time.time()}
        if connection.execute(named, values).rowcount == 0:
            raise stage_gone()
        insert_run(connection, stage, DEFAULT_RUN, RunSettings())
        return _row(connection, stage), True

    @writing_once
    def append(self, connection: Connection, row: DatasetRow, stage: int, facts: DatasetFacts) -> DatasetRow:
        """Move the staged blocks to the end of the dataset and set its facts, in one transaction."""
        _require_room_for_tasks(facts.size, self.capacity)
        changed = _changed(connection, row, facts=facts)
        end = _end(connection, row.id)
        moved = {"dataset_id": row.id, "position": task_blocks.c.position + end.blocks}
        connection.execute(update(task_blocks).where(task_blocks.c.dataset_id == stage).values(moved))
        if connection.execute(delete(datasets).where(datasets.c.id == stage)).rowcount == 0:
            raise stage_gone()
        return changed

    @writing_once
    def set_retired(self, connection: Connection, row: DatasetRow, tasks: Tasks) -> DatasetRow:
        """Set which tasks are retired. tasks: sorted."""
        return _changed(connection, row, retired=len(tasks), retired_tasks=tasks)

    @reading
    def retired(self, connection: Connection, dataset_id: int) -> Tasks:
        tasks: Tasks | None = connection.scalar(select(datasets.c.retired_tasks).where(datasets.c.id == dataset_id))
        return NO_TASKS if tasks is None else tasks

    @writing_once
    def keep_subset(self, connection: Connection, row: DatasetRow, subset: Subset, tasks: Tasks) -> Subset:
        """Keep a subset under its name; one that is kept already counts as kept now.

        Of all those of the dataset the MOST_SUBSETS that were kept last stay.

        Raises UnknownDatasetError: the dataset was deleted.
        """
        standing = select(datasets.c.id).where(datasets.c.id == row.id).with_for_update(key_share=True, read=True)
        if connection.scalar(standing) is None:
            raise UnknownDatasetError("the dataset was deleted meanwhile")
        kept = {"dataset_id": row.id, "name": subset.name, "tasks": tasks, "kept_at": time.time()}
        connection.execute(insert_missing(connection.dialect.name, subsets), kept)
        of_dataset = subsets.c.dataset_id == row.id
        this = update(subsets).where(of_dataset, subsets.c.name == subset.name)
        connection.execute(this, {"kept_at": kept["kept_at"]})
        by_age = select(subsets.c.name).where(of_dataset).order_by(subsets.c.kept_at.desc(), subsets.c.name)
        if old := list(connection.scalars(by_age))[MOST_SUBSETS:]:
            connection.execute(delete(subsets).where(of_dataset, subsets.c.name.in_(old)))
        return subset

    @reading
    def subset(self, connection: Connection, dataset_id: int, name: str) -> Tasks | None:
        """Return a subset's tasks, sorted; None if there is no such subset."""
        this = (subsets.c.dataset_id == dataset_id) & (subsets.c.name == name)
        tasks: Tasks | None = connection.scalar(select(subsets.c.tasks).where(this))
        return tasks

    @writing_once
    def delete(self, connection: Connection, row: DatasetRow) -> None:
        """Delete the dataset with its runs, journals and snapshots."""
        connection.execute(delete(datasets).where(datasets.c.id == row.id))

    async def blocks(self, dataset_id: int) -> AsyncIterator[TaskBlock]:
        """Yield the dataset's blocks in order, one in memory at a time.

        Raises UnknownDatasetError: the dataset was deleted meanwhile.
        """
        position = 0
        while (block := await self._block(dataset_id, position)) is not None:
            yield block
            position += 1

    @reading
    def _block(self, connection: Connection, dataset_id: int, position: int) -> TaskBlock | None:
        this = (task_blocks.c.dataset_id == dataset_id) & (task_blocks.c.position == position)
        row = connection.execute(select(task_blocks).where(this)).one_or_none()
        if row is not None:
            return decode_block(row.body)
        if connection.scalar(select(datasets.c.id).where(datasets.c.id == dataset_id)) is None:
            raise UnknownDatasetError("the dataset was deleted while it was read")
        return None


def _row(connection: Connection, dataset_id: int) -> DatasetRow:
    return DatasetRow(*connection.execute(_ROWS.where(datasets.c.id == dataset_id)).one())


def _end(connection: Connection, dataset_id: int) -> SqlRow:
    return connection.execute(_ENDS.where(task_blocks.c.dataset_id == dataset_id)).one()


def _changed(connection: Connection, row: DatasetRow, **values: object) -> DatasetRow:
    """Raise a dataset's version and set its columns; BusyError if it has another version than this row."""
    this = update(datasets).where(datasets.c.id == row.id, datasets.c.version == row.version)
    if not connection.execute(this, {"version": row.version + 1, **values}).rowcount:
        raise changed_meanwhile(row)
    return _row(connection, row.id)


def _require_room_for_tasks(count: int, capacity: Capacity) -> None:
    if count > capacity.tasks:
        raise LimitReachedError(f"too many tasks: {count}, and a dataset can have {capacity.tasks} (BOTS_MAX_TASKS)")


def _require_room_for_dataset(connection: Connection, capacity: Capacity, within: tuple[str, ...]) -> None:
    """Check that there is room for one more dataset; the answer holds until the transaction ends."""
    if connection.dialect.name == "postgresql":  # SQLite has one writer
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    names = connection.scalars(select(datasets.c.name).where(datasets.c.name.is_not(None))).all()
    if len(names) >= capacity.datasets:
        raise LimitReachedError(f"too many datasets: there are {len(names)} already; delete some")
    reached = 0 if EVERY_DATASET in within else sum(reaches(within, name) for name in names)
    if reached >= capacity.datasets_per_key:
        raise LimitReachedError(f"too many datasets for this key: it can access {reached} already; delete some")


def encode_block(block: TaskBlock) -> bytes:
    """Return a block as bytes: ids, pass rates, the different tags of its tasks, and which of these each has."""
    different = {tags: place for place, tags in enumerate(dict.fromkeys(block.tags))}
    places = np.array([different[tags] for tags in block.tags], np.int32)
    references = np.asarray(block.references, np.float64)
    return zlib.compress(pack(("\0".join(block.ids), references, list(different), places)), 1)


def decode_block(body: bytes) -> TaskBlock:
    """Return the block that was encoded; tasks with the same tags share one tuple."""
    try:
        ids, references, different, places = unpack(
            zlib.decompress(body), tuple[str, Floats, list[tuple[str, ...]], Tasks]
        )
    except zlib.error as error:
        raise DamagedStateError(f"a block of tasks can't be read: {error}") from error
    return TaskBlock(ids.split("\0") if ids else [], references, [different[place] for place in places.tolist()])
