"""GET history, curve, calibration, outlooks and journal of a run: what its steps brought, and what was expected."""

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.answers import ClosedStep, History, json_response
from bots_service.api.cursors import AfterNumber, read_cursor, write_cursor
from bots_service.api.curve_answers import Calibration, Curve, Outlook, Outlooks, Point
from bots_service.api.journal_answers import JournalEntry, JournalPage
from bots_service.api.openapi import answers_with
from bots_service.api.parameters import Cursor, DatasetName, Limit, RunName, use_cases_of
from bots_service.api.problems import documented
from bots_service.api.routes.common import EVERY, RUN
from bots_service.api.security import allowed, guarded_router
from bots_service.ports.keys import Scope

router = guarded_router(tags=["runs"])

Points = Annotated[int, Query(ge=1, le=2000, description="How many at most.")]
Steps = Annotated[int, Query(ge=1, le=1000, description="Of so many of the last steps.")]
Entries = Annotated[int, Query(ge=1, le=200, description="How many at most.")]  # a report's body may take 200 KB
AfterStep = Annotated[int, Query(ge=0, le=2**53, description="Begin behind this step; a cursor has precedence.")]


@router.get(
    "/datasets/{dataset}/runs/{run}/history",
    response_class=Response,
    responses={**answers_with(History), **documented(*EVERY, *RUN)},
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
    """Return the closed steps of the run's present history, in order."""
    use_cases = use_cases_of(request)
    after = after_step if cursor is None else read_cursor(cursor, AfterNumber).number
    stored = await use_cases.read_history(dataset, run, after, limit + 1)
    steps = [ClosedStep.of(receipt) for receipt in stored[:limit]]
    following = write_cursor(AfterNumber(steps[-1].step)) if len(stored) > limit else None
    return json_response(History(steps, following))


@router.get(
    "/datasets/{dataset}/runs/{run}/curve",
    response_class=Response,
    responses={**answers_with(Curve), **documented(*EVERY, *RUN)},
)
@allowed(Scope.READ)
async def read_curve(request: Request, dataset: DatasetName, run: RunName, points: Points = 500) -> Response:
    """Return the run's present history in few points, for charts."""
    found = await use_cases_of(request).read_curve(dataset, run, points)
    return json_response(Curve([Point.of(point) for point in found]))


@router.get(
    "/datasets/{dataset}/runs/{run}/calibration",
    response_class=Response,
    responses={**answers_with(Calibration), **documented(*EVERY, *RUN)},
)
@allowed(Scope.READ)
async def read_calibration(request: Request, dataset: DatasetName, run: RunName, steps: Steps = 200) -> Response:
    """Return what was predicted before the last steps beside what came."""
    told, sums = await use_cases_of(request).read_calibration(dataset, run, steps)
    return json_response(Calibration.of(told, sums))


@router.get(
    "/datasets/{dataset}/runs/{run}/outlooks",
    response_class=Response,
    responses={**answers_with(Outlooks), **documented(*EVERY, *RUN)},
)
@allowed(Scope.READ)
async def read_outlooks(request: Request, dataset: DatasetName, run: RunName, points: Points = 200) -> Response:
    """Return what was expected of the pool as training went on, in few points."""
    found = await use_cases_of(request).read_outlooks(dataset, run, points)
    return json_response(Outlooks([Outlook.of(outlook) for outlook in found]))


@router.get(
    "/datasets/{dataset}/runs/{run}/journal",
    response_class=Response,
    responses={**answers_with(JournalPage), **documented(*EVERY, *RUN)},
)
@allowed(Scope.READ)
async def read_journal(
    request: Request, dataset: DatasetName, run: RunName, limit: Entries = 50, cursor: Cursor = None
) -> Response:
    """Return all that ever changed the run, the newest first; what a rewind took out of its present history too."""
    before = None if cursor is None else read_cursor(cursor, AfterNumber).number
    logged = await use_cases_of(request).read_journal(dataset, run, before, limit + 1)
    following = write_cursor(AfterNumber(logged[limit - 1].seq)) if len(logged) > limit else None
    return json_response(JournalPage([JournalEntry.of(one) for one in logged[:limit]], following))
