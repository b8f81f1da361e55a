"""POST /select and /report: which tasks to try next, and what rollouts showed."""

from contextlib import suppress

import msgspec
import structlog
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service import errors
from bots_service.api.requests import JSON, TRAINING_LIMIT, Body, decode, filled, json_response, read_json, services_of
from bots_service.api.routing import Route, RouteKind, Routes, caller_of, log_names
from bots_service.core.checks import Name
from bots_service.core.draw import SelectRequest
from bots_service.keys import Scope
from bots_service.outcomes import ReportRequest
from bots_service.records import OpenDataset, Selection

log = structlog.get_logger(__name__)

routes = Routes("training")


class SelectedTask(Struct, frozen=True, gc=False, omit_defaults=True):
    """A selected task.

    id: the task's id.
    draw: the drawn success probability; null where the strategy draws none.
    effective: the probability that of the task's group of rollouts some succeed and some fail.
    """

    id: str
    draw: float | None
    mean: float
    effective: float


class SelectResponse(Struct, frozen=True):
    """A selection.

    selection_id: pass it to /report with the tasks' outcomes.
    degraded: another caller may be working on the same tasks, or the belief may be older than what was acknowledged.
    reused: how many tasks were on lease already: too few others were left, or they were wanted `first`.
    tasks: the selected tasks.
    expected_effective: how many of their groups will be effective, on average: the sum of `effective`.
    """

    selection_id: str
    dataset: str
    run: str
    epoch: int
    step: int
    seq: int
    degraded: bool
    reused: int
    tasks: list[SelectedTask]
    expected_effective: float

    @classmethod
    def from_selection(cls, selection: Selection, dataset: OpenDataset, run: str) -> "SelectResponse":
        """Return the answer for a selection."""
        ids = dataset.ids.take(selection.tasks)
        numbers = (selection.draws.tolist(), selection.means.tolist(), selection.effective.tolist())
        tasks = list(map(SelectedTask, ids, *numbers))  # NaN is written as null
        return filled(cls, selection, selection_id=selection.id, dataset=dataset.row.name, run=run, tasks=tasks)


class ReportResponse(Struct, frozen=True):
    """What a report did; of the closed step if it closed one, else of the open step so far.

    seq: the number of the report's journal entry.
    step: the step that the report closed, or the last that had closed.
    closed: whether the report closed a step.
    tokens, seconds: what these rollouts cost, as far as outcomes say it.
    duplicate: the report had been received before and was not counted again.
    degraded: the report is durable, but other replicas see it only once the shared store is back.
    """

    seq: int
    step: int
    closed: bool
    reported: int
    effective: int
    effective_task_ratio: float | None
    capability: float | None
    late: int
    expired: int
    new_tasks: int
    distinct_tasks: int
    tokens: float
    seconds: float
    duplicate: bool
    degraded: bool


class RunNames(Struct, frozen=True):
    """Which run a body is about, whatever else it holds."""

    dataset: Name
    run: Name = "default"


# A report continues when its client disconnects: once it is durable, the client's retry is answered at once.
@Route(
    routes,
    "POST /select",
    Scope.SELECT,
    SelectResponse,
    kind=RouteKind.TRAINING,
    reads=SelectRequest,
    ends_with_client=True,
)
async def select_tasks(request: Request) -> Response:
    """Return tasks whose success probability is near the run's target, and lease them.

    Safe to retry: the same key and body get the same tasks.
    """
    services = services_of(request)
    body, wanted = await read_json(request, SelectRequest, TRAINING_LIMIT)
    log_names(request, {"dataset": wanted.dataset, "run": wanted.run})
    caller_of(request).require_run(wanted.dataset, wanted.run)
    selection, dataset, again = await services.runs.select(wanted, body.idempotency_key())
    return json_response(SelectResponse.from_selection(selection, dataset, wanted.run), replayed=again)


@Route(routes, "POST /report", Scope.REPORT, ReportResponse, kind=RouteKind.TRAINING, reads=ReportRequest)
async def report_outcomes(request: Request) -> Response:
    """Append the outcomes to the run's journal; answered once that is committed.

    Safe to retry under a key: the first answer comes again, with `duplicate` set, and nothing is counted twice.
    """
    services = services_of(request)
    body = Body(request, {JSON: TRAINING_LIMIT})
    text = await body.whole()
    try:
        report = decode(ReportRequest, text)
        log_names(request, {"dataset": report.dataset, "run": report.run})
        caller_of(request).require_run(report.dataset, report.run)
        reported = await services.runs.report(report, body.idempotency_key())
    except errors.InvalidInputError as error:
        await _count_refused(request, text, error)
        raise
    return json_response(filled(ReportResponse, reported, reported.receipt), replayed=reported.duplicate)


async def _count_refused(request: Request, text: bytes, error: errors.InvalidInputError) -> None:
    """Count a report that was refused with the run that it names, if there is one and the caller reaches it."""
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        named = msgspec.json.decode(text, type=RunNames)
        caller_of(request).require_run(named.dataset, named.run)
        try:
            await services_of(request).runs.count_refused_report(named.dataset, named.run, error)
        except errors.BotsError as reason:  # the trainer gets its answer whatever becomes of the count
            log.warning("refused_report_not_counted", dataset=named.dataset, run=named.run, reason=str(reason))
