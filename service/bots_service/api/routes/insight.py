"""What is read of runs: how each goes, its steps and journal, what it has in flight, its tags, and a task's reports."""

from datetime import datetime
from typing import Annotated

from fastapi import Depends, Path, Query
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.requests import (
    AfterNumber,
    AfterRun,
    Cursor,
    DatasetName,
    Limit,
    RunName,
    read_cursor,
    read_sorted_cursor,
    services_of,
    write_cursor,
)
from bots_service.api.responses import filled, json_response, moment, ratio
from bots_service.api.routing import Route, Routes, caller_of
from bots_service.core.checks import NAME
from bots_service.core.receipt import BINS
from bots_service.core.summary import RunStatus
from bots_service.errors import UnknownTaskError
from bots_service.insight import IDS_PER_LEASE, Lease, TagTable
from bots_service.keys import Scope
from bots_service.overview import SORTS, OverviewQuery, OverviewTotals, Place, RunSummary, RunSummaryWithLeases
from bots_service.records import EntryKind, JournalEntry, Point, TaskVisit

routes = Routes("runs")

RUN = "/datasets/{dataset}/runs/{run}"

# --- how runs go -----------------------------------------------------------------------------------------------------

Search = Annotated[
    str | None,
    Query(min_length=1, max_length=257, description="Only runs whose `dataset/run` contains this, in any case."),
]
OneDataset = Annotated[str | None, Query(pattern=NAME, description="Only runs of this dataset.")]
OneStatus = Annotated[RunStatus | None, Query(description="Only runs with this status.")]
Attention = Annotated[bool, Query(description="Only runs that need attention.")]
Sort = Annotated[
    str,
    Query(pattern=f"^-?({'|'.join(SORTS)})$", description="The order; a leading - turns it round. Nulls come last."),
]


class Overview(Struct, frozen=True):
    """A page of runs.

    runs: the runs.
    matching: how many runs the query is about, on all pages.
    totals: sums over all runs that the key reaches, whatever the query.
    """

    runs: list[RunSummary]
    matching: int
    totals: OverviewTotals
    next_cursor: str | None


async def overview_query(
    search: Search = None,
    dataset: OneDataset = None,
    status: OneStatus = None,
    attention: Attention = False,
    sort: Sort = "-last_step",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> OverviewQuery:
    """Return which runs are asked for.

    Raises:
        InvalidInputError: the cursor is broken, or of another order.
    """
    last = read_sorted_cursor(cursor, AfterRun, sort)
    after = None if last is None else Place(*last)
    return OverviewQuery(search, dataset, status, attention, sort, after, limit)


@Route(routes, "GET /overview", "Summarize all runs", Scope.READ, Overview)
async def read_overview(request: Request, query: Annotated[OverviewQuery, Depends(overview_query)]) -> Response:
    """Return a summary of each run of the datasets that the key has access to."""
    page = await services_of(request).overview.page(caller_of(request), query)
    following = None if page.next is None else write_cursor((query.sort, *page.next))
    return json_response(Overview(page.runs, page.matching, page.totals, following))


@Route(routes, f"GET {RUN}/summary", "Summarize a run", Scope.READ, RunSummaryWithLeases)
async def read_summary(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Return how a run goes, its gain over uniform sampling, and a verdict with advice."""
    return json_response(await services_of(request).overview.one(dataset, run))


# --- what they did ---------------------------------------------------------------------------------------------------

Points = Annotated[int, Query(ge=1, le=2000, description="How many at most.")]
Steps = Annotated[int, Query(ge=1, le=1000, description="Number of last steps to compare.")]
Entries = Annotated[int, Query(ge=1, le=200, description="How many at most.")]  # a report's body may take 200 KB
Kinds = Annotated[
    list[EntryKind], Query(max_length=6, description="Only entries of these kinds: rewind and settings mark charts.")
]
AfterStep = Annotated[int, Query(ge=0, le=2**53, description="Only steps after this one; a cursor has precedence.")]


class ClosedStep(Struct, frozen=True):
    """A closed step.

    step: the step.
    seq: the journal entry that closed it.
    mean_pass_rate: mean over its tasks of the share of successful rollouts; null without rollouts.
    capability: the estimate after the step; null without references and with the belief `tracker`.
    tokens, seconds: what its rollouts cost, as far as outcomes say it.
    """

    step: int
    epoch: int
    seq: int
    reported: int
    effective: int
    effective_task_ratio: float | None
    mean_pass_rate: float | None
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
    """A page of closed steps, in order.

    history: the steps.
    """

    history: list[ClosedStep]
    next_cursor: str | None


class Curve(Struct, frozen=True):
    """A run's history in a few points, in order, without steps undone by a rewind.

    points: the points.
    """

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
    """A page of a run's journal, the newest entry first.

    entries: the entries.
    """

    entries: list[JournalEntry]
    next_cursor: str | None


@Route(routes, f"GET {RUN}/history", "List a run's closed steps", Scope.READ, HistoryPage)
async def read_history(
    request: Request,
    dataset: DatasetName,
    run: RunName,
    after_step: AfterStep = 0,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Return the closed steps of the run's history in order, without steps undone by a rewind."""
    services = services_of(request)
    after = after_step if cursor is None else read_cursor(cursor, AfterNumber)
    stored = await services.insight.steps(dataset, run, after, limit + 1)
    steps = [filled(ClosedStep, step, time=moment(step.created_at)) for step in stored[:limit]]
    following = write_cursor(steps[-1].step) if len(stored) > limit else None
    return json_response(HistoryPage(steps, following))


@Route(routes, f"GET {RUN}/curve", "Get a run's learning curve", Scope.READ, Curve)
async def read_curve(request: Request, dataset: DatasetName, run: RunName, points: Points = 500) -> Response:
    """Return the run's history in at most `points` points, for charts."""
    found = await services_of(request).insight.curve(dataset, run, points)
    return json_response(Curve(found))


@Route(
    routes, f"GET {RUN}/calibration", "Compare predicted and observed success rates", Scope.READ, CalibrationResponse
)
async def read_calibration(request: Request, dataset: DatasetName, run: RunName, steps: Steps = 200) -> Response:
    """Compare the success rates predicted before the last steps with the observed ones."""
    compared, sums = await services_of(request).insight.calibration(dataset, run, steps)
    bins = [
        Bin(place / BINS, (place + 1) / BINS, many, ratio(predicted, many), ratio(solved, many))
        for place, (many, predicted, solved) in enumerate(zip(*sums, strict=True))
    ]
    return json_response(CalibrationResponse(compared, bins))


@Route(routes, f"GET {RUN}/journal", "List a run's journal", Scope.READ, JournalPage)
async def read_journal(
    request: Request,
    dataset: DatasetName,
    run: RunName,
    kind: Kinds = [],  # noqa: B006  # FastAPI copies it
    limit: Entries = 50,
    cursor: Cursor = None,
) -> Response:
    """Return the entries of the run's journal, newest first, including entries undone by a rewind."""
    before = None if cursor is None else read_cursor(cursor, AfterNumber)
    logged = await services_of(request).insight.entries(dataset, run, before, limit + 1, kind)
    following = write_cursor(logged[limit - 1].seq) if len(logged) > limit else None
    return json_response(JournalPage(logged[:limit], following))


# --- their tasks in flight, tags, and single tasks ------------------------------------------------------------------

LeaseIds = Annotated[int, Query(ge=0, le=1000, description="How many ids of each lease at most.")]
TagSteps = Annotated[int, Query(ge=1, le=200, description="Number of last steps to sum up.")]
OneTask = Annotated[str, Path(min_length=1, max_length=256, description="The task's id; encode a slash in it as %2F.")]


class LeasesResponse(Struct, frozen=True):
    """Tasks in flight, those first whose leases end soonest.

    leased: how many tasks are in flight, also where not all leases are listed.
    leases: the leases.
    """

    leased: int
    leases: list[Lease]


@Route(routes, f"GET {RUN}/leases", "List a run's tasks in flight", Scope.READ, LeasesResponse)
async def read_leases(
    request: Request, dataset: DatasetName, run: RunName, limit: Limit = 100, ids: LeaseIds = IDS_PER_LEASE
) -> Response:
    """Return the tasks in flight, ordered by when their leases end."""
    leased, groups = await services_of(request).insight.leases(dataset, run, limit, ids)
    return json_response(LeasesResponse(leased, groups))


@Route(routes, f"GET {RUN}/tags", "Compare a run's tags", Scope.READ, TagTable)
async def read_tags(request: Request, dataset: DatasetName, run: RunName, steps: TagSteps = 50) -> Response:
    """Return the sums over the last steps by tag, next to the success rates of as many steps before."""
    return json_response(await services_of(request).insight.tags(dataset, run, steps))


class TaskHistoryPage(Struct, frozen=True):
    """A page of a task's history, the newest report first.

    history: the reports; there may be none on a page that is not the last.
    pruned: journal entries up to this one were pruned, so older reports are not known; 0 if all entries are kept.
    """

    history: list[TaskVisit]
    pruned: int
    next_cursor: str | None


# An id may hold slashes.
@Route(
    routes,
    f"GET {RUN}/tasks/{{task:path}}/history",
    "List a task's reports",
    Scope.READ,
    TaskHistoryPage,
    (UnknownTaskError,),
)
async def read_task_history(
    request: Request, dataset: DatasetName, run: RunName, task: OneTask, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """Return what the run's reports said of a task, newest first, including reports undone by a rewind.

    Each request reads at most 500 journal entries, so a page may have few reports, or none, and a cursor.
    """
    before = None if cursor is None else read_cursor(cursor, AfterNumber)
    page = await services_of(request).insight.task_history(dataset, run, task, before, limit)
    following = None if page.next is None else write_cursor(page.next)
    return json_response(TaskHistoryPage(page.visits, page.pruned, following))
