"""GET history, curve, calibration and journal of a run."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import Query
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.cursors import AfterNumber, read_cursor, write_cursor
from bots_service.api.openapi import answers_with
from bots_service.api.parameters import Cursor, DatasetName, Limit, RunName, services_of
from bots_service.api.problems import EVERY, RUN
from bots_service.api.responses import EXAMPLE_TIME, filled, json_response, moment, ratio
from bots_service.api.security import allowed, guarded_router
from bots_service.core import receipt
from bots_service.keys import Scope
from bots_service.records import CurvePoint, EntryKind, LoggedEntry, StoredReceipt

router = guarded_router(tags=["runs"])

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

    @classmethod
    def from_sums(cls, steps: int, sums: receipt.Calibration) -> "CalibrationResponse":
        """Return the answer for some sums."""
        rows = zip(sums.rollouts, sums.predicted, sums.solved, strict=True)
        return cls(
            steps,
            [
                Bin(place / receipt.BINS, (place + 1) / receipt.BINS, many, ratio(predicted, many), ratio(solved, many))
                for place, (many, predicted, solved) in enumerate(rows)
            ],
        )


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


EXAMPLE_STEP = ClosedStep(
    step=12,
    epoch=0,
    seq=12,
    reported=64,
    effective=45,
    effective_task_ratio=0.703125,
    mean_pass_rate=0.48,
    rollouts=512.0,
    capability=None,
    brier=0.11,
    log_loss=0.42,
    late=0,
    new_tasks=40,
    distinct_tasks=724,
    tokens=460800.0,
    seconds=0.0,
    time=EXAMPLE_TIME,
)
EXAMPLE_POINT = Point(
    first_step=11,
    last_step=12,
    reported=128,
    effective=90,
    effective_task_ratio=0.703125,
    all_solved=16,
    none_solved=22,
    rollouts=1024.0,
    success_rate=0.48,
    capability=None,
    brier=0.11,
    log_loss=0.42,
    uniform_effective_task_ratio=0.45,
    distribution=(0.1, 0.2, 0.4, 0.2, 0.1),
    late=0,
    expired=0,
    new_tasks=83,
    distinct_tasks=724,
    time=EXAMPLE_TIME,
)
EXAMPLE_ENTRY = JournalEntry(
    seq=12,
    epoch=0,
    step=12,
    kind="report",
    tasks=64,
    effective=45,
    rollouts=512.0,
    closed=True,
    hidden=False,
    time=EXAMPLE_TIME,
)


@router.get(
    "/datasets/{dataset}/runs/{run}/history",
    summary="List a run's closed steps",
    responses=answers_with(HistoryPage([EXAMPLE_STEP], None), *EVERY, *RUN),
)
@allowed(Scope.READ)
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


@router.get(
    "/datasets/{dataset}/runs/{run}/curve",
    summary="Get a run's learning curve",
    responses=answers_with(Curve([EXAMPLE_POINT]), *EVERY, *RUN),
)
@allowed(Scope.READ)
async def read_curve(request: Request, dataset: DatasetName, run: RunName, points: Points = 500) -> Response:
    """Return the run's history in at most `points` points, for charts."""
    found = await services_of(request).insight.curve(dataset, run, points)
    return json_response(Curve([Point.from_curve(point) for point in found]))


@router.get(
    "/datasets/{dataset}/runs/{run}/calibration",
    summary="Compare predicted and observed success rates",
    responses=answers_with(CalibrationResponse(12, [Bin(0.4, 0.5, 1024.0, 0.46, 0.44)]), *EVERY, *RUN),
)
@allowed(Scope.READ)
async def read_calibration(request: Request, dataset: DatasetName, run: RunName, steps: Steps = 200) -> Response:
    """Compare the success rates predicted before the last steps with the observed ones."""
    compared, sums = await services_of(request).insight.calibration(dataset, run, steps)
    return json_response(CalibrationResponse.from_sums(compared, sums))


@router.get(
    "/datasets/{dataset}/runs/{run}/journal",
    summary="List a run's journal",
    responses=answers_with(JournalPage([EXAMPLE_ENTRY], None), *EVERY, *RUN),
)
@allowed(Scope.READ)
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
