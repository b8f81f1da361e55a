"""Datasets: made from an upload, listed, deleted."""

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.answers import Dataset, Datasets, encode, json_response
from bots_service.api.bodies import Body, NoBody
from bots_service.api.cursors import AfterName, read_cursor, write_cursor
from bots_service.api.idempotency import answered_once, kept, kept_after
from bots_service.api.openapi import answers_with, reads
from bots_service.api.parameters import KEYED, Cursor, DatasetName, Limit, use_cases_of
from bots_service.api.problems import documented
from bots_service.api.routes.common import BODY, DATASET, EVERY, ONCE
from bots_service.api.security import ANY_SCOPE, About, allowed, caller_of, guarded_router
from bots_service.api.task_formats.text import DatasetRequest
from bots_service.api.uploads import NDJSON, PARQUET, UploadHeader, header_of, open_tasks
from bots_service.errors import DatasetExistsError, InvalidTasksError, LimitReachedError
from bots_service.ports.keys import Scope

router = guarded_router(tags=["datasets"])

ReferenceModels = Annotated[
    list[str], Query(max_length=64, description="For NDJSON and Parquet: the reference models, in order.")
]
Description = Annotated[str | None, Query(max_length=10_000, description="For NDJSON and Parquet.")]
UPLOADS = {NDJSON: {"type": "string"}, PARQUET: {"type": "string", "format": "binary"}}


@router.put(
    "/datasets/{dataset}",
    response_class=Response,
    openapi_extra=reads(DatasetRequest, UPLOADS),
    responses={
        **answers_with(Dataset, {200: "It existed with this very content.", 201: "It was created."}),
        **documented(*EVERY, *BODY, *ONCE, InvalidTasksError, DatasetExistsError, LimitReachedError),
    },
)
@allowed(Scope.ADMIN, audited=True)
async def put_dataset(
    request: Request,
    dataset: DatasetName,
    reference_model: ReferenceModels = [],  # noqa: B006  # FastAPI copies it
    description: Description = None,
) -> Response:
    """Create a dataset, with its run `default`, from JSON, NDJSON (one task a line) or Parquet."""
    use_cases = use_cases_of(request)
    body = Body(request, request.app.state.uploads.by_media_type)
    scope = f"PUT /datasets/{dataset}"

    async def act() -> Response:
        async with open_tasks(body, max_tasks=request.app.state.uploads.max_tasks) as file:
            header = header_of(file.header, UploadHeader(tuple(reference_model), description))
            blocks = file.blocks(len(header.reference_models))
            row, created = await use_cases.import_dataset(
                dataset,
                header,
                blocks,
                lambda: kept(scope, body, lambda row: (201, encode(Dataset.of(row)))),
                within=caller_of(request).datasets,
            )
        if created:
            return json_response(Dataset.of(row), 201)
        return await kept_after(use_cases.answers, scope, body, 200, encode(Dataset.of(row)))

    return await answered_once(use_cases.answers, scope, body, act)


@router.get("/datasets", response_class=Response, responses={**answers_with(Datasets), **documented(*EVERY)})
@allowed(Scope.READ, about=About.NONE)
async def list_datasets(request: Request, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Return the datasets that the key reaches, by name."""
    use_cases = use_cases_of(request)
    after = "" if cursor is None else read_cursor(cursor, AfterName).name
    rows = await use_cases.list_datasets(caller_of(request), after, limit + 1)
    following = write_cursor(AfterName(rows[limit - 1].name)) if len(rows) > limit else None
    return json_response(Datasets([Dataset.of(row) for row in rows[:limit]], following))


@router.get(
    "/datasets/{dataset}",
    response_class=Response,
    responses={**answers_with(Dataset), **documented(*EVERY, *DATASET)},
)
@allowed(*ANY_SCOPE)
async def get_dataset(request: Request, dataset: DatasetName) -> Response:
    """Return one dataset."""
    use_cases = use_cases_of(request)
    return json_response(Dataset.of(await use_cases.datasets.get(dataset)))


@router.delete(
    "/datasets/{dataset}",
    status_code=204,
    response_class=Response,
    openapi_extra=KEYED,
    responses=documented(*EVERY, *ONCE, *DATASET),
)
@allowed(Scope.ADMIN, audited=True)
async def delete_dataset(request: Request, dataset: DatasetName) -> Response:
    """Delete a dataset with its runs, journals and snapshots."""
    use_cases = use_cases_of(request)
    scope, body = f"DELETE /datasets/{dataset}", NoBody(request)

    async def act() -> Response:
        await use_cases.delete_dataset(dataset, kept(scope, body, lambda _: (204, b"")))
        return Response(status_code=204)

    return await answered_once(use_cases.answers, scope, body, act)
