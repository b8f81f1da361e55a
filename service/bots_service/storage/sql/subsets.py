"""Subsets of datasets in SQL."""

import zlib

import numpy as np
from sqlalchemy import Connection, bindparam, delete, select, update

from bots_service.core.arrays import Tasks, frozen, last_of
from bots_service.errors import DamagedStateError, UnknownDatasetError
from bots_service.storage.sql.answers import insert_missing
from bots_service.storage.sql.tables import datasets, subsets

MOST_SUBSETS = 1000  # of a dataset: a job has one, and each change of its training data makes another
_OF_DATASET = subsets.c.dataset_id == bindparam("dataset")
_NAMED = subsets.c.name == bindparam("subset")
_TASKS = select(subsets.c.tasks).where(_OF_DATASET, _NAMED)
_KEPT_NOW = update(subsets).where(_OF_DATASET, _NAMED).values(kept_at=bindparam("now"))
_NAMES = select(subsets.c.name).where(_OF_DATASET).order_by(subsets.c.kept_at.desc(), subsets.c.name)
_DROP = delete(subsets).where(_OF_DATASET, _NAMED)
_DATASET = select(datasets.c.id).where(datasets.c.id == bindparam("dataset")).with_for_update(key_share=True, read=True)


def content_of(tasks: Tasks) -> bytes:
    """Return sorted tasks as bytes: half of a million tasks take about 125 kB, all of them 1 kB."""
    included = np.zeros(last_of(tasks) + 1, bool)
    included[tasks] = True
    return zlib.compress(np.packbits(included).tobytes(), 1)


def tasks_in(content: bytes) -> Tasks:
    """Return the tasks in these bytes, sorted.

    Raises:
        DamagedStateError: the bytes can't be read.
    """
    try:
        bits = np.frombuffer(zlib.decompress(content), np.uint8)
    except zlib.error as error:  # it has a checksum
        raise DamagedStateError(f"a subset can't be read: {error}") from error
    return frozen(np.flatnonzero(np.unpackbits(bits)).astype(np.int32))


def keep(connection: Connection, dataset_id: int, name: str, content: bytes, now: float) -> None:
    """Keep a subset, and of all those of the dataset the MOST_SUBSETS that were kept last.

    Raises:
        UnknownDatasetError: the dataset was deleted.
    """
    if connection.scalar(_DATASET, {"dataset": dataset_id}) is None:
        raise UnknownDatasetError("the dataset was deleted meanwhile")
    row = {"dataset_id": dataset_id, "name": name, "tasks": content, "kept_at": now}
    connection.execute(insert_missing(connection, subsets), row)
    connection.execute(_KEPT_NOW, {"dataset": dataset_id, "subset": name, "now": now})
    for old in list(connection.scalars(_NAMES, {"dataset": dataset_id}))[MOST_SUBSETS:]:
        connection.execute(_DROP, {"dataset": dataset_id, "subset": old})


def read(connection: Connection, dataset_id: int, name: str) -> bytes | None:
    """Return a subset as it was kept; None if there is none of this name."""
    content: bytes | None = connection.scalar(_TASKS, {"dataset": dataset_id, "subset": name})
    return content
