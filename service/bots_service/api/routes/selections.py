"""POST /select: which tasks to try next."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.answers import json_response
from bots_service.api.bodies import JSON, TRAINING_LIMIT, Body
from bots_service.api.decoding import decode_plain
from bots_service.api.direct_route import DirectRoute
from bots_service.api.openapi import answers_with, reads
from bots_service.api.parameters import use_cases_of
from bots_service.api.problems import documented
from bots_service.api.requests import SelectRequest
from bots_service.api.routes.common import BODY, EVERY, ONCE, RUN
from bots_service.api.security import About, allowed, guarded_router, require_dataset, tell_names
from bots_service.api.training_answers import SelectAnswer
from bots_service.errors import InvalidSelectionError, PoolTooSmallError
from bots_service.ports.keys import Scope
from bots_service.usecases.select_tasks import Wish

router = guarded_router(tags=["training"], route_class=DirectRoute)

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
@allowed(Scope.SELECT, about=About.BODY)
async def select_tasks(request: Request) -> Response:
    """Return tasks whose success probability is near the run's target, and lease them.

    Safe to retry: the same key and body get the same tasks.
    """
    use_cases = use_cases_of(request)
    body = Body(request, {JSON: TRAINING_LIMIT})
    wanted = decode_plain(_SELECT, await body.whole())
    tell_names(request, {"dataset": wanted.dataset, "run": wanted.run})
    require_dataset(request, wanted.dataset)
    wish = Wish(
        dataset=wanted.dataset,
        run=wanted.run,
        count=wanted.count,
        tags=wanted.tags,
        quotas=wanted.quotas,
        exclude=wanted.exclude,
        first=wanted.first,
        uniform_share=wanted.uniform_share,
    )
    selection, dataset, again = await use_cases.select_tasks(wish, body.once())
    return json_response(SelectAnswer.of(selection, dataset, wanted.run), replayed=again)
