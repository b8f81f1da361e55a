"""Runs: settings, beliefs, history, charts, snapshots and rewinds."""

from collections.abc import Iterable

from bots_client._admin_models import Snapshot
from bots_client._arguments import checked_number, checked_strings
from bots_client._call import PAGE, Call, Pages, Stream, given, listed, path, written
from bots_client._decode import field_of, into, nothing
from bots_client._errors import InvalidRequestError
from bots_client._inputs import GivenSettings, Unpack
from bots_client._models import (
    Calibration,
    Curve,
    HistoryStep,
    JournalEntry,
    Leases,
    Outlooks,
    Run,
    TaskBelief,
)

ARROW_STREAM = "application/vnd.apache.arrow.stream"
ARROW_DEADLINE_S = 60.0  # until the first bytes; the service computes a belief for every task of the pool


def create_run(
    dataset: str,
    run: str,
    *,
    fork_run: str | None = None,
    fork_step: int | None = None,
    **settings: "Unpack[GivenSettings]",
) -> Call[Run]:
    """Make a run, or set all settings of one that has seen nothing yet (such as a fresh "default").

    Args:
        dataset: the pool it selects from.
        run: its name.
        fork_run: begin with the belief of this run instead of none.
        fork_step: as it was after this step; None: as it is now.
        settings: fields of `Settings`; the others take their defaults.

    Raises:
        ConflictError: it has a history; use `update_run`.
    """
    if fork_run is None and fork_step is not None:
        raise InvalidRequestError("fork_step is a step of another run; pass fork_run= too")
    fork = None if fork_run is None else given(run=fork_run, step=fork_step)
    content = {**settings, **given(fork=fork)}
    return written("PUT", path("datasets", dataset, "runs", run), into(Run), content)


def update_run(dataset: str, run: str = "default", **settings: "Unpack[GivenSettings]") -> Call[Run]:
    """Change some settings from the next step on."""
    return written("PATCH", path("datasets", dataset, "runs", run), into(Run), settings)


def run(dataset: str, run: str = "default") -> Call[Run]:
    """Describe a run: settings, step, capability, totals."""
    return Call("GET", path("datasets", dataset, "runs", run), into(Run))


def runs(dataset: str, *, limit: int | None = None) -> Pages[Run]:
    """Go through the runs of a dataset.

    Args:
        dataset: their pool.
        limit: at most so many; None: all.
    """
    return listed(Run, "runs", path("datasets", dataset, "runs"), limit)


def delete_run(dataset: str, run: str) -> Call[None]:
    """Delete a run with its journal, for ever; "default" is emptied instead."""
    return written("DELETE", path("datasets", dataset, "runs", run), nothing)


def tasks(
    dataset: str,
    run: str = "default",
    *,
    ids: Iterable[str] = (),
    tag: str | None = None,
    search: str | None = None,
    sort: str | None = None,
    limit: int | None = None,
) -> Pages[TaskBelief]:
    """Go through what a run believes about its tasks, asking for a page at a time.

    Args:
        dataset: the pool.
        run: whose belief.
        ids: only these; empty: all.
        tag: only tasks that bear it.
        search: only tasks whose id contains it; "a" and "A" are the same.
        sort: index (the pool's order), mean, distance (to the target), evidence or last_step; "-mean" descends.
        limit: at most so many; None: all (for a large pool `tasks_arrow` is quicker).
    """
    where = path("datasets", dataset, "runs", run, "tasks")
    return listed(TaskBelief, "tasks", where, limit, *_chosen(ids, tag, search), ("sort", sort))


def count_tasks(
    dataset: str,
    run: str = "default",
    *,
    ids: Iterable[str] = (),
    tag: str | None = None,
    search: str | None = None,
) -> Call[int]:
    """Say how many tasks `tasks` would go through.

    Args:
        dataset: the pool.
        run: whose belief.
        ids: only these; empty: all.
        tag: only tasks that bear it.
        search: only tasks whose id contains it; "a" and "A" are the same.
    """
    where = path("datasets", dataset, "runs", run, "tasks")
    return Call("GET", where, field_of(int, "matching"), (*_chosen(ids, tag, search), ("limit", "1")))


def tasks_arrow(dataset: str, run: str = "default", *, deadline_s: float = ARROW_DEADLINE_S) -> Stream:
    """Give the belief about the whole pool as the chunks of an Arrow stream (`pyarrow.ipc.open_stream` reads it).

    Args:
        dataset: the pool.
        run: whose belief.
        deadline_s: until the answer begins; after that, for each further chunk.
    """
    where = path("datasets", dataset, "runs", run, "tasks")
    return Call("GET", where, bytes, headers={"Accept": ARROW_STREAM}, deadline_s=deadline_s)


def history(
    dataset: str,
    run: str = "default",
    *,
    after_step: int | None = None,
    limit: int | None = None,
) -> Pages[HistoryStep]:
    """Go through the closed steps of a run, oldest first.

    Args:
        dataset: the pool.
        run: whose steps.
        after_step: only later ones.
        limit: at most so many; None: all.
    """
    where = path("datasets", dataset, "runs", run, "history")
    return listed(HistoryStep, "history", where, limit, ("after_step", after_step))


def journal(dataset: str, run: str = "default", *, limit: int | None = None) -> Pages[JournalEntry]:
    """Go through all that ever changed a run, newest first; what a rewind took out of its history too.

    Args:
        dataset: the pool.
        run: whose journal.
        limit: at most so many; None: all.
    """
    return listed(JournalEntry, "entries", path("datasets", dataset, "runs", run, "journal"), limit)


def leases(dataset: str, run: str = "default", *, limit: int = PAGE, ids: int = 5) -> Call[Leases]:
    """Say which tasks of a run are in flight: selected, and not reported yet.

    Args:
        dataset: the pool.
        run: whose tasks.
        limit: of how many leases to tell, those first that end soonest; at most 1000.
        ids: how many tasks of each lease to name; at most 1000.
    """
    where = path("datasets", dataset, "runs", run, "leases")
    return Call("GET", where, into(Leases), (("limit", str(limit)), ("ids", str(ids))))


def rewind(dataset: str, step: int, run: str = "default") -> Call[Run]:
    """Take a run back to a step, as when a trainer resumes from its own checkpoint.

    Selections made before count for nothing afterwards: reporting them raises StaleEpochError.
    """
    return written(
        "POST", path("datasets", dataset, "runs", run, "rewind"), into(Run), {"step": checked_number(step, "step")}
    )


def snapshot(dataset: str, run: str = "default") -> Call[Snapshot]:
    """Store the state of a run now, so that recovery has less to replay."""
    return written("POST", path("datasets", dataset, "runs", run, "snapshots"), into(Snapshot))


def snapshots(dataset: str, run: str = "default", *, limit: int | None = None) -> Pages[Snapshot]:
    """Go through the stored states of a run.

    Args:
        dataset: the pool.
        run: whose states.
        limit: at most so many; None: all.
    """
    return listed(Snapshot, "snapshots", path("datasets", dataset, "runs", run, "snapshots"), limit)


def curve(dataset: str, run: str = "default", *, points: int | None = None) -> Call[Curve]:
    """Give a run's history in few points, each of them some steps taken together.

    Args:
        dataset: the pool.
        run: whose history.
        points: at most so many, 1 to 2,000; None: 500.
    """
    where = path("datasets", dataset, "runs", run, "curve")
    return Call("GET", where, into(Curve), params=() if points is None else (("points", str(points)),))


def calibration(dataset: str, run: str = "default", *, steps: int | None = None) -> Call[Calibration]:
    """Compare the success rates predicted before the last steps with those reported, by tenths of the prediction.

    Args:
        dataset: the pool.
        run: whose predictions.
        steps: of so many of the last steps, 1 to 1,000; None: 200.
    """
    where = path("datasets", dataset, "runs", run, "calibration")
    return Call("GET", where, into(Calibration), params=() if steps is None else (("steps", str(steps)),))


def outlooks(dataset: str, run: str = "default", *, points: int | None = None) -> Call[Outlooks]:
    """Give what the service expected of the pool as training went on; the newest is always among it.

    Args:
        dataset: the pool.
        run: by whose belief.
        points: at most so many, 1 to 2,000; None: 200.
    """
    where = path("datasets", dataset, "runs", run, "outlooks")
    return Call("GET", where, into(Outlooks), params=() if points is None else (("points", str(points)),))


def _chosen(ids: Iterable[str], tag: str | None, search: str | None) -> tuple[tuple[str, str], ...]:
    """Return which tasks are meant, as a query."""
    return (*(("ids", task) for task in checked_strings(ids, "ids")), *given(tag=tag, search=search).items())
