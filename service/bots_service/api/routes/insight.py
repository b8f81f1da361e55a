"""What is read of runs: how each goes, its steps and journal, what it has in flight, its tags, and a task's reports."""

from datetime import datetime
from typing import Annotated, Any

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
from bots_service.core.summary.course import Gain
from bots_service.core.summary.verdict import RunStatus, RunVerdict
from bots_service.errors import UnknownTaskError
from bots_service.insight import IDS_PER_LEASE, Lease, TagTable
from bots_service.keys import Scope
from bots_service.overview import SORTS, OverviewQuery, OverviewTotals, Place, SummedRun
from bots_service.records import CurvePoint, EntryKind, LoggedEntry, LoggedVisit, StoredReceipt

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


class RefusedReportsSummary(Struct, frozen=True):
    """Reports of a run that were refused as invalid.

    count: how many.
    last_at: when the last one was (RFC 3339, UTC).
    reason: of the last one.
    """

    count: int
    last_at: datetime
    reason: str


class RunSummary(Struct, frozen=True):
    """How a run goes.

    belief: the kind of its belief.
    strategy: the present strategy of its selections.
    status: new (no step closed), running, stalled (tasks are in flight and the next step is overdue) or idle (nothing
        is in flight, or no step closed for a long time).
    step: number of closed steps; a fork counts those of its parent too.
    last_step_at: when the last step closed (RFC 3339, UTC); null before the first.
    reported, effective, rollouts: sums over all closed steps, without steps undone by a rewind.
    effective_task_ratio: over the last 50 steps; null if they reported nothing.
    trend: this ratio along all steps, the newest last; at most 40 points; null where nothing was reported.
    gain: the gain over uniform sampling; null for a run that samples uniformly.
    verdict: the most urgent that fits.
    attention: whether somebody should look at the run: its verdict says that something is wrong, and it moved within
        three days.
    refused: the reports that were refused as invalid; null without any.
    """

    dataset: str
    run: str
    belief: str
    strategy: str
    created_at: datetime
    status: RunStatus
    step: int
    epoch: int
    seq: int
    last_step_at: datetime | None
    reported: int
    effective: int
    rollouts: float
    effective_task_ratio: float | None
    trend: list[float | None]
    gain: Gain | None
    verdict: RunVerdict
    attention: bool
    refused: RefusedReportsSummary | None

    @classmethod
    def from_summed(cls, run: SummedRun) -> "RunSummary":
        """Return the answer for a run."""
        known, course, refused = run.known, run.known.course, run.known.refused
        last_refused = refused and RefusedReportsSummary(refused.count, moment(refused.last_at), refused.reason)
        return filled(
            cls,
            run,
            course.sums,
            run=known.row.name,
            belief=known.row.settings.belief,
            strategy=known.strategy,
            created_at=moment(known.row.created_at),
            step=known.step,
            epoch=known.head.epoch,
            seq=known.head.head,
            last_step_at=None if course.last_step_at is None else moment(course.last_step_at),
            effective_task_ratio=course.recent.effective_task_ratio,
            trend=list(course.trend),
            attention=run.urgency > 0,
            refused=last_refused,
        )


class RunSummaryWithLeases(RunSummary, frozen=True):
    """How a run goes, and how many of its tasks are in flight.

    leased: number of tasks in flight.
    """

    leased: int


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
    runs = [RunSummary.from_summed(run) for run in page.runs]
    return json_response(Overview(runs, page.matching, page.totals, following))


@Route(routes, f"GET {RUN}/summary", "Summarize a run", Scope.READ, RunSummaryWithLeases)
async def read_summary(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Return how a run goes, its gain over uniform sampling, and a verdict with advice."""
    found, leased = await services_of(request).overview.with_leases(dataset, run)
    return json_response(filled(RunSummaryWithLeases, RunSummary.from_summed(found), leased=leased))


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

    @classmethod
    def from_receipt(cls, stored: StoredReceipt) -> "ClosedStep":
        """Return the answer for a stored receipt."""
        step = stored.receipt.tally
        costs = {"tokens": stored.receipt.costs.tokens, "seconds": stored.receipt.costs.seconds}
        share = ratio(step.effective, step.reported)
        return filled(cls, stored.receipt, step, **costs, effective_task_ratio=share, time=moment(stored.created_at))


class HistoryPage(Struct, frozen=True):
    """A page of closed steps, in order.

    history: the steps.
    """

    history: list[ClosedStep]
    next_cursor: str | None


class Point(Struct, frozen=True):
    """Consecutive closed steps, aggregated.

    first_step, last_step: the first and the last of them.
    capability: the estimate after the last of them; null without references and with the belief `tracker`.
    success_rate, brier, log_loss: the mean over their rollouts; null without rollouts.
    uniform_effective_task_ratio: what the run's belief expected uniform sampling to have, the mean over their tasks.
    distribution: shares of the pool by expected success probability, in equal bins from 0 to 1, by a sample of 512
        tasks; null where the service did not look in these steps.
    time: when the last of them closed (RFC 3339, UTC).
    """

    first_step: int
    last_step: int
    reported: int
    effective: int
    effective_task_ratio: float | None
    all_solved: int
    none_solved: int
    rollouts: float
    success_rate: float | None
    capability: float | None
    brier: float | None
    log_loss: float | None
    uniform_effective_task_ratio: float | None
    distribution: tuple[float, ...] | None
    late: int
    expired: int
    new_tasks: int
    distinct_tasks: int
    time: datetime

    @classmethod
    def from_curve(cls, point: CurvePoint) -> "Point":
        """Return the answer for a point."""
        return filled(
            cls,
            point,
            effective_task_ratio=ratio(point.effective, point.reported),
            success_rate=ratio(point.successes, point.rollouts),
            time=moment(point.time),
        )


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


class JournalEntry(Struct, frozen=True, kw_only=True):
    """One entry of a run's journal.

    seq: the number of the entry.
    epoch: the epoch that it was appended in.
    step: number of closed steps after it.
    kind: report, settings, forget, rewind or fork.
    tasks: how many outcomes a report has, or how many tasks were forgotten.
    effective: how many of these groups have a gradient.
    rollouts: how many rollouts a report has.
    closed: whether a report closed a step.
    to_step: the step that a rewind went back to.
    changed: the names and values that a change of settings set.
    hidden: whether a rewind undid it.
    time: when it was appended (RFC 3339, UTC).
    """

    seq: int
    epoch: int
    step: int
    kind: str
    tasks: int | None = None
    effective: int | None = None
    rollouts: float | None = None
    closed: bool | None = None
    to_step: int | None = None
    changed: dict[str, Any] | None = None
    hidden: bool
    time: datetime

    @classmethod
    def from_logged(cls, logged: LoggedEntry) -> "JournalEntry":
        """Return the answer for an entry."""
        closed = logged.closed if logged.kind == "report" else None
        return filled(cls, logged, closed=closed, hidden=logged.is_hidden, time=moment(logged.created_at))


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
    steps = [ClosedStep.from_receipt(receipt) for receipt in stored[:limit]]
    following = write_cursor(steps[-1].step) if len(stored) > limit else None
    return json_response(HistoryPage(steps, following))


@Route(routes, f"GET {RUN}/curve", "Get a run's learning curve", Scope.READ, Curve)
async def read_curve(request: Request, dataset: DatasetName, run: RunName, points: Points = 500) -> Response:
    """Return the run's history in at most `points` points, for charts."""
    found = await services_of(request).insight.curve(dataset, run, points)
    return json_response(Curve([Point.from_curve(point) for point in found]))


@Route(
    routes, f"GET {RUN}/calibration", "Compare predicted and observed success rates", Scope.READ, CalibrationResponse
)
async def read_calibration(request: Request, dataset: DatasetName, run: RunName, steps: Steps = 200) -> Response:
    """Compare the success rates predicted before the last steps with the observed ones."""
    compared, sums = await services_of(request).insight.calibration(dataset, run, steps)
    rows = zip(sums.rollouts, sums.predicted, sums.solved, strict=True)
    bins = [
        Bin(place / BINS, (place + 1) / BINS, many, ratio(predicted, many), ratio(solved, many))
        for place, (many, predicted, solved) in enumerate(rows)
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
    return json_response(JournalPage([JournalEntry.from_logged(entry) for entry in logged[:limit]], following))


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


class TaskVisit(Struct, frozen=True):
    """What a report said of a task.

    seq: the report's journal entry.
    step: the number of steps that had closed after it; null if that is not stored yet.
    successes: how many of the task's rollouts succeeded; a fractional reward counts in part.
    trials: how many rollouts of the task were reported.
    mean_reward: successes / trials: the mean reward, with the run's reward range mapped to [0, 1].
    effective: whether the rollouts have a gradient: their rewards differ. False for a part of a group.
    group_size: how many rollouts the group has, of which the report brought some; null for a whole group.
    late: whether the report came after its step had closed, so that it counts for less or for nothing; null like step.
    hidden: whether a rewind undid it.
    """

    seq: int
    step: int | None
    successes: float
    trials: float
    mean_reward: float
    effective: bool
    group_size: float | None
    late: bool | None
    hidden: bool
    time: datetime

    @classmethod
    def from_logged(cls, visit: LoggedVisit) -> "TaskVisit":
        """Return the answer for a visit."""
        return filled(
            cls,
            visit,
            mean_reward=visit.successes / visit.trials,
            effective=visit.is_effective,
            late=visit.is_late,
            hidden=visit.is_hidden,
            time=moment(visit.created_at),
        )


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
    return json_response(TaskHistoryPage([TaskVisit.from_logged(each) for each in page.visits], page.pruned, following))
