"""Datasets: created from an upload, listed, deleted; their tasks downloaded, appended, retired and restored."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import datetime
from functools import partial
from types import NoneType
from typing import Annotated

import msgspec
from fastapi import Query
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.app_state import state_of
from bots_service.api.bodies import JSON, TRAINING_LIMIT, Body
from bots_service.api.cursors import AfterName, read_cursor, write_cursor
from bots_service.api.decoding import decode_plain
from bots_service.api.idempotency import answered_once
from bots_service.api.openapi import BINARY, Media, answers_with, reads
from bots_service.api.overload import Download
from bots_service.api.parameters import KEYED, Cursor, DatasetName, Limit, services_of
from bots_service.api.problems import DATASET, EVERY, ONCE, WRITE, documented
from bots_service.api.responses import EXAMPLE_TIME, filled, json_response, moment, no_content
from bots_service.api.route_kinds import RouteKind
from bots_service.api.security import ANY_SCOPE, About, allowed, caller_of, guarded_router
from bots_service.api.task_formats.text import (
    AppendRequest,
    DatasetRequest,
    Header,
    TaskRequest,
    header_line,
    task_lines,
)
from bots_service.api.uploads import NDJSON, PARQUET, header_of, open_tasks, require_models
from bots_service.core.checks import MAX_IDS, TaskId
from bots_service.errors import (
    DatasetExistsError,
    InvalidTasksError,
    LimitReachedError,
    OverloadedError,
    TaskExistsError,
)
from bots_service.keys import Scope
from bots_service.records import AppendTasksResult, CreateDatasetResult, DatasetRow, IdempotencyKey

router = guarded_router(tags=["datasets"])

ReferenceModels = Annotated[
    list[str], Query(max_length=64, description="For NDJSON and Parquet: the reference models, in order.")
]
Description = Annotated[str | None, Query(max_length=10_000, description="For NDJSON and Parquet.")]
Repeatable = Annotated[
    bool | None, Query(description="For NDJSON and Parquet: whether tasks are handed out without leases.", strict=False)
]
UPLOADS: Media = {
    NDJSON: {"schema": {"type": "string", "examples": ['{"id": "gsm8k-17", "reference_pass_rates": [0.25]}\n']}},
    PARQUET: BINARY,
}


class Predicted(Struct, frozen=True):
    """Predictions of a dataset that new runs see.

    name: of the predictor.
    tasks: how many tasks they are about.
    mean: of the predicted pass rates.
    parts: predictions are rounded to whole numbers of these parts of one.
    """

    name: str
    tasks: int
    mean: float
    parts: int


class Dataset(Struct, frozen=True):
    """A dataset.

    description: text for readers.
    reference_models: names of the reference models, in the order of the pass rates.
    offset_tags: tags that split profiles; a tracker learns an offset for each.
    profiles: number of distinct combinations of reference pass rates and offset tags.
    tags: number of tasks with each tag.
    digest: of the tasks; does not depend on the upload's format.
    repeatable: whether its tasks are handed out again without waiting.
    predictions: those that new runs see, in the order in which they were put.
    """

    name: str
    description: str
    reference_models: tuple[str, ...]
    tasks: int
    retired: int
    offset_tags: tuple[str, ...]
    profiles: int
    tags: dict[str, int]
    digest: str
    created_at: datetime
    predictions: tuple[Predicted, ...]
    repeatable: bool = False

    @classmethod
    def from_row(cls, row: DatasetRow) -> "Dataset":
        """Return the answer for a row."""
        predictions = tuple(Predicted(each.name, each.known, each.mean, each.parts) for each in row.facts.predictions)
        created_at = moment(row.created_at)
        return filled(cls, row, row.facts, tasks=row.live, created_at=created_at, predictions=predictions)


class DatasetPage(Struct, frozen=True):
    """A page of datasets, by name.

    datasets: the datasets.
    """

    datasets: list[Dataset]
    next_cursor: str | None


class AppendResponse(Struct, frozen=True):
    """Tasks were appended.

    added: how many tasks this request appended.
    """

    dataset: str
    added: int
    tasks: int


class RetiredResponse(Struct, frozen=True):
    """Tasks were retired or restored."""

    dataset: str
    retired: int
    tasks: int


class TaskIdsRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Tasks to retire or to restore.

    ids: the tasks.
    """

    ids: Annotated[list[TaskId], Meta(min_length=1, max_length=MAX_IDS)]


_TASK_IDS = msgspec.json.Decoder(TaskIdsRequest)


EXAMPLE = Dataset(
    name="gsm8k",
    description="Grade school mathematics",
    reference_models=("qwen2.5-1.5b",),
    tasks=7473,
    retired=0,
    offset_tags=("arithmetic",),
    profiles=34,
    tags={"arithmetic": 5120},
    digest="5f2c9a01d4e65f2c9a01d4e65f2c9a01",
    created_at=EXAMPLE_TIME,
    predictions=(),
)
EXAMPLE_TASK = TaskRequest("gsm8k-17", [0.25], ["arithmetic"])


@router.put(
    "/datasets/{dataset}",
    summary="Create a dataset",
    openapi_extra=reads(DatasetRequest(reference_models=EXAMPLE.reference_models, tasks=[EXAMPLE_TASK]), UPLOADS),
    responses=answers_with(
        EXAMPLE,
        *WRITE,
        InvalidTasksError,
        DatasetExistsError,
        LimitReachedError,
        meanings={200: "The dataset existed with the same content.", 201: "The dataset was created."},
    ),
)
@allowed(Scope.ADMIN, kind=RouteKind.UPLOAD)
async def put_dataset(
    request: Request,
    dataset: DatasetName,
    reference_model: ReferenceModels = [],  # noqa: B006  # FastAPI copies it
    description: Description = None,
    repeatable: Repeatable = None,
) -> Response:
    """Create a dataset, with its run `default`, from JSON, NDJSON (one task per line) or Parquet."""
    services = services_of(request)
    body = Body(request, state_of(request.app).uploads.by_media_type)

    async def act() -> CreateDatasetResult:
        async with open_tasks(body, max_tasks=state_of(request.app).uploads.max_tasks) as file:
            header = header_of(file.header, Header(tuple(reference_model), description, repeatable))
            blocks = file.blocks(len(header.reference_models))
            return await services.datasets.create(
                dataset, header, blocks, body.idempotency_key, within=caller_of(request).datasets
            )

    def respond(result: CreateDatasetResult) -> Response:
        return json_response(Dataset.from_row(result.row), 201 if result.created else 200)

    return await answered_once(services.store.answers, body, CreateDatasetResult, act, respond)


@router.get(
    "/datasets",
    summary="List the datasets",
    responses=answers_with(DatasetPage([EXAMPLE], None), *EVERY),
)
@allowed(Scope.READ, about=About.NONE)
async def list_datasets(request: Request, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Return the datasets that the key has access to, by name."""
    services = services_of(request)
    after = "" if cursor is None else read_cursor(cursor, AfterName)
    rows = await services.runs.datasets_reached(caller_of(request), after, limit + 1)
    following = write_cursor(rows[limit - 1].name) if len(rows) > limit else None
    return json_response(DatasetPage([Dataset.from_row(row) for row in rows[:limit]], following))


@router.get(
    "/datasets/{dataset}",
    summary="Get a dataset",
    responses=answers_with(EXAMPLE, *EVERY, *DATASET),
)
@allowed(*ANY_SCOPE)
async def get_dataset(request: Request, dataset: DatasetName) -> Response:
    """Return one dataset."""
    services = services_of(request)
    return json_response(Dataset.from_row(await services.store.datasets.get(dataset)))


@router.delete(
    "/datasets/{dataset}",
    summary="Delete a dataset",
    status_code=204,
    openapi_extra=KEYED,
    responses=documented(*EVERY, *ONCE, *DATASET),
)
@allowed(Scope.ADMIN)
async def delete_dataset(request: Request, dataset: DatasetName) -> Response:
    """Delete a dataset with its runs, journals and snapshots."""
    services, body = services_of(request), Body(request)
    act = partial(services.datasets.delete, dataset, body.idempotency_key())
    return await answered_once(services.store.answers, body, NoneType, act, no_content)


@router.get(
    "/datasets/{dataset}/tasks",
    summary="Export a dataset's tasks",
    responses={
        200: {"description": "A header, then one line for each task.", "content": {NDJSON: UPLOADS[NDJSON]}},
        **documented(*EVERY, *DATASET, OverloadedError),
    },
)
@allowed(Scope.READ, about=About.WHOLE)
async def read_tasks_of_dataset(request: Request, dataset: DatasetName) -> Response:
    """Stream all tasks, retired ones too, as NDJSON that creates the dataset again."""
    datasets = services_of(request).store.datasets

    async def lines() -> AsyncGenerator[bytes]:
        row = await datasets.get(dataset)
        yield header_line(row.facts)
        left = row.facts.size  # more may be appended meanwhile
        async for block in datasets.blocks(row.id):
            if left > 0:
                yield await asyncio.to_thread(task_lines, block)
            left -= len(block)

    return Download(state_of(request.app).downloads, lines(), media_type=NDJSON)


@router.post(
    "/datasets/{dataset}/tasks",
    summary="Append tasks to a dataset",
    openapi_extra=reads(AppendRequest([EXAMPLE_TASK]), UPLOADS),
    responses=answers_with(
        AppendResponse("gsm8k", 1, 7474), *WRITE, *DATASET, InvalidTasksError, TaskExistsError, LimitReachedError
    ),
)
@allowed(Scope.ADMIN, kind=RouteKind.UPLOAD)
async def append_tasks(request: Request, dataset: DatasetName) -> Response:
    """Append tasks to a dataset. Beliefs about its other tasks do not change."""
    services = services_of(request)
    body = Body(request, state_of(request.app).uploads.by_media_type)

    async def act() -> AppendTasksResult:
        models = (await services.store.datasets.get(dataset)).facts.reference_models
        async with open_tasks(body, max_tasks=state_of(request.app).uploads.max_tasks, append=True) as file:
            require_models(file.header, models)
            return await services.datasets.append(dataset, file.blocks(len(models)), body.idempotency_key)

    def respond(result: AppendTasksResult) -> Response:
        return json_response(AppendResponse(result.row.name, result.added, result.row.live))

    return await answered_once(services.store.answers, body, AppendTasksResult, act, respond)


@router.delete(
    "/datasets/{dataset}/tasks",
    summary="Retire tasks of a dataset",
    openapi_extra=reads(TaskIdsRequest(["gsm8k-17"])),
    responses=answers_with(RetiredResponse("gsm8k", 1, 7472), *WRITE, *DATASET, InvalidTasksError),
)
@allowed(Scope.ADMIN)
async def retire_tasks(request: Request, dataset: DatasetName) -> Response:
    """Retire tasks: they are not selected until they are restored; their evidence stays in the journal."""
    return await _changed_retired(request, dataset, services_of(request).datasets.retire)


@router.post(
    "/datasets/{dataset}/tasks/restore",
    summary="Restore retired tasks of a dataset",
    openapi_extra=reads(TaskIdsRequest(["gsm8k-17"])),
    responses=answers_with(RetiredResponse("gsm8k", 0, 7473), *WRITE, *DATASET, InvalidTasksError),
)
@allowed(Scope.ADMIN)
async def restore_tasks(request: Request, dataset: DatasetName) -> Response:
    """Restore retired tasks: they can be selected again, with what is known of them."""
    return await _changed_retired(request, dataset, services_of(request).datasets.restore)


ChangeTasks = Callable[[str, list[str], IdempotencyKey | None], Awaitable[DatasetRow]]


async def _changed_retired(request: Request, dataset: str, change: ChangeTasks) -> Response:
    body = Body(request, {JSON: TRAINING_LIMIT})
    ids = decode_plain(_TASK_IDS, await body.whole()).ids

    def respond(row: DatasetRow) -> Response:
        return json_response(RetiredResponse(row.name, row.retired, row.live))

    act = partial(change, dataset, ids, body.idempotency_key())
    return await answered_once(services_of(request).store.answers, body, DatasetRow, act, respond)
