"""Datasets: created from an upload, listed, deleted; their tasks, and subsets of them."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import datetime
from functools import partial
from types import NoneType
from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.overload import Download
from bots_service.api.requests import (
    NDJSON,
    TRAINING_LIMIT,
    Body,
    Cursor,
    DatasetName,
    Limit,
    answered_once,
    filled,
    json_response,
    moment,
    no_content,
    page_of,
    read_cursor,
    read_json,
    services_of,
)
from bots_service.api.routing import ANY_SCOPE, About, Route, Routes, caller_of
from bots_service.api.uploads import TasksRequest, header_line, read_more_tasks, read_tasks, task_lines, upload_of
from bots_service.core.checks import MAX_IDS, Name, TaskId
from bots_service.keys import Scope
from bots_service.records import DatasetRow, IdempotencyKey, Subset

routes = Routes("datasets")


class Dataset(Struct, frozen=True):
    """A dataset.

    description: text for readers.
    reference_models: names of the reference models, in the order of the pass rates.
    offset_tags: tags that split profiles; a tracker learns an offset for each.
    profiles: number of distinct combinations of reference pass rates and offset tags.
    tags: number of tasks with each tag.
    digest: of the tasks; does not depend on the upload's format.
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

    @classmethod
    def from_row(cls, row: DatasetRow) -> "Dataset":
        """Return the answer for a row."""
        return filled(cls, row, row.facts, tasks=row.live, created_at=moment(row.created_at))


class DatasetPage(Struct, frozen=True):
    """A page of datasets, by name."""

    datasets: list[Dataset]
    next_cursor: str | None


class TaskIdsRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Tasks to retire or to restore.

    ids: the tasks.
    """

    ids: Annotated[list[TaskId], Meta(min_length=1, max_length=MAX_IDS)]


@Route(routes, "PUT /datasets/{dataset}", Scope.ADMIN, Dataset, reads=TasksRequest, lines=True, statuses=(200, 201))
async def put_dataset(request: Request, dataset: DatasetName) -> Response:
    """Create a dataset, with its run `default`, from JSON or NDJSON: one task per line.

    The first line of NDJSON may be an object with `reference_models` and `description` instead.
    """
    create, within = services_of(request).datasets.create, caller_of(request).datasets
    body = upload_of(request)

    async def act() -> tuple[DatasetRow, bool]:
        file = await read_tasks(body)
        models, about = file.header.reference_models or (), file.header.description or ""
        return await create(dataset, models, about, file.blocks(len(models)), body.idempotency_key, within=within)

    return await answered_once(
        body, tuple[DatasetRow, bool], act, lambda done: _respond(done[0], 201 if done[1] else 200)
    )


@Route(routes, "GET /datasets", Scope.READ, DatasetPage)
async def list_datasets(request: Request, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Return the datasets that the key has access to, by name."""
    after = read_cursor(cursor, Name, "")
    found = await services_of(request).runs.datasets_reached(caller_of(request), after, limit + 1)
    rows, following = page_of(found, limit, lambda row: row.name)
    return json_response(DatasetPage([Dataset.from_row(row) for row in rows], following))


@Route(routes, "GET /datasets/{dataset}", ANY_SCOPE, Dataset)
async def get_dataset(request: Request, dataset: DatasetName) -> Response:
    """Return one dataset."""
    return _respond(await services_of(request).store.datasets.get(dataset))


@Route(routes, "DELETE /datasets/{dataset}", Scope.ADMIN)
async def delete_dataset(request: Request, dataset: DatasetName) -> Response:
    """Delete a dataset with its runs, journals and snapshots."""
    body = Body(request)
    act = partial(services_of(request).datasets.delete, dataset, body.idempotency_key())
    return await answered_once(body, NoneType, act, no_content)


@Route(routes, "GET /datasets/{dataset}/tasks", Scope.READ, about=About.WHOLE, answers_media=(NDJSON,))
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

    return Download(request, lines(), media_type=NDJSON)


@Route(routes, "POST /datasets/{dataset}/tasks", Scope.ADMIN, Dataset, reads=TasksRequest, lines=True)
async def append_tasks(request: Request, dataset: DatasetName) -> Response:
    """Append tasks to a dataset. Beliefs about its other tasks do not change."""
    body = upload_of(request)

    async def act() -> DatasetRow:
        blocks = await read_more_tasks(body, dataset)
        return await services_of(request).datasets.append(dataset, blocks, body.idempotency_key)

    return await answered_once(body, DatasetRow, act, _respond)


@Route(routes, "DELETE /datasets/{dataset}/tasks", Scope.ADMIN, Dataset, reads=TaskIdsRequest)
async def retire_tasks(request: Request, dataset: DatasetName) -> Response:
    """Retire tasks: they are not selected until they are restored; their evidence stays in the journal."""
    return await _changed_retired(request, dataset, services_of(request).datasets.retire)


@Route(routes, "POST /datasets/{dataset}/tasks/restore", Scope.ADMIN, Dataset, reads=TaskIdsRequest)
async def restore_tasks(request: Request, dataset: DatasetName) -> Response:
    """Restore retired tasks: they can be selected again, with what is known of them."""
    return await _changed_retired(request, dataset, partial(services_of(request).datasets.retire, restore=True))


async def _changed_retired(
    request: Request, dataset: str, change: Callable[[str, list[str], IdempotencyKey | None], Awaitable[DatasetRow]]
) -> Response:
    body, wanted = await read_json(request, TaskIdsRequest, TRAINING_LIMIT)
    act = partial(change, dataset, wanted.ids, body.idempotency_key())
    return await answered_once(body, DatasetRow, act, _respond)


@Route(
    routes,
    "POST /datasets/{dataset}/subsets",
    Scope.SELECT,
    Subset,
    about=About.SHARED,
    reads=TasksRequest,
    lines=True,
)
async def make_subset(request: Request, dataset: DatasetName) -> Response:
    """Keep some of a dataset's tasks as a subset, by their ids, from JSON or NDJSON (one task per line).

    The same tasks, in any order, are the same subset. A dataset keeps the 1,000 that were made last.
    """
    body = upload_of(request)

    async def act() -> Subset:
        blocks = await read_more_tasks(body, dataset)
        return await services_of(request).datasets.keep_subset(dataset, blocks, body.idempotency_key)

    return await answered_once(body, Subset, act, json_response)


def _respond(row: DatasetRow, status: int = 200) -> Response:
    return json_response(Dataset.from_row(row), status)
