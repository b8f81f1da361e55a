"""Runs in SQL."""

import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from sqlalchemy import Connection, CursorResult, bindparam, delete, insert, select, update

from bots_service.core.predictions import PredictionsKey
from bots_service.core.run_settings import RunSettings, settings_from
from bots_service.errors import RunHasHistoryError, UnknownRunError
from bots_service.records import Capacity, IdempotencyKey, Parent, RunPut, RunRow
from bots_service.storage.sql import predictions as stored_predictions
from bots_service.storage.sql.answers import keep_result, keeping_result, require_unanswered
from bots_service.storage.sql.capacity import require_room_for_run
from bots_service.storage.sql.database import Database, SqlRow
from bots_service.storage.sql.journal import FoldedEntry, append
from bots_service.storage.sql.tables import runs, snapshots

PAGE = 1000
DEFAULT_RUN = "default"  # every dataset has it, so that a first user never needs to know the word

_INSERT = insert(runs)


def new_uid() -> str:
    """Return a name for a run that no other run ever has."""
    return secrets.token_hex(8)


def settings_text(settings: RunSettings) -> str:
    """Return the settings as JSON, those left at their default too: a default may change, a run must not."""
    return json.dumps(settings.as_dict(), separators=(",", ":"), allow_nan=False)


def insert_run(
    connection: Connection,
    dataset_id: int,
    name: str,
    settings: RunSettings,
    now: float,
    predictions: tuple[PredictionsKey, ...] = (),
) -> int:
    """Insert a run with an empty journal and return its id."""
    values = {
        "uid": new_uid(),
        "dataset_id": dataset_id,
        "name": name,
        "settings": settings_text(settings),
        "head": 0,
        "epoch": 0,
        "created_at": now,
        "predictions": keys_text(predictions),
    }
    return new_id(connection.execute(_INSERT, values))


def keys_text(predictions: Sequence[tuple[str, str]]) -> str:
    """Return as JSON which predictions a run knows."""
    return json.dumps(predictions, separators=(",", ":"))


def new_id(result: CursorResult[*tuple[Any, ...]]) -> int:
    """Return the number that the database gave to an inserted row."""
    key = result.inserted_primary_key
    if key is None:
        raise ValueError("the statement inserted no row")
    return int(key[0])


def parent_columns(parent: Parent) -> dict[str, Any]:
    """Return what a run's row holds of the run that it began from."""
    return {f"parent_{name}": getattr(parent, name) for name in ("run", "step", "seq")}


def run_of(row: SqlRow) -> RunRow:
    """Return the run that a row holds."""
    parent = None if row.parent_run is None else Parent(row.parent_run, row.parent_step, row.parent_seq)
    return RunRow(
        id=row.id,
        uid=row.uid,
        dataset_id=row.dataset_id,
        name=row.name,
        settings=settings_from(json.loads(row.settings)),
        head=row.head,
        epoch=row.epoch,
        created_at=row.created_at,
        parent=parent,
        predictions=tuple(PredictionsKey(*key) for key in json.loads(row.predictions)),
    )


_OF_DATASET = runs.c.dataset_id == bindparam("dataset")
_BY_NAME = select(runs).where(_OF_DATASET, runs.c.name == bindparam("run_name"))
_BY_NAME_LOCKED = _BY_NAME.with_for_update()
_AFTER = (
    select(runs).where(_OF_DATASET, runs.c.name > bindparam("after")).order_by(runs.c.name).limit(bindparam("most"))
)
_UPDATE = update(runs).where(runs.c.id == bindparam("run"))
# On PostgreSQL the lock keeps the run from being deleted or replaced before what is stored about it is in.
STANDING = (
    select(runs.c.id)
    .where(runs.c.id == bindparam("run"), runs.c.uid == bindparam("uid"))
    .with_for_update(key_share=True, read=True)
)
_REFUSED = (
    update(runs)
    .where(runs.c.id == bindparam("run"), runs.c.uid == bindparam("old_uid"))
    .values(
        refused_reports=runs.c.refused_reports + 1,
        refused_seq=runs.c.head,
        refused_at=bindparam("now"),
        refused_reason=bindparam("reason"),
    )
)
_DROP_SNAPSHOTS = delete(snapshots).where(snapshots.c.run_id == bindparam("run"))
_NONE_REFUSED = {"refused_reports": 0, "refused_seq": None, "refused_at": None, "refused_reason": None}
_DELETE = delete(runs).where(runs.c.id == bindparam("run"), runs.c.uid == bindparam("old_uid"))

Start = tuple[Parent, FoldedEntry]
"""The run that a new run continues, and its first entry."""


def replace_empty_run(connection: Connection, run_id: int, values: dict[str, Any]) -> None:
    """Set columns of a run whose journal is empty, and drop what was made of the old ones."""
    connection.execute(_UPDATE.values(values), {"run": run_id})
    connection.execute(_DROP_SNAPSHOTS, {"run": run_id})


class SqlRuns:
    """The runs of datasets."""

    def __init__(self, database: Database, capacity: Capacity | None = None) -> None:
        """Keep runs in a database. capacity: how many runs a dataset has at most."""
        self._database = database
        self._capacity = capacity or Capacity()

    async def get(self, dataset_id: int, name: str) -> RunRow:
        """Return the run of that name."""
        values = {"dataset": dataset_id, "run_name": name}
        row = await self._database.read(lambda connection: connection.execute(_BY_NAME, values).one_or_none())
        if row is None:
            raise UnknownRunError(f"no run {name!r}")
        return run_of(row)

    async def after(self, dataset_id: int, name: str, limit: int) -> list[RunRow]:
        """Return up to `limit` runs by name, beginning behind `name` ("" for the first)."""
        values = {"dataset": dataset_id, "after": name, "most": limit}
        return await self._database.read(lambda connection: list(map(run_of, connection.execute(_AFTER, values))))

    async def all(self, dataset_id: int) -> AsyncIterator[RunRow]:
        """Yield every run of a dataset."""
        page = await self.after(dataset_id, "", PAGE)
        while page:
            for row in page:
                yield row
            page = await self.after(dataset_id, page[-1].name, PAGE)

    async def put(
        self,
        dataset_id: int,
        name: str,
        settings: RunSettings,
        *,
        fork: Start | None = None,
        predictions: tuple[PredictionsKey, ...] = (),
        idempotency_key: IdempotencyKey | None = None,
        result_of: Callable[[RunRow, RunPut], object] = lambda row, put: (row, put),
    ) -> tuple[RunRow, RunPut]:
        """Create the run, or replace the settings of one whose journal is empty, in one transaction."""

        def job(connection: Connection) -> tuple[RunRow, RunPut]:
            require_unanswered(connection, idempotency_key)
            row, put = self._put(connection, dataset_id, name, settings, fork, predictions)
            if put is not RunPut.UNCHANGED:
                keep_result(connection, idempotency_key, result_of(row, put), time.time())
            return row, put

        return await self._database.write(job)

    async def note_refused_report(self, row: RunRow, reason: str) -> None:
        """Count a report of the run that was refused as invalid, and why."""
        values = {"run": row.id, "old_uid": row.uid, "now": time.time(), "reason": reason}
        counted = await self._database.write(lambda connection: connection.execute(_REFUSED, values).rowcount)
        if not counted:
            raise UnknownRunError(f"run {row.name!r} was deleted or replaced")

    async def delete(self, row: RunRow, idempotency_key: IdempotencyKey | None = None) -> None:
        """Delete the run with its journal and snapshots; a `default` run is created again, empty."""

        def job(connection: Connection) -> None:
            known = stored_predictions.current(connection, row.dataset_id)
            gone = connection.execute(_DELETE, {"run": row.id, "old_uid": row.uid})
            if gone.rowcount and row.name == DEFAULT_RUN:
                insert_run(connection, row.dataset_id, DEFAULT_RUN, RunSettings(), time.time(), known)

        await self._database.write(keeping_result(job, idempotency_key))

    def _put(
        self,
        connection: Connection,
        dataset_id: int,
        name: str,
        settings: RunSettings,
        fork: Start | None,
        predictions: tuple[PredictionsKey, ...],
    ) -> tuple[RunRow, RunPut]:
        stored_predictions.require(connection, dataset_id, predictions, only_current=fork is None)
        by_name = {"dataset": dataset_id, "run_name": name}
        found = connection.execute(_BY_NAME_LOCKED, by_name).one_or_none()
        standing = None if found is None else run_of(found)
        if standing is not None and standing.head > 0:
            raise RunHasHistoryError(f"run {name!r} has {standing.head} journal entries; change its settings by PATCH")
        if standing is None:
            require_room_for_run(connection, dataset_id, self._capacity)
            run_id = insert_run(connection, dataset_id, name, settings, time.time(), predictions)
        elif standing.settings == settings and fork is None:
            return standing, RunPut.UNCHANGED
        else:
            # A new uid: what was made of the old settings must not be taken for this run's.
            run_id = standing.id
            values = {"uid": new_uid(), "settings": settings_text(settings), "predictions": keys_text(predictions)}
            replace_empty_run(connection, run_id, values | _NONE_REFUSED)
        if fork is not None:
            parent, first = fork
            append(connection, run_id, [first], time.time())
            connection.execute(_UPDATE.values(parent_columns(parent)), {"run": run_id})
        put = RunPut.CREATED if standing is None else RunPut.REPLACED
        return run_of(connection.execute(_BY_NAME, by_name).one()), put
