"""The tasks of a dataset: appended and retired."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.answers import Appended, Retired, encode, json_response
from bots_service.api.bodies import JSON, TRAINING_LIMIT, Body
from bots_service.api.decoding import decode_plain
from bots_service.api.idempotency import answered_once, kept
from bots_service.api.openapi import answers_with, reads
from bots_service.api.parameters import DatasetName, use_cases_of
from bots_service.api.problems import documented
from bots_service.api.requests import RetireRequest
from bots_service.api.routes.common import BODY, DATASET, EVERY, ONCE
from bots_service.api.routes.datasets import UPLOADS
from bots_service.api.security import allowed, guarded_router
from bots_service.api.task_formats.text import AppendRequest
from bots_service.api.uploads import Count, open_tasks, require_models
from bots_service.errors import InvalidTasksError, LimitReachedError, TaskExistsError
from bots_service.ports.keys import Scope
from bots_service.ports.records import DatasetRow

router = guarded_router(tags=["datasets"])

_RETIRE = msgspec.json.Decoder(RetireRequest)


@router.post(
    "/datasets/{dataset}/tasks",
    response_class=Response,
    openapi_extra=reads(AppendRequest, UPLOADS),
    responses={
        **answers_with(Appended),
        **documented(*EVERY, *BODY, *ONCE, *DATASET, InvalidTasksError, TaskExistsError, LimitReachedError),
    },
)
@allowed(Scope.ADMIN, audited=True)
async def append_tasks(request: Request, dataset: DatasetName) -> Response:
    """Append tasks to a dataset; those that were there keep their beliefs."""
    use_cases = use_cases_of(request)
    body = Body(request, request.app.state.uploads.by_media_type)
    scope, count = f"POST /datasets/{dataset}/tasks", Count()

    def answer(row: DatasetRow) -> Appended:
        return Appended(row.name, count.tasks, row.live)

    async def act() -> Response:
        models = (await use_cases.datasets.get(dataset)).facts.reference_models
        async with open_tasks(body, max_tasks=request.app.state.uploads.max_tasks, append=True) as file:
            require_models(file.header, models)
            row = await use_cases.append_tasks(
                dataset,
                count.through(file.blocks(len(models))),
                lambda: kept(scope, body, lambda row: (200, encode(answer(row)))),
            )
        return json_response(answer(row))

    return await answered_once(use_cases.answers, scope, body, act)


@router.delete(
    "/datasets/{dataset}/tasks",
    response_class=Response,
    openapi_extra=reads(RetireRequest),
    responses={**answers_with(Retired), **documented(*EVERY, *BODY, *ONCE, *DATASET, InvalidTasksError)},
)
@allowed(Scope.ADMIN, audited=True)
async def retire_tasks(request: Request, dataset: DatasetName) -> Response:
    """Hand out these tasks no longer; what is known of them stays."""
    use_cases = use_cases_of(request)
    body = Body(request, {JSON: TRAINING_LIMIT})
    scope = f"DELETE /datasets/{dataset}/tasks"
    ids = decode_plain(_RETIRE, await body.whole()).ids

    def answer(row: DatasetRow) -> Retired:
        return Retired(row.name, row.retired, row.live)

    async def act() -> Response:
        row = await use_cases.retire_tasks(dataset, ids, kept(scope, body, lambda row: (200, encode(answer(row)))))
        return json_response(answer(row))

    return await answered_once(use_cases.answers, scope, body, act)
