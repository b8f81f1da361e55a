"""Runs: settings, beliefs, history, charts, snapshots, rewinds, export and import."""

import os
from collections.abc import Callable, Iterable

from bots_client._admin_models import ImportedRun, Snapshot
from bots_client._arguments import checked_number, checked_strings
from bots_client._call import (
    ANSWER_BYTES,
    PAGE,
    Call,
    Pages,
    Progress,
    Stream,
    Upload,
    file_upload,
    given,
    key_header,
    listed,
    path,
    written,
)
from bots_client._decode import field_of, into, nothing
from bots_client._errors import InvalidRequestError
from bots_client._history_models import Calibration, Curve, HistoryStep, JournalEntry, Outlooks, TaskVisit
from bots_client._inputs import GivenSettings, Unpack
from bots_client._models import Leases, Run, TaskBelief, TaskCounts

ARROW_STREAM = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"
TRANSFER_DEADLINE_S = 3600.0  # a journal of a long run is some 100 MB, and is folded where it arrives
STREAM_DEADLINE_S = 60.0  # until the first bytes; the service computes a belief for every task of the pool


def create_run(
    dataset: str,
    run: str,
    *,
    fork_run: str | None = None,
    fork_step: int | None = None,
    **settings: "Unpack[GivenSettings]",
) -> Call[Run]:
    """Create a run, or set all settings of an empty one (such as a new "default").

    Args:
        dataset: name of the dataset.
        run: name of the new run.
        fork_run: continue this run.
        fork_step: step of the forked run to start from; None: its current state.
        settings: fields of `Settings`; those left out take their defaults.

    Raises:
        ConflictError: the run has a history; use `update_run`.
    """
    if fork_run is None and fork_step is not None:
        raise InvalidRequestError("fork_step is of another run; pass fork_run= too")
    fork = None if fork_run is None else given(run=fork_run, step=fork_step)
    return written("PUT", path("datasets", dataset, "runs", run), into(Run), {**settings, **given(fork=fork)})


def update_run(dataset: str, run: str = "default", **settings: "Unpack[GivenSettings]") -> Call[Run]:
    """Change settings of a run from the next step on; those left out keep their values."""
    return written("PATCH", path("datasets", dataset, "runs", run), into(Run), settings)


def run(dataset: str, run: str = "default") -> Call[Run]:
    """Describe a run: settings, step, capability, totals."""
    return Call("GET", path("datasets", dataset, "runs", run), into(Run), max_bytes=ANSWER_BYTES)


def runs(dataset: str, *, limit: int | None = None) -> Pages[Run]:
    """List the runs of a dataset.

    Args:
        dataset: name of the dataset.
        limit: maximum number of runs; None: all.
    """
    return listed(Run, "runs", path("datasets", dataset, "runs"), limit)


def delete_run(dataset: str, run: str) -> Call[None]:
    """Permanently delete a run and its journal; "default" is emptied instead."""
    return written("DELETE", path("datasets", dataset, "runs", run), nothing)


def export_run(dataset: str, run: str = "default", *, deadline_s: float = TRANSFER_DEADLINE_S) -> Stream:
    """Export a run's journal, as the chunks of a file with one entry a line.

        with open("guru.default.ndjson", "wb") as file:
            file.writelines(bots.export_run("guru"))

    Args:
        dataset: name of the dataset.
        run: name of the run.
        deadline_s: until the response begins; then for each further chunk.

    Raises:
        ConflictError: old entries were pruned, or the run forked one that was deleted.
    """
    where = path("datasets", dataset, "runs", run, "export")
    return Call("GET", where, bytes, headers={"Accept": NDJSON}, deadline_s=deadline_s)


def import_run(
    source: str | os.PathLike[str] | Callable[[], Iterable[bytes]],
    dataset: str,
    run: str = "default",
    *,
    on_progress: Progress | None = None,
    deadline_s: float = TRANSFER_DEADLINE_S,
) -> Call[ImportedRun]:
    """Import a run from `export_run`, into a dataset with the same tasks: all of it or nothing.

    Args:
        source: path of the file, or a function that returns the bytes from the start (attempts are repeated).
        dataset: name of the dataset.
        run: name of the new run.
        on_progress: called with the bytes sent and the total (None: unknown); starts at 0 again after a failed
            attempt. AsyncClient calls it from a thread.
        deadline_s: for the whole upload with its retries.

    Raises:
        ConflictError: the name is taken, or the run belongs to other tasks than the dataset's.
        InvalidRequestError: a truncated or foreign file, or an entry that does not fold.
        OSError: the file cannot be read.
    """
    upload = Upload(source, None, on_progress) if callable(source) else file_upload(source, on_progress)
    headers = {**key_header(None), "Content-Type": NDJSON}
    where = path("datasets", dataset, "runs", run, "import")
    return Call("POST", where, into(ImportedRun), (), upload, headers, deadline_s)


def tasks(
    dataset: str,
    run: str = "default",
    *,
    ids: Iterable[str] = (),
    tag: str | None = None,
    search: str | None = None,
    segment: str | None = None,
    sort: str | None = None,
    limit: int | None = None,
) -> Pages[TaskBelief]:
    """List the tasks with the run's predicted success rates, a page at a time.

    Args:
        dataset: name of the dataset.
        run: name of the run.
        ids: only these tasks; empty: all.
        tag: only tasks with this tag.
        search: only tasks whose ID contains this text, ignoring case.
        segment: untried, aborting, stuck, teaching, solved or retired, as in `TaskBelief`; None: all that are not
            retired.
        sort: index (the pool's order), mean, distance (to the target), effective, variance, attempts, successes,
            visits or last_step; "-mean" descends.
        limit: maximum number of tasks; None: all (for a large pool `tasks_arrow` is faster).
    """
    where = path("datasets", dataset, "runs", run, "tasks")
    return listed(TaskBelief, "tasks", where, limit, *_chosen(ids, tag, search), ("segment", segment), ("sort", sort))


def count_tasks(
    dataset: str,
    run: str = "default",
    *,
    ids: Iterable[str] = (),
    tag: str | None = None,
    search: str | None = None,
) -> Call[TaskCounts]:
    """Count the tasks of each segment that `tasks` would list.

    Args:
        dataset: name of the dataset.
        run: name of the run.
        ids: only these tasks; empty: all.
        tag: only tasks with this tag.
        search: only tasks whose ID contains this text, ignoring case.
    """
    where = path("datasets", dataset, "runs", run, "tasks")
    return Call("GET", where, field_of(TaskCounts, "segments"), (*_chosen(ids, tag, search), ("limit", "1")))


def task_history(dataset: str, task: str, run: str = "default", *, limit: int | None = None) -> Pages[TaskVisit]:
    """List the reports of a task, newest first, including reports undone by a rewind.

    Each request looks through at most 500 journal entries, so a long journal takes many requests.

    Args:
        dataset: name of the dataset.
        task: ID of the task.
        run: name of the run.
        limit: maximum number of reports; None: all.

    Raises:
        NotFoundError: the dataset has no such task.
    """
    where = path("datasets", dataset, "runs", run, "tasks", task, "history")
    return listed(TaskVisit, "history", where, limit)


def tasks_csv(
    dataset: str,
    run: str = "default",
    *,
    ids: Iterable[str] = (),
    tag: str | None = None,
    search: str | None = None,
    segment: str | None = None,
    sort: str | None = None,
    deadline_s: float = STREAM_DEADLINE_S,
) -> Stream:
    """Stream the tasks that `tasks` would list as CSV with a header, in UTF-8.

    An ID that begins with "=", "+", "-" or "@" stays as it is: a spreadsheet may take it for a formula.

    Args:
        dataset: name of the dataset.
        run: name of the run.
        ids: only these tasks; empty: all.
        tag: only tasks with this tag.
        search: only tasks whose ID contains this text, ignoring case.
        segment: as of `tasks`.
        sort: as of `tasks`.
        deadline_s: until the response begins; then for each further chunk.
    """
    where = path("datasets", dataset, "runs", run, "tasks")
    params = (*_chosen(ids, tag, search), *given(segment=segment, sort=sort).items())
    return Call("GET", where, bytes, params, headers={"Accept": "text/csv"}, deadline_s=deadline_s)


def tasks_arrow(dataset: str, run: str = "default", *, deadline_s: float = STREAM_DEADLINE_S) -> Stream:
    """Stream the belief about the whole pool in Arrow format, as chunks for `pyarrow.ipc.open_stream`.

    Args:
        dataset: name of the dataset.
        run: name of the run.
        deadline_s: until the response begins; then for each further chunk.
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
    """List the closed steps of a run, oldest first.

    Args:
        dataset: name of the dataset.
        run: name of the run.
        after_step: only steps after this one.
        limit: maximum number of steps; None: all.
    """
    where = path("datasets", dataset, "runs", run, "history")
    return listed(HistoryStep, "history", where, limit, ("after_step", after_step))


def journal(
    dataset: str, run: str = "default", *, kinds: Iterable[str] = (), limit: int | None = None
) -> Pages[JournalEntry]:
    """List the journal of a run, newest entry first, including entries undone by a rewind.

    Args:
        dataset: name of the dataset.
        run: name of the run.
        kinds: only entries of these kinds; empty: all. They are report, settings, forget, rewind and fork.
        limit: maximum number of entries; None: all.
    """
    where = path("datasets", dataset, "runs", run, "journal")
    chosen = (("kind", kind) for kind in checked_strings(kinds, "kinds"))
    return listed(JournalEntry, "entries", where, limit, *chosen)


def leases(dataset: str, run: str = "default", *, limit: int = PAGE, ids: int = 5) -> Call[Leases]:
    """List the leases of a run: tasks selected and not reported yet.

    Args:
        dataset: name of the dataset.
        run: name of the run.
        limit: maximum number of leases, those that expire first; at most 1000.
        ids: number of task IDs to return per lease; at most 1000.
    """
    where = path("datasets", dataset, "runs", run, "leases")
    return Call("GET", where, into(Leases), (("limit", str(limit)), ("ids", str(ids))))


def forget_tasks(dataset: str, tasks: Iterable[str], run: str = "default") -> Call[Run]:
    """Forget what a run knows of some tasks alone, because a label or a verifier was mended.

    They then count as never tried. What their rollouts say about other tasks stays.
    """
    return written(
        "POST", path("datasets", dataset, "runs", run, "forget"), into(Run), {"tasks": checked_strings(tasks, "tasks")}
    )


def rewind(dataset: str, step: int, run: str = "default") -> Call[Run]:
    """Rewind a run to a step, for example when a trainer resumes from a checkpoint.

    Reporting selections made before the rewind raises StaleEpochError.
    """
    return written(
        "POST", path("datasets", dataset, "runs", run, "rewind"), into(Run), {"step": checked_number(step, "step")}
    )


def snapshot(dataset: str, run: str = "default") -> Call[Snapshot]:
    """Store a snapshot of a run's state now, so that recovery is faster."""
    return written("POST", path("datasets", dataset, "runs", run, "snapshots"), into(Snapshot))


def snapshots(dataset: str, run: str = "default", *, limit: int | None = None) -> Pages[Snapshot]:
    """List the snapshots of a run.

    Args:
        dataset: name of the dataset.
        run: name of the run.
        limit: maximum number of snapshots; None: all.
    """
    return listed(Snapshot, "snapshots", path("datasets", dataset, "runs", run, "snapshots"), limit)


def curve(dataset: str, run: str = "default", *, points: int | None = None) -> Call[Curve]:
    """Return a run's history in a few points, each of which aggregates consecutive steps.

    Args:
        dataset: name of the dataset.
        run: name of the run.
        points: maximum number of points, 1 to 2,000; None: 500.
    """
    where = path("datasets", dataset, "runs", run, "curve")
    return Call("GET", where, into(Curve), params=() if points is None else (("points", str(points)),))


def calibration(dataset: str, run: str = "default", *, steps: int | None = None) -> Call[Calibration]:
    """Compare predicted and observed success rates over the last steps, in ten bins of the prediction.

    Args:
        dataset: name of the dataset.
        run: name of the run.
        steps: number of last steps to compare, 1 to 1,000; None: 200.
    """
    where = path("datasets", dataset, "runs", run, "calibration")
    return Call("GET", where, into(Calibration), params=() if steps is None else (("steps", str(steps)),))


def outlooks(dataset: str, run: str = "default", *, points: int | None = None) -> Call[Outlooks]:
    """Return the estimates for the whole pool over time, always with the newest.

    Args:
        dataset: name of the dataset.
        run: name of the run.
        points: maximum number of estimates, 1 to 2,000; None: 200.
    """
    where = path("datasets", dataset, "runs", run, "outlooks")
    return Call("GET", where, into(Outlooks), params=() if points is None else (("points", str(points)),))


def _chosen(ids: Iterable[str], tag: str | None, search: str | None) -> tuple[tuple[str, str], ...]:
    """Return the filters of tasks as query parameters."""
    return (*(("ids", task) for task in checked_strings(ids, "ids")), *given(tag=tag, search=search).items())
