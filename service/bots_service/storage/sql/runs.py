"""Runs in SQL."""

import secrets
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, CursorResult, delete, func, insert, select, update

from bots_service.core.run_settings import RunSettings
from bots_service.errors import LimitReachedError, RunHasHistoryError, UnknownRunError
from bots_service.records import Capacity, Evaluations, IdempotencyKey, Parent, RefusedReports, RunRow
from bots_service.storage.sql.database import SqlRow
from bots_service.storage.sql.journal import FoldedEntry, append, copy_entries
from bots_service.storage.sql.store import Store, keep_result, reading, require_unanswered, writing, writing_once
from bots_service.storage.sql.tables import HEAD, RUNS, datasets, of_last_entry, runs, snapshots

MOST_EVALUATIONS = 10_000  # of a run: a quarter of a megabyte
DEFAULT_RUN = "default"  # every dataset has it, so that a first user never needs to know the word


class Fork(NamedTuple):
    """How a run begins that continues another one.

    source: the other run; its entries come first. step: of the other run, behind which it begins.
    folded: the entries that come next: a rewind to the source's last one, and a change of settings.
    blob: the state after these, as a snapshot.
    """

    source: RunRow
    step: int
    folded: list[FoldedEntry]
    blob: bytes


def new_uid() -> str:
    return secrets.token_hex(8)


def insert_run(connection: Connection, dataset_id: int, name: str, settings: RunSettings) -> int:
    values = {"uid": new_uid(), "dataset_id": dataset_id, "name": name, "settings": settings}
    return new_id(connection.execute(insert(runs), {**values, "created_at": time.time()}))


def new_id(result: CursorResult[*tuple[Any, ...]]) -> int:
    """Return the number that the database gave to an inserted row."""
    key = result.inserted_primary_key
    if key is None:
        raise ValueError("the statement inserted no row")
    return int(key[0])


def run_of(row: SqlRow) -> RunRow:
    return RunRow(**{name: getattr(row, name) for name in RunRow.__slots__})


def locked_runs(connection: Connection, those: ColumnElement[bool]) -> list[RunRow]:
    """Return some runs as they stand until the transaction ends."""
    ids = list(connection.scalars(select(runs.c.id).where(those).order_by(runs.c.id).with_for_update()))
    return list(map(run_of, connection.execute(RUNS.where(runs.c.id.in_(ids)))))


def replace_empty_run(connection: Connection, run_id: int, values: dict[str, Any]) -> None:
    """Set columns of a run whose journal is empty, and drop what was made of the old ones.

    It gets a new uid: what was made of it before must not be taken for this run's.
    """
    fresh: dict[str, Any] = {"uid": new_uid(), "evaluations": {}, "finished_seq": None}
    connection.execute(update(runs).where(runs.c.id == run_id), {**fresh, **values})
    connection.execute(delete(snapshots).where(snapshots.c.run_id == run_id))


def lock_dataset(connection: Connection, dataset_id: int) -> None:
    """Let nobody else make a run of a dataset until the transaction ends.

    Do this before you lock runs: another order could end in a deadlock.
    """
    connection.execute(select(datasets.c.id).where(datasets.c.id == dataset_id).with_for_update(key_share=True))


def require_room_for_run(connection: Connection, dataset_id: int, capacity: Capacity) -> None:
    """Check that there is room for one more run in a dataset that was locked.

    Raises LimitReachedError: the dataset has as many as it may.
    """
    count = connection.scalar(select(func.count()).select_from(runs).where(runs.c.dataset_id == dataset_id)) or 0
    if count >= capacity.runs:
        raise LimitReachedError(f"too many runs: the dataset has {count}, and can have {capacity.runs}; delete some")


def standing_run(connection: Connection, dataset_id: int, name: str, todo: str) -> RunRow | None:
    """Return the empty run of that name, as it stands until the transaction ends; None if there is none.

    todo: what to do where its journal is not empty, which raises RunHasHistoryError.
    """
    found = next(iter(locked_runs(connection, _is_named(dataset_id, name))), None)
    if found is not None and found.head > 0:
        raise RunHasHistoryError(f"run {name!r} has {found.head} journal entries; {todo}")
    return found


def require_room_for_evaluations(found: Evaluations) -> None:
    """Raise LimitReachedError if these are more evaluations than a run may have."""
    if sum(map(len, found.values())) > MOST_EVALUATIONS:
        raise LimitReachedError(f"too many evaluations: a run can have {MOST_EVALUATIONS}")


def _is_named(dataset_id: int, name: str) -> ColumnElement[bool]:
    return (runs.c.dataset_id == dataset_id) & (runs.c.name == name)


def _is(run: RunRow) -> ColumnElement[bool]:
    return (runs.c.id == run.id) & (runs.c.uid == run.uid)


def _locked(connection: Connection, row: RunRow) -> RunRow:
    for standing in locked_runs(connection, _is(row)):
        return standing
    raise UnknownRunError(f"run {row.name!r} was deleted or replaced")


class SqlRuns(Store):
    """The runs of datasets."""

    @reading
    def get(self, connection: Connection, dataset_id: int, name: str) -> RunRow:
        row = connection.execute(RUNS.where(_is_named(dataset_id, name))).one_or_none()
        if row is None:
            raise UnknownRunError(f"no run {name!r}")
        return run_of(row)

    @reading
    def all(self, connection: Connection, dataset_id: int) -> list[RunRow]:
        return list(map(run_of, connection.execute(RUNS.where(runs.c.dataset_id == dataset_id).order_by(runs.c.name))))

    @writing
    def put(
        self,
        connection: Connection,
        dataset_id: int,
        name: str,
        settings: RunSettings,
        *,
        fork: Fork | None = None,
        idempotency_key: IdempotencyKey | None = None,
        result_of: Callable[[RunRow, RunRow | None], object] = lambda row, before: (row, before),
    ) -> tuple[RunRow, RunRow | None]:
        """Create the run, or replace the settings of one whose journal is empty.

        result_of: returns what is kept under the key, unless the run stays as it is.

        Returns:
            The run as it stands now, and as it stood before; None if it is new.

        Raises BusyError: what it continues was deleted or undone.
        """
        require_unanswered(connection, idempotency_key)
        lock_dataset(connection, dataset_id)
        standing = standing_run(connection, dataset_id, name, "change its settings by PATCH")
        if standing is None:
            require_room_for_run(connection, dataset_id, self.capacity)
            run_id = insert_run(connection, dataset_id, name, settings)
        elif standing.settings == settings and fork is None:
            return standing, standing
        else:
            run_id = standing.id
            replace_empty_run(connection, run_id, {"settings": settings, "refused": None})
        if fork is not None:
            first, last = fork.folded[0].entry.seq, fork.folded[-1].entry.seq
            copy_entries(connection, run_id, fork.source, first - 1)
            append(connection, run_id, fork.folded, time.time())
            connection.execute(insert(snapshots), {"run_id": run_id, "seq": last, "blob": fork.blob})
            parent = Parent(fork.source.name, fork.step, last)
            connection.execute(update(runs).where(runs.c.id == run_id), {"parent": parent})
        row = run_of(connection.execute(RUNS.where(runs.c.id == run_id)).one())
        keep_result(connection, idempotency_key, result_of(row, standing))
        return row, standing

    @writing
    def note_refused_report(self, connection: Connection, row: RunRow, reason: str) -> None:
        """Count a report of the run that was refused as invalid, and why."""
        this = select(runs.c.refused).where(_is(row)).with_for_update(key_share=True)
        before = connection.execute(this).one_or_none()
        if before is None:
            raise UnknownRunError(f"run {row.name!r} was deleted or replaced")
        count = 1 if before.refused is None else before.refused.count + 1
        refused = RefusedReports(count, datetime.now(UTC), reason)
        connection.execute(update(runs).where(runs.c.id == row.id).values(refused=refused, refused_seq=HEAD))

    @writing_once
    def evaluate(self, connection: Connection, row: RunRow, step: int | None, values: Mapping[str, float]) -> None:
        """Keep what was measured at a step, None for the last closed one, in place of what is there."""
        found = dict(_locked(connection, row).evaluations)
        if step is None:
            step = connection.scalar(select(of_last_entry("step")).where(_is(row))) or 0
        for name, value in values.items():
            found[name] = tuple(sorted((dict(found.get(name, ())) | {step: value}).items()))
        require_room_for_evaluations(found)
        connection.execute(update(runs).where(_is(row)).values(evaluations=found, evaluated=runs.c.evaluated + 1))

    @writing_once
    def finish(self, connection: Connection, row: RunRow) -> None:
        """Note that training ended where the run's journal ends now."""
        connection.execute(update(runs).where(_is(row)).values(finished_seq=_locked(connection, row).head))

    @writing
    def resume(self, connection: Connection, row: RunRow) -> None:
        connection.execute(update(runs).where(_is(row)).values(finished_seq=None))

    @writing_once
    def delete(self, connection: Connection, row: RunRow) -> None:
        """Delete the run with its journal and snapshots; a `default` run is created again, empty."""
        lock_dataset(connection, row.dataset_id)
        gone = connection.execute(delete(runs).where(_is(row))).rowcount
        if gone and row.name == DEFAULT_RUN:
            insert_run(connection, row.dataset_id, DEFAULT_RUN, RunSettings())
