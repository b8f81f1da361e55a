"""GET tasks of a run: the belief about each, as a page of JSON or the whole pool as an Arrow stream."""

import asyncio
import io
from collections.abc import AsyncIterator
from itertools import repeat
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from fastapi import Depends, Header, Query
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bots_service.api.cursors import AfterTask, broken_cursor, read_cursor, write_cursor
from bots_service.api.openapi import answers_with
from bots_service.api.parameters import Cursor, DatasetName, Limit, RunName, use_cases_of
from bots_service.api.problems import EVERY, RUN, documented
from bots_service.api.responses import json_response
from bots_service.api.security import allowed, guarded_router
from bots_service.core.task_table import SORTS, TaskTable
from bots_service.errors import InvalidTasksError
from bots_service.ports.keys import Scope
from bots_service.ports.records import OpenDataset
from bots_service.usecases.read_tasks import Query as TaskQuery

router = guarded_router(tags=["runs"])

ARROW = "application/vnd.apache.arrow.stream"
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("alpha", pa.float64()),
        ("beta", pa.float64()),
        ("mean", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("effective", pa.float64()),
        ("variance", pa.float64()),
        ("attempts", pa.float64()),
        ("visits", pa.int32()),
        ("last_step", pa.int32()),
    ]
)

Ids = Annotated[list[str], Query(max_length=1000, description="Only these tasks.")]
OneTag = Annotated[str | None, Query(max_length=64, description="Only tasks that carry this tag.")]
Search = Annotated[
    str | None,
    Query(min_length=1, max_length=128, description="Only tasks whose id contains this; a and A are the same."),
]
Sort = Annotated[
    str,
    Query(
        pattern=f"^-?({'|'.join(SORTS)})$",
        description="The order; a leading - turns it round. distance: |mean - target|.",
    ),
]
Accept = Annotated[str, Header(description=f"{ARROW} streams the whole pool, whatever the query says.")]


class Task(Struct, frozen=True, gc=False):
    """The belief about a task.

    id: the task's id.
    alpha, beta: the parameters of the Beta distribution of the task's success probability; null where the run's belief
        has none.
    interval: 5 % and 95 % quantiles of the success probability.
    effective: the probability that of a group of `rollouts_per_task` rollouts some succeed and some fail.
    variance: the expected variance of one rollout's success, E[p (1 - p)], in [0, 0.25].
    attempts: how many rollouts of the task the closed steps of this run reported.
    visits: how many of these steps reported it.
    last_step: the last of these steps; null if there was none.
    tags: the tags that the task carries, sorted.
    """

    id: str
    alpha: float | None
    beta: float | None
    mean: float
    interval: tuple[float, float]
    effective: float
    variance: float
    attempts: float
    visits: int
    last_step: int | None
    tags: list[str]


class TasksResponse(Struct, frozen=True):
    """A page of tasks.

    tasks: the tasks.
    matching: how many tasks the query is about, on all pages.
    """

    tasks: list[Task]
    matching: int
    next_cursor: str | None


async def task_query(
    ids: Ids = [],  # noqa: B006  # FastAPI copies it
    tag: OneTag = None,
    search: Search = None,
    sort: Sort = "index",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> TaskQuery:
    """Return which tasks are asked for.

    Raises:
        InvalidInputError: the cursor is broken, or of another order.
    """
    after = None
    if cursor is not None:
        last = read_cursor(cursor, AfterTask)
        if last.sort != sort:
            raise broken_cursor()
        after = (last.value, last.index)
    return TaskQuery(tuple(ids), tag, search, sort, after, limit)


EXAMPLE = Task("gsm8k-17", None, None, 0.4737, (0.23, 0.73), 0.9466, 0.2256, 8.0, 1, 12, ["arithmetic"])


@router.get(
    "/datasets/{dataset}/runs/{run}/tasks",
    summary="List a run's tasks",
    response_class=Response,
    responses={
        **answers_with(
            TasksResponse([EXAMPLE], 7473, None), other_media={ARROW: {"type": "string", "format": "binary"}}
        ),
        **documented(*EVERY, *RUN, InvalidTasksError),
    },
)
@allowed(Scope.READ)
async def list_tasks(
    request: Request,
    dataset: DatasetName,
    run: RunName,
    query: Annotated[TaskQuery, Depends(task_query)],
    accept: Accept = "",
) -> Response:
    """Return the beliefs about tasks, without retired ones."""
    use_cases = use_cases_of(request)
    if ARROW in accept:
        opened, pieces = await use_cases.read_tasks.whole(dataset, run)
        return StreamingResponse(arrow_stream(opened, pieces), media_type=ARROW)
    page = await use_cases.read_tasks(dataset, run, query)
    rows = await asyncio.to_thread(tasks_of, page.dataset, page.table)
    following = None if page.next is None else write_cursor(AfterTask(query.sort, *page.next))
    return json_response(TasksResponse(rows, page.matching, following))


def tasks_of(dataset: OpenDataset, table: TaskTable) -> list[Task]:
    """Return the rows of a table."""
    intervals = zip(table.low.tolist(), table.high.tolist(), strict=True)
    return list(
        map(
            Task,
            dataset.ids.take(table.tasks),
            *(repeat(None) if column is None else column.tolist() for column in (table.alpha, table.beta)),
            table.mean.tolist(),
            intervals,
            table.effective.tolist(),
            table.variance.tolist(),
            table.attempts.tolist(),
            table.visits.tolist(),
            (step or None for step in table.last_step.tolist()),
            _tags_of(dataset, table),
        )
    )


def _tags_of(dataset: OpenDataset, table: TaskTable) -> list[list[str]]:
    """Return the sorted tags of each task in the table."""
    tags: list[list[str]] = [[] for _ in range(len(table.tasks))]
    for tag, carriers in sorted(dataset.pool.tags.items()):
        places = np.searchsorted(carriers, table.tasks)
        places[places == len(carriers)] = 0
        for row in np.flatnonzero(carriers[places] == table.tasks).tolist():
            tags[row].append(tag)
    return tags


async def arrow_stream(dataset: OpenDataset, pieces: AsyncIterator[TaskTable]) -> AsyncIterator[bytes]:
    """Yield the bytes of an Arrow stream; one piece at a time is in memory."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        async for table in pieces:
            await asyncio.to_thread(lambda piece: writer.write_batch(record_batch(dataset, piece)), table)
            yield _taken(sink)
    yield _taken(sink)


def _taken(sink: io.BytesIO) -> bytes:
    """Return what was written, and empty the sink."""
    written = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return written


def record_batch(dataset: OpenDataset, table: TaskTable) -> Any:
    """Return the table as a record batch; `last_step` is null where no step reported the task."""
    ids = pa.array(dataset.ids.take(table.tasks), pa.string())
    parameters = [
        pa.nulls(len(table.tasks), pa.float64()) if column is None else pa.array(column)
        for column in (table.alpha, table.beta)
    ]
    numbers = [table.mean, table.low, table.high, table.effective, table.variance, table.attempts, table.visits]
    last_step = pa.array(table.last_step, pa.int32(), mask=table.last_step == 0)
    return pa.record_batch([ids, *parameters, *map(pa.array, numbers), last_step], schema=SCHEMA)
