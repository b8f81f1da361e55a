"""GET history of a run: what each closed step brought."""

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.answers import ClosedStep, History, json_response
from bots_service.api.cursors import AfterNumber, read_cursor, write_cursor
from bots_service.api.openapi import answers_with
from bots_service.api.parameters import Cursor, DatasetName, Limit, RunName, use_cases_of
from bots_service.api.problems import documented
from bots_service.api.routes.common import EVERY, RUN
from bots_service.api.security import allowed, guarded_router
from bots_service.ports.keys import Scope

router = guarded_router(tags=["runs"])

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
