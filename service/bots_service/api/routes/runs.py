"""Runs: created, changed, rewound, deleted, moved to another service; and all that is read of them, as their tasks."""

import asyncio
from datetime import datetime
from functools import partial
from types import NoneType
from typing import Annotated

import numpy as np
from fastapi import Depends, Query
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service import insight
from bots_service.api.overload import Download
from bots_service.api.requests import (
    DATASET_LIMIT,
    JSON,
    NDJSON,
    AfterNumber,
    AfterRun,
    AfterTask,
    Body,
    Cursor,
    DatasetName,
    Limit,
    RunName,
    answered_once,
    decode,
    filled,
    json_response,
    moment,
    no_content,
    page_of,
    read_cursor,
    read_json,
    services_of,
    state_of,
    write_cursor,
)
from bots_service.api.routing import ANY_SCOPE, About, Route, RouteKind, Routes, caller_of
from bots_service.api.uploads import split_lines
from bots_service.core.checks import NAME
from bots_service.core.receipt import BINS
from bots_service.core.run_settings import SomeSettings
from bots_service.core.summary import RunStatus
from bots_service.core.task_table import SEGMENTS, SOLVED_MEAN, SORTS, Segment, TaskTable
from bots_service.keys import Scope
from bots_service.moving import LONGEST_LINE
from bots_service.records import EntryKind, EvaluationName, EvaluationValue, JournalEntry, OpenDataset, Point
from bots_service.runs import ForkFrom, Run
from bots_service.storage.sql.transfer import Moved

routes = Routes("runs")

RUN = "/datasets/{dataset}/runs/{run}"


class RunRequest(SomeSettings):
    """Settings of a new run, and where it starts.

    fork: the run to continue.
    """

    fork: ForkFrom | None = None


class RewindRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The step that the run goes back to.

    step: a step that closed in the run's present history; 0 for the beginning.
    """

    step: Annotated[int, Meta(ge=0, le=2**53)]


class ProbeRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What a probe says of tasks.

    values: a number for each task, by its id; not all of them equal.
    """

    values: Annotated[dict[str, float], Meta(min_length=2)]


@Route(routes, f"PUT {RUN}", Scope.ADMIN, Run, reads=RunRequest, statuses=(200, 201))
async def put_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Create a run, or replace the settings of one whose journal is empty.

    It starts on its own, or continues another run.
    """
    body, wanted = await read_json(request, RunRequest)
    if wanted.fork is not None:
        caller_of(request).require_run(dataset, wanted.fork.run)
    act = partial(services_of(request).runs.put, dataset, run, wanted.given(), wanted.fork, body.idempotency_key())
    return await answered_once(
        body, tuple[Run, bool], act, lambda done: json_response(done[0], 201 if done[1] else 200)
    )


@Route(routes, f"GET {RUN}", ANY_SCOPE, Run)
async def get_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Return a run's present state."""
    return json_response(await services_of(request).runs.describe(dataset, run))


@Route(routes, f"PATCH {RUN}", Scope.ADMIN, Run, reads=SomeSettings)
async def change_settings(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Change settings from the next step on; written to the journal. Belief and prior are fixed."""
    body, wanted = await read_json(request, SomeSettings)
    change = services_of(request).runs.change_settings
    changed, again = await change(dataset, run, wanted.given(), body.idempotency_key())
    return json_response(changed, replayed=again)


@Route(routes, f"POST {RUN}/rewind", Scope.REPORT, Run, reads=RewindRequest)
async def rewind_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Return to the state right after a step closed. Outcomes of earlier selections are refused from then on."""
    body, wanted = await read_json(request, RewindRequest)
    rewound, again = await services_of(request).runs.rewind(dataset, run, wanted.step, body.idempotency_key())
    return json_response(rewound, replayed=again)


@Route(routes, f"PUT {RUN}/probe", Scope.REPORT, Run, reads=ProbeRequest, kind=RouteKind.UPLOAD)
async def put_probe(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Put a number for each of some tasks, in place of the numbers before; the run learns how much they tell.

    They are written to the journal.
    """
    body = Body(request, {JSON: min(DATASET_LIMIT, state_of(request.app).upload_bytes)})
    wanted = await asyncio.to_thread(decode, ProbeRequest, await body.whole())
    put, again = await services_of(request).runs.put_probe(dataset, run, wanted.values, body.idempotency_key())
    return json_response(put, replayed=again)


class EvaluationRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What was measured of a run's model.

    values: by name, such as heldout/accuracy; the higher, the better.
    step: the number of closed steps after which it was; null: now.
    """

    values: Annotated[dict[EvaluationName, EvaluationValue], Meta(min_length=1, max_length=1000)]
    step: Annotated[int, Meta(ge=0, le=2**53)] | None = None


@Route(routes, f"POST {RUN}/evaluations", Scope.REPORT, reads=EvaluationRequest)
async def evaluate_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Keep what was measured of a run's model, in place of what is there of the same name and step."""
    body, found = await read_json(request, EvaluationRequest)
    evaluate = services_of(request).runs.evaluate
    act = partial(evaluate, dataset, run, found.step, found.values, body.idempotency_key())
    return await answered_once(body, NoneType, act, no_content)


@Route(routes, f"POST {RUN}/finish", Scope.REPORT)
async def finish_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Say that training ended. The next selection or report takes that back."""
    body = Body(request)
    act = partial(services_of(request).runs.finish, dataset, run, body.idempotency_key())
    return await answered_once(body, NoneType, act, no_content)


@Route(routes, f"DELETE {RUN}", Scope.ADMIN)
async def delete_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Delete a run. The run `default` is created again at once, empty."""
    body = Body(request)
    act = partial(services_of(request).runs.delete, dataset, run, body.idempotency_key())
    return await answered_once(body, NoneType, act, no_content)


class ImportedRun(Struct, frozen=True):
    """An imported run.

    seq: the number of its last journal entry.
    """

    dataset: str
    run: str
    seq: int
    epoch: int


@Route(routes, f"GET {RUN}/export", Scope.READ, about=About.WHOLE, answers_media=(NDJSON,))
async def export_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Stream the run's journal as lines of JSON."""
    pieces = services_of(request).moves.export(dataset, run)
    disposition = {"Content-Disposition": f'attachment; filename="{dataset}.{run}.ndjson"'}
    return Download(request, pieces, headers=disposition, media_type=NDJSON)


@Route(routes, f"POST {RUN}/import", Scope.ADMIN, ImportedRun, lines=True, statuses=(201,))
async def import_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Replay an exported journal as a run of a dataset with the same tasks: all of it or nothing."""
    body = Body(request, {NDJSON: state_of(request.app).upload_bytes})
    lines = split_lines(body.chunks(), longest=LONGEST_LINE)
    act = partial(services_of(request).moves.import_lines, dataset, run, lines, body.idempotency_key)
    return await answered_once(
        body,
        Moved,
        act,
        lambda moved: json_response(ImportedRun(dataset, moved.run.name, moved.run.head, moved.run.epoch), 201),
    )


# --- how runs go -----------------------------------------------------------------------------------------------------


class Overview(insight.OverviewPage, frozen=True):
    """A page of runs."""

    next_cursor: str | None


@Route(routes, "GET /overview", Scope.READ, Overview)
async def read_overview(
    request: Request,
    search: Annotated[
        str | None,
        Query(min_length=1, max_length=257, description="Only runs whose `dataset/run` contains this, in any case."),
    ] = None,
    dataset: Annotated[str | None, Query(pattern=NAME, description="Only runs of this dataset.")] = None,
    status: Annotated[RunStatus | None, Query(description="Only runs with this status.")] = None,
    attention: Annotated[bool, Query(description="Only runs that need attention.")] = False,
    sort: Annotated[
        str,
        Query(
            pattern=f"^-?({'|'.join(insight.RUN_SORTS)})$",
            description="The order; a leading - turns it round. Nulls come last.",
        ),
    ] = "-last_step",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Return a summary of each run of the datasets that the key has access to."""
    after = read_cursor(cursor, AfterRun, sort=sort)
    query = insight.OverviewQuery(search, dataset, status, attention, sort, after, limit)
    page, last = await services_of(request).overview.page(caller_of(request), query)
    return json_response(filled(Overview, page, next_cursor=last and write_cursor((sort, *last))))


@Route(routes, f"GET {RUN}/summary", Scope.READ, insight.RunSummary)
async def read_summary(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Return how a run goes, its gain over uniform sampling, and a verdict with advice."""
    return json_response(await services_of(request).overview.one(dataset, run))


# --- what they did ---------------------------------------------------------------------------------------------------

Points = Annotated[int, Query(ge=1, le=2000, description="How many at most.")]
Steps = Annotated[int, Query(ge=1, le=1000, description="Number of last steps to compare.")]


class ClosedStep(Struct, frozen=True):
    """A closed step.

    step: the step.
    seq: the journal entry that closed it.
    tokens, seconds: what its rollouts cost, as far as outcomes say it.
    """

    step: int
    epoch: int
    seq: int
    reported: int
    effective: int
    effective_task_ratio: float | None
    success_rate: float | None
    rollouts: float
    capability: float | None
    brier: float | None
    log_loss: float | None
    late: int
    new_tasks: int
    distinct_tasks: int
    tokens: float
    seconds: float
    time: datetime


class HistoryPage(Struct, frozen=True):
    """A page of closed steps, in order."""

    history: list[ClosedStep]
    next_cursor: str | None


class Curve(Struct, frozen=True):
    """A run's history in a few points, in order, without steps undone by a rewind."""

    points: list[Point]


class Bin(Struct, frozen=True):
    """Rollouts with a predicted success rate in one interval.

    low, high: the bounds of the interval.
    mean_prediction: the mean of the predictions; null without rollouts.
    """

    low: float
    high: float
    rollouts: float
    mean_prediction: float | None
    success_rate: float | None


class CalibrationResponse(Struct, frozen=True):
    """Predicted and observed success rates over the last steps.

    steps: number of these steps with rollouts.
    bins: equal bins of the predictions, from 0 to 1.
    """

    steps: int
    bins: list[Bin]


class JournalPage(Struct, frozen=True):
    """A page of a run's journal, the newest entry first."""

    entries: list[JournalEntry]
    next_cursor: str | None


@Route(routes, f"GET {RUN}/history", Scope.READ, HistoryPage)
async def read_history(
    request: Request,
    dataset: DatasetName,
    run: RunName,
    after_step: Annotated[
        int, Query(ge=0, le=2**53, description="Only steps after this one; a cursor has precedence.")
    ] = 0,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Return the closed steps of the run's history in order, without steps undone by a rewind."""
    after = read_cursor(cursor, AfterNumber, after_step)
    found = await services_of(request).insight.steps(dataset, run, after, limit + 1)
    steps, following = page_of(found, limit, lambda step: step.step)
    return json_response(
        HistoryPage([filled(ClosedStep, step, time=moment(step.created_at)) for step in steps], following)
    )


@Route(routes, f"GET {RUN}/curve", Scope.READ, Curve)
async def read_curve(request: Request, dataset: DatasetName, run: RunName, points: Points = 500) -> Response:
    """Return the run's history in at most `points` points, for charts."""
    found = await services_of(request).insight.curve(dataset, run, points)
    return json_response(Curve(found))


@Route(routes, f"GET {RUN}/calibration", Scope.READ, CalibrationResponse)
async def read_calibration(request: Request, dataset: DatasetName, run: RunName, steps: Steps = 200) -> Response:
    """Compare the success rates predicted before the last steps with the observed ones."""
    compared, sums = await services_of(request).insight.calibration(dataset, run, steps)
    bins = [
        Bin(place / BINS, (place + 1) / BINS, many, *((predicted / many, solved / many) if many else (None, None)))
        for place, (many, predicted, solved) in enumerate(zip(*sums, strict=True))
    ]
    return json_response(CalibrationResponse(compared, bins))


@Route(routes, f"GET {RUN}/journal", Scope.READ, JournalPage)
async def read_journal(
    request: Request,
    dataset: DatasetName,
    run: RunName,
    kind: Annotated[
        list[EntryKind],
        Query(max_length=6, description="Only entries of these kinds: rewind and settings mark charts."),
    ] = [],  # noqa: B006  # FastAPI copies it
    limit: Annotated[int, Query(ge=1, le=200, description="How many at most.")] = 50,  # a report may take 200 KB
    cursor: Cursor = None,
) -> Response:
    """Return the entries of the run's journal, newest first, including entries undone by a rewind."""
    before = read_cursor(cursor, AfterNumber)
    found = await services_of(request).insight.entries(dataset, run, before, limit + 1, kind)
    return json_response(JournalPage(*page_of(found, limit, lambda entry: entry.seq)))


# --- their tasks in flight, their tags, and tasks -------------------------------------------------------------------

LeaseIds = Annotated[int, Query(ge=0, le=1000, description="How many ids of each lease at most.")]
TagSteps = Annotated[int, Query(ge=1, le=200, description="Number of last steps to sum up.")]


class LeasesResponse(Struct, frozen=True):
    """Tasks in flight, those first whose leases end soonest.

    leased: how many tasks are in flight, also where not all leases are listed.
    leases: the leases.
    """

    leased: int
    leases: list[insight.Lease]


@Route(routes, f"GET {RUN}/leases", Scope.READ, LeasesResponse)
async def read_leases(
    request: Request, dataset: DatasetName, run: RunName, limit: Limit = 100, ids: LeaseIds = insight.IDS_PER_LEASE
) -> Response:
    """Return the tasks in flight, ordered by when their leases end."""
    leased, groups = await services_of(request).insight.leases(dataset, run, limit, ids)
    return json_response(LeasesResponse(leased, groups))


@Route(routes, f"GET {RUN}/tags", Scope.READ, insight.TagTable)
async def read_tags(request: Request, dataset: DatasetName, run: RunName, steps: TagSteps = 50) -> Response:
    """Return the sums over the last steps by tag, next to the success rates of as many steps before."""
    return json_response(await services_of(request).insight.tags(dataset, run, steps))


class Task(Struct, frozen=True, gc=False):
    """The belief about a task.

    id: the task's id.
    alpha, beta: the parameters of the Beta distribution of the task's success probability; null where the run's belief
        has none.
    interval: 5 % and 95 % quantiles of the success probability.
    effective: the probability that of a group of `rollouts_per_task` rollouts some succeed and some fail.
    variance: the expected variance of one rollout's success, E[p (1 - p)], in [0, 0.25].
    attempts: how many rollouts of the task the closed steps of this run reported.
    successes: how many of them succeeded; a fractional reward counts in part.
    visits: how many of these steps reported it.
    last_step: the last of these steps; null if there was none.
    aborts: how often it was selected and aborted.
    segment: untried, aborting, unsolved, teaching, solved or retired.
    tags: the tags that the task carries, sorted.
    """

    id: str
    alpha: float | None
    beta: float | None
    mean: float
    interval: tuple[float, float]
    effective: float
    variance: float
    attempts: float
    successes: float
    visits: int
    last_step: int | None
    aborts: int
    segment: Segment
    tags: list[str]


class TasksResponse(Struct, frozen=True):
    """A page of tasks.

    tasks: the tasks.
    matching: how many tasks the query is about, on all pages.
    segments: how many tasks of each segment have the query's ids, tag and search, whatever its segment.
    """

    tasks: list[Task]
    matching: int
    segments: dict[Segment, int]
    next_cursor: str | None


async def task_query(
    ids: Annotated[list[str], Query(max_length=1000, description="Only these tasks.")] = [],  # noqa: B006
    tag: Annotated[str | None, Query(max_length=64, description="Only tasks that carry this tag.")] = None,
    search: Annotated[
        str | None,
        Query(min_length=1, max_length=128, description="Only tasks whose id contains this; a and A are the same."),
    ] = None,
    segment: Annotated[
        Segment | None,
        Query(
            description="Only tasks of this segment. untried: no rollout in this run; aborting: aborted at its"
            " last three selections or more; unsolved: tried, never a success;"
            f" solved: tried, mean at least {SOLVED_MEAN}; teaching: the other tried ones; retired: not selected."
            " Without it: all but the retired ones."
        ),
    ] = None,
    sort: Annotated[
        str,
        Query(
            pattern=f"^-?({'|'.join(SORTS)})$",
            description="The order; a leading - turns it round. distance: |mean - target|.",
        ),
    ] = "index",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> insight.TaskQuery:
    """Return which tasks are asked for."""
    return insight.TaskQuery(tuple(ids), tag, search, segment, sort, read_cursor(cursor, AfterTask, sort=sort), limit)


@Route(routes, "GET /datasets/{dataset}/runs/{run}/tasks", Scope.READ, TasksResponse)
async def list_tasks(
    request: Request,
    dataset: DatasetName,
    run: RunName,
    query: Annotated[insight.TaskQuery, Depends(task_query)],
) -> Response:
    """Return the beliefs about tasks; retired ones only if the query asks for their segment."""
    page = await services_of(request).insight.tasks(dataset, run, query)
    rows = await asyncio.to_thread(_tasks_of, page.dataset, page.table)
    following = page.next and write_cursor((query.sort, *page.next))
    return json_response(TasksResponse(rows, page.matching, page.segments, following))


def _tasks_of(dataset: OpenDataset, table: TaskTable) -> list[Task]:
    listed = {name: column.tolist() for name, column in table.items()}
    nothing = [None] * len(listed["tasks"])
    own = {name: listed.get(name, nothing) for name in Task.__struct_fields__}
    own["id"], own["tags"] = dataset.ids.take(table["tasks"]), _tags_of(dataset, table)
    own["interval"] = list(zip(listed["low"], listed["high"], strict=True))
    own["last_step"] = [step or None for step in listed["last_step"]]
    own["segment"] = [SEGMENTS[place] for place in listed["segment"]]
    return [Task(*row) for row in zip(*own.values(), strict=True)]


def _tags_of(dataset: OpenDataset, table: TaskTable) -> list[list[str]]:
    tags: list[list[str]] = [[] for _ in range(len(table["tasks"]))]
    for tag, carriers in sorted(dataset.pool.tags.items()):
        places = np.searchsorted(carriers, table["tasks"])
        places[places == len(carriers)] = 0
        for row in np.flatnonzero(carriers[places] == table["tasks"]).tolist():
            tags[row].append(tag)
    return tags
