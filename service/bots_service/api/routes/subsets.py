"""Subsets of a dataset: some of its tasks, sent once, to select among them ever after."""

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.app_state import state_of
from bots_service.api.bodies import Body
from bots_service.api.idempotency import answered_once
from bots_service.api.openapi import answers_with, reads
from bots_service.api.parameters import DatasetName, services_of
from bots_service.api.problems import DATASET, WRITE
from bots_service.api.responses import json_response
from bots_service.api.route_kinds import RouteKind
from bots_service.api.routes.datasets import EXAMPLE_TASK, UPLOADS
from bots_service.api.security import About, allowed, guarded_router
from bots_service.api.task_formats.text import AppendRequest
from bots_service.api.uploads import open_tasks, require_models
from bots_service.errors import InvalidTasksError
from bots_service.keys import Scope
from bots_service.records import Subset

router = guarded_router(tags=["datasets"])


class SubsetResponse(Struct, frozen=True):
    """A subset of a dataset.

    subset: its name, for select; null if the dataset does not have some of the tasks, and nothing was kept.
    tasks: how many of the tasks the dataset has, retired ones included.
    retired: how many of these are retired.
    others: how many tasks the dataset has besides them.
    missing: the places of the tasks that the dataset does not have, in the order in which they came, from 0.
    """

    dataset: str
    subset: str | None
    tasks: int
    retired: int
    others: int
    missing: tuple[int, ...]


EXAMPLE = SubsetResponse("gsm8k", "a01d4e65f2c95f2c9a01d4e65f2c9a01", 1, 0, 7472, ())


@router.post(
    "/datasets/{dataset}/subsets",
    summary="Create a subset of a dataset",
    openapi_extra=reads(AppendRequest([EXAMPLE_TASK]), UPLOADS),
    responses=answers_with(EXAMPLE, *WRITE, *DATASET, InvalidTasksError),
)
@allowed(Scope.SELECT, about=About.SHARED, kind=RouteKind.UPLOAD)
async def make_subset(request: Request, dataset: DatasetName) -> Response:
    """Keep some of a dataset's tasks as a subset, by their ids, from JSON, NDJSON (one task per line) or Parquet.

    The same tasks, in any order, are the same subset. A dataset keeps the 1,000 that were made last.
    """
    services = services_of(request)
    uploads = state_of(request.app).uploads
    body = Body(request, uploads.by_media_type)

    async def act() -> Subset:
        models = (await services.store.datasets.get(dataset)).facts.reference_models
        async with open_tasks(body, max_tasks=uploads.max_tasks, append=True) as file:
            require_models(file.header, models)
            return await services.datasets.keep_subset(dataset, file.blocks(len(models)), body.idempotency_key)

    def respond(made: Subset) -> Response:
        return json_response(SubsetResponse(dataset, made.name, made.tasks, made.retired, made.others, made.missing))

    return await answered_once(services.store.answers, body, Subset, act, respond)
