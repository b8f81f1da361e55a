"""POST /select: which tasks to try next."""

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.answers import json_response
from bots_service.api.bodies import JSON, TRAINING_LIMIT, Body
from bots_service.api.decoding import decode
from bots_service.api.direct_route import DirectRoute
from bots_service.api.openapi import answers_with, reads
from bots_service.api.parameters import use_cases_of
from bots_service.api.problems import documented
from bots_service.api.requests import SelectRequest
from bots_service.api.routes.common import BODY, EVERY, ONCE, RUN
from bots_service.api.training_answers import SelectAnswer
from bots_service.errors import InvalidSelectionError, PoolTooSmallError
from bots_service.usecases.select_tasks import Wish

router = APIRouter(tags=["training"], route_class=DirectRoute)

_SELECT = msgspec.json.Decoder(SelectRequest)


@router.post(
    "/select",
    response_class=Response,
    openapi_extra=reads(SelectRequest),
    responses={
        **answers_with(SelectAnswer),
        **documented(*EVERY, *BODY, *ONCE, *RUN, InvalidSelectionError, PoolTooSmallError),
    },
)
async def select_tasks(request: Request) -> Response:
    """Return tasks whose success probability is near the run's target, and lease them.

    Safe to retry: the same key and body get the same tasks.
    """
    use_cases = use_cases_of(request)
    body = Body(request, {JSON: TRAINING_LIMIT})
    wanted = decode(_SELECT, await body.whole())
    wish = Wish(
        dataset=wanted.dataset,
        run=wanted.run,
        count=wanted.count,
        tags=wanted.tags,
        quotas=wanted.quotas,
        exclude=wanted.exclude,
        uniform_share=wanted.uniform_share,
    )
    selection, dataset, again = await use_cases.select_tasks(wish, body.once())
    return json_response(SelectAnswer.of(selection, dataset, wanted.run), replayed=again)
