"""What changes a dataset: each function runs within a transaction of its caller's."""

import numpy as np
from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from bots_service.core.arrays import Tasks
from bots_service.core.run_settings import RunSettings
from bots_service.errors import BusyError, DatasetExistsError
from bots_service.ports.records import DatasetFacts, DatasetRow
from bots_service.storage.dataset_rows import facts_text, retired_blob, retired_of
from bots_service.storage.run_rows import DEFAULT_RUN, insert_run
from bots_service.storage.tables import datasets, retired_tasks, task_blocks

_TAKEN = select(datasets.c.id).where(datasets.c.name == bindparam("dataset"))
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
_DELETE = delete(datasets).where(datasets.c.id == bindparam("dataset"))
_DELETE_RETIRED = delete(retired_tasks).where(retired_tasks.c.dataset_id == bindparam("dataset"))


def add_block(connection: Connection, stage: int, count: int, body: bytes, checksum: int) -> int:
    """Put a block behind those that are on the stage, and return how many tasks there are now."""
    end = connection.execute(_END, {"dataset": stage}).one()
    row = {"dataset_id": stage, "position": end.blocks, "first": end.tasks, "count": count}
    connection.execute(_ADD_BLOCK, {**row, "body": body, "checksum": checksum})
    return int(end.tasks) + count


def require_free(connection: Connection, name: str) -> None:
    """Check that no dataset has the name.

    Raises:
        DatasetExistsError: one does.
    """
    if connection.execute(_TAKEN, {"dataset": name}).one_or_none() is not None:
        raise DatasetExistsError(f"dataset {name!r} exists")


def create(connection: Connection, name: str, stage: int, facts: DatasetFacts, now: float) -> None:
    """Make the stage a dataset with a run `default`.

    Raises:
        BusyError: the stage is gone.
    """
    values = {"stage": stage, "new_name": name, "new_facts": facts_text(facts), "now": now}
    if connection.execute(_NAME_STAGE, values).rowcount == 0:
        raise stage_gone()
    insert_run(connection, stage, DEFAULT_RUN, RunSettings(), now)


def append(connection: Connection, row: DatasetRow, stage: int, facts: DatasetFacts) -> None:
    """Move the staged blocks behind those of the dataset.

    Raises:
        BusyError: the dataset is no longer at the row's version, or the stage is gone.
    """
    _raise_version(connection, row, facts=facts_text(facts))
    end = connection.execute(_END, {"dataset": row.id}).one()
    connection.execute(_MOVE, {"stage": stage, "dataset": row.id, "blocks": end.blocks, "tasks": end.tasks})
    if connection.execute(_DELETE, {"dataset": stage}).rowcount == 0:
        raise stage_gone()


def retire(connection: Connection, row: DatasetRow, tasks: Tasks) -> None:
    """Add tasks to the retired ones.

    Raises:
        BusyError: the dataset is no longer at the row's version.
    """
    retired = np.union1d(retired_of(connection, row.id), tasks).astype(np.int32)
    _raise_version(connection, row, retired=len(retired))
    connection.execute(_DELETE_RETIRED, {"dataset": row.id})
    connection.execute(insert(retired_tasks), {"dataset_id": row.id, "tasks": retired_blob(retired)})


def stage_gone() -> BusyError:
    """Return the error for a stage that is no longer there."""
    return BusyError("the upload took more than a day and was dropped; send it again")


def _raise_version(connection: Connection, row: DatasetRow, **values: str | int) -> None:
    raised = _RAISE_VERSION.values(version=row.version + 1, **values)
    if connection.execute(raised, {"dataset": row.id, "old_version": row.version}).rowcount == 0:
        raise BusyError(f"dataset {row.name!r} was changed by another request just now; try again")
