"""Whether there is room for more; asked within the transaction that takes it, so that no two callers take the same."""

from sqlalchemy import Connection, bindparam, func, select, text

from bots_service.errors import LimitReachedError
from bots_service.keys import EVERY_DATASET, reaches
from bots_service.records import Capacity
from bots_service.storage.sql.tables import datasets, runs

_LOCK = 0x64617461  # of those who make datasets, among PostgreSQL's advisory locks: "data"
_TAKE_LOCK = text("SELECT pg_advisory_xact_lock(:lock)")
_NAMES = select(datasets.c.name).where(datasets.c.name.is_not(None))
_DATASET_LOCKED = select(datasets.c.id).where(datasets.c.id == bindparam("dataset")).with_for_update(key_share=True)
_COUNT_RUNS = select(func.count()).select_from(runs).where(runs.c.dataset_id == bindparam("dataset"))


def require_room_for_tasks(count: int, capacity: Capacity) -> None:
    """Check that a dataset may have so many tasks.

    Raises:
        LimitReachedError: it may not.
    """
    if count > capacity.tasks:
        raise LimitReachedError(f"too many tasks: {count}, and a dataset can have {capacity.tasks} (BOTS_MAX_TASKS)")


def require_room_for_dataset(connection: Connection, capacity: Capacity, within: tuple[str, ...]) -> None:
    """Check that there is room for one more dataset; the answer holds until the transaction ends.

    Args:
        connection: in a transaction.
        capacity: how many there may be.
        within: patterns of names that the caller's key reaches.

    Raises:
        LimitReachedError: the service has as many as it may, or the key does.
    """
    if connection.dialect.name == "postgresql":  # SQLite has one writer
        connection.execute(_TAKE_LOCK, {"lock": _LOCK})
    names = connection.execute(_NAMES).scalars().all()
    if len(names) >= capacity.datasets:
        raise LimitReachedError(f"too many datasets: there are {len(names)} already (BOTS_MAX_DATASETS); delete some")
    if EVERY_DATASET in within:
        return
    reached = sum(reaches(within, name) for name in names)
    if reached >= capacity.datasets_per_key:
        raise LimitReachedError(
            f"too many datasets for this key: it can access {reached} already (BOTS_MAX_DATASETS_PER_KEY)"
        )


def require_room_for_run(connection: Connection, dataset_id: int, capacity: Capacity) -> None:
    """Check that there is room for one more run in a dataset; the answer holds until the transaction ends.

    Raises:
        LimitReachedError: the dataset has as many as it may.
    """
    connection.execute(_DATASET_LOCKED, {"dataset": dataset_id})
    count = connection.execute(_COUNT_RUNS, {"dataset": dataset_id}).scalar_one()
    if count >= capacity.runs:
        raise LimitReachedError(f"too many runs: the dataset has {count}, and can have {capacity.runs} (BOTS_MAX_RUNS)")
