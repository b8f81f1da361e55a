"""Rows of datasets, to and from records."""

import msgspec
import numpy as np
from sqlalchemy import Connection, bindparam, select

from bots_service.core.arrays import Tasks, frozen
from bots_service.core.codec import pack, unpack
from bots_service.ports.records import DatasetFacts, DatasetRow
from bots_service.storage.database import SqlRow
from bots_service.storage.tables import datasets, retired_tasks

COLUMNS = tuple(datasets.c[name] for name in ("id", "name", "version", "retired", "created_at", "facts"))
_RETIRED = select(retired_tasks.c.tasks).where(retired_tasks.c.dataset_id == bindparam("dataset"))


def facts_text(facts: DatasetFacts) -> str:
    """Return the facts as JSON."""
    return msgspec.json.encode(facts).decode()


def dataset_of(row: SqlRow) -> DatasetRow:
    """Return the dataset that a row holds."""
    facts = msgspec.json.decode(row.facts, type=DatasetFacts)
    return DatasetRow(row.id, row.name, row.version, row.retired, row.created_at, facts)


def retired_blob(tasks: Tasks) -> bytes:
    """Return sorted tasks as checksummed bytes."""
    return pack({}, {"tasks": tasks})


def retired_of(connection: Connection, dataset_id: int) -> Tasks:
    """Return a dataset's retired tasks, sorted.

    Raises:
        DamagedStateError: the bytes don't match their checksum.
    """
    blob = connection.scalar(_RETIRED, {"dataset": dataset_id})
    tasks: Tasks = frozen(np.empty(0, np.int32)) if blob is None else unpack(blob)[1]["tasks"]
    return tasks
