"""GET overview of all runs, and the summary of one: how each goes, and its gain over uniform sampling."""

from datetime import datetime
from typing import Annotated

from fastapi import Depends, Query
from msgspec import Struct, structs
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.cursors import AfterRun, read_sorted_cursor, write_cursor
from bots_service.api.openapi import answers_with
from bots_service.api.parameters import Cursor, DatasetName, Limit, RunName, services_of
from bots_service.api.problems import EVERY, RUN
from bots_service.api.responses import EXAMPLE_TIME, filled, json_response, moment
from bots_service.api.security import About, allowed, caller_of, guarded_router
from bots_service.core.checks import NAME
from bots_service.core.summary.course import Gain
from bots_service.core.summary.verdict import RunStatus, RunVerdict
from bots_service.keys import Scope
from bots_service.overview import SORTS, OverviewQuery, OverviewTotals, Place, SummedRun

router = guarded_router(tags=["runs"])

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


EXAMPLE_GAIN = Gain("measured", "uniform", 1.45, 2764.8, 6144.0, 12, 0.6914, 0.4768, 0.4768)
EXAMPLE = RunSummary(
    dataset="gsm8k",
    run="default",
    belief="tracker",
    strategy="pass",
    created_at=EXAMPLE_TIME,
    status="running",
    step=12,
    epoch=0,
    seq=12,
    last_step_at=EXAMPLE_TIME,
    reported=768,
    effective=531,
    rollouts=6144.0,
    effective_task_ratio=0.6914,
    trend=[0.61, 0.66, 0.6914],
    gain=EXAMPLE_GAIN,
    verdict=RunVerdict("healthy", "69.1 % of the tasks of the last 12 steps were effective.", "No action is needed."),
    attention=False,
    refused=RefusedReportsSummary(1, EXAMPLE_TIME, "task 'gsm8k-4': 9 successes of 8 trials"),
)
EXAMPLE_WITH_LEASES = RunSummaryWithLeases(**structs.asdict(EXAMPLE), leased=64)
EXAMPLE_TOTALS = OverviewTotals(1, 2, 0, 0, 2, 0, 0, 1536, 897, 12288.0)


@router.get(
    "/overview",
    summary="Summarize all runs",
    responses=answers_with(Overview([EXAMPLE], 2, EXAMPLE_TOTALS, None), *EVERY),
)
@allowed(Scope.READ, about=About.NONE)
async def read_overview(request: Request, query: Annotated[OverviewQuery, Depends(overview_query)]) -> Response:
    """Return a summary of each run of the datasets that the key has access to."""
    page = await services_of(request).overview.page(caller_of(request), query)
    following = None if page.next is None else write_cursor((query.sort, *page.next))
    runs = [RunSummary.from_summed(run) for run in page.runs]
    return json_response(Overview(runs, page.matching, page.totals, following))


@router.get(
    "/datasets/{dataset}/runs/{run}/summary",
    summary="Summarize a run",
    responses=answers_with(EXAMPLE_WITH_LEASES, *EVERY, *RUN),
)
@allowed(Scope.READ)
async def read_summary(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Return how a run goes, its gain over uniform sampling, and a verdict with advice."""
    found, leased = await services_of(request).overview.with_leases(dataset, run)
    return json_response(RunSummaryWithLeases(**structs.asdict(RunSummary.from_summed(found)), leased=leased))
