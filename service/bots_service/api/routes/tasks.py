"""GET tasks of a run: the belief about each, as a page of JSON, as CSV, or the whole pool as an Arrow stream."""

import asyncio
import io
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from fastapi import Depends, Header, Query
from msgspec import Struct
from pyarrow import csv
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.overload import Download
from bots_service.api.requests import (
    AfterTask,
    Cursor,
    DatasetName,
    Limit,
    RunName,
    json_response,
    read_cursor,
    services_of,
    state_of,
    write_cursor,
)
from bots_service.api.routing import Route, Routes
from bots_service.core.task_table import SEGMENTS, SOLVED_MEAN, SORTS, Segment, TaskTable
from bots_service.errors import InvalidTasksError, OverloadedError
from bots_service.insight import TaskQuery
from bots_service.keys import Scope
from bots_service.records import OpenDataset

routes = Routes("runs")

ARROW = "application/vnd.apache.arrow.stream"
CSV = "text/csv"
PIECE = 16_384  # tasks at a time: about 2 MB on the wire, and some tenths of a second of a thread's time
Whole = Callable[[], Awaitable[tuple[OpenDataset, AsyncIterator[TaskTable]]]]
_FLOATS = ("alpha", "beta", "mean", "low", "high", "effective", "variance", "attempts", "successes")
_INTEGERS = ("visits", "last_step", "aborts")
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        *((name, pa.float64()) for name in _FLOATS),
        *((name, pa.int32()) for name in _INTEGERS),
        ("segment", pa.string()),
    ]
)
WITH_TAGS = SCHEMA.append(pa.field("tags", pa.string()))  # joined by semicolons

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
OneSegment = Annotated[
    Segment | None,
    Query(
        description="Only tasks of this segment. untried: no rollout in this run; aborting: aborted at its"
        " last three selections or more; stuck: tried, never a success;"
        f" solved: tried, mean at least {SOLVED_MEAN}; teaching: the other tried ones; retired: not selected."
        " Without it: all but the retired ones."
    ),
]
Format = Annotated[
    Literal["json", "csv"],
    Query(description="csv streams the tasks of all pages as a file, whatever limit and cursor say."),
]
Accept = Annotated[
    str,
    Header(description=f"{CSV} is the same as format=csv. {ARROW} streams the whole pool, whatever the query says."),
]


class Task(Struct, frozen=True, gc=False):
    """The belief about a task.

    id: the task's id.
    alpha, beta: the parameters of the Beta distribution of the task's success probability; null where the run's belief
        has none.
    interval: 5 % and 95 % quantiles of the success probability.
    effective: the probability that of a group of `rollouts_per_task` rollouts some succeed and some fail.
    variance: the expected variance of one rollout's success, E[p (1 - p)], in [0, 0.25].
    attempts: how many rollouts of the task the closed steps of this run reported.
    successes: how many of them succeeded; a fractional reward counts in part.
    visits: how many of these steps reported it.
    last_step: the last of these steps; null if there was none.
    aborts: how often it was selected and aborted.
    segment: untried, aborting, stuck, teaching, solved or retired.
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
    successes: float
    visits: int
    last_step: int | None
    aborts: int
    segment: Segment
    tags: list[str]


class TasksResponse(Struct, frozen=True):
    """A page of tasks.

    tasks: the tasks.
    matching: how many tasks the query is about, on all pages.
    segments: how many tasks of each segment have the query's ids, tag and search, whatever its segment.
    """

    tasks: list[Task]
    matching: int
    segments: dict[Segment, int]
    next_cursor: str | None


async def task_query(
    ids: Ids = [],  # noqa: B006  # FastAPI copies it
    tag: OneTag = None,
    search: Search = None,
    segment: OneSegment = None,
    sort: Sort = "index",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> TaskQuery:
    """Return which tasks are asked for."""
    return TaskQuery(tuple(ids), tag, search, segment, sort, read_cursor(cursor, AfterTask, sort=sort), limit)


EXAMPLE_CSV = (
    '"id","alpha","beta","mean","low","high","effective","variance","attempts","successes","visits","last_step",'
    '"aborts","segment","tags"\r\n'
    '"gsm8k-17",,,0.4737,0.23,0.73,0.9466,0.2256,8,3,1,12,0,"teaching","arithmetic"\r\n'
)


@Route(
    routes,
    "GET /datasets/{dataset}/runs/{run}/tasks",
    "List a run's tasks",
    Scope.READ,
    TasksResponse,
    (InvalidTasksError, OverloadedError),
    answers_media={
        CSV: {"schema": {"type": "string"}, "example": EXAMPLE_CSV},
        ARROW: {"schema": {"type": "string", "format": "binary"}},
    },
)
async def list_tasks(
    request: Request,
    dataset: DatasetName,
    run: RunName,
    query: Annotated[TaskQuery, Depends(task_query)],
    format: Format = "json",  # noqa: A002  # the parameter's name
    accept: Accept = "",
) -> Response:
    """Return the beliefs about tasks; retired ones only if the query asks for their segment."""
    read = services_of(request).insight
    if format == "csv" or CSV in accept:
        pieces = _streamed(partial(read.every_task, dataset, run, query, piece=PIECE), WITH_TAGS, _csv_writer)
        headers = {"Content-Disposition": f'attachment; filename="{dataset}-{run}-tasks.csv"'}
        return Download(state_of(request.app).downloads, pieces, media_type=CSV, headers=headers)
    if ARROW in accept:
        pieces = _streamed(partial(read.every_task, dataset, run, TaskQuery(), piece=PIECE), SCHEMA, pa.ipc.new_stream)
        return Download(state_of(request.app).downloads, pieces, media_type=ARROW)
    page = await read.tasks(dataset, run, query)
    rows = await asyncio.to_thread(_tasks_of, page.dataset, page.table)
    following = page.next and write_cursor((query.sort, *page.next))
    return json_response(TasksResponse(rows, page.matching, page.segments, following))


def _tasks_of(dataset: OpenDataset, table: TaskTable) -> list[Task]:
    rows = _record_batch(dataset, table, SCHEMA).to_pylist()
    return [
        Task(interval=(row.pop("low"), row.pop("high")), tags=tags, **row)
        for row, tags in zip(rows, _tags_of(dataset, table), strict=True)
    ]


def _tags_of(dataset: OpenDataset, table: TaskTable) -> list[list[str]]:
    """Return the sorted tags of each task in the table."""
    tags: list[list[str]] = [[] for _ in range(len(table.tasks))]
    for tag, carriers in sorted(dataset.pool.tags.items()):
        places = np.searchsorted(carriers, table.tasks)
        places[places == len(carriers)] = 0
        for row in np.flatnonzero(carriers[places] == table.tasks).tolist():
            tags[row].append(tag)
    return tags


def _csv_writer(sink: io.BytesIO, schema: Any) -> csv.CSVWriter:  # RFC 4180, with a header
    return csv.CSVWriter(sink, schema, write_options=csv.WriteOptions(eol="\r\n"))


async def _streamed(whole: Whole, schema: Any, writer_of: Callable[[io.BytesIO, Any], Any]) -> AsyncGenerator[bytes]:
    """Yield the tasks as a writer of record batches writes them; one piece at a time is in memory."""
    dataset, pieces = await whole()
    sink = io.BytesIO()
    with writer_of(sink, schema) as writer:
        async for table in pieces:
            await asyncio.to_thread(lambda piece: writer.write_batch(_record_batch(dataset, piece, schema)), table)
            yield _taken(sink)
    yield _taken(sink)


def _taken(sink: io.BytesIO) -> bytes:
    written = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return written


def _record_batch(dataset: OpenDataset, table: TaskTable, schema: Any) -> Any:
    """Return the table with the columns of one of the schemas. `last_step` is null where no step reported the task."""
    nothing = pa.nulls(len(table.tasks), pa.float64())
    columns = {name: getattr(table, name) for name in (*_FLOATS, *_INTEGERS)}
    columns = {name: nothing if column is None else column for name, column in columns.items()}
    columns["id"] = pa.array(dataset.ids.take(table.tasks), pa.string())
    columns["last_step"] = pa.array(table.last_step, pa.int32(), mask=table.last_step == 0)
    columns["segment"] = pa.array(SEGMENTS, pa.string()).take(pa.array(table.segment))
    if schema is WITH_TAGS:
        columns["tags"] = pa.array(map(";".join, _tags_of(dataset, table)), pa.string())
    return pa.record_batch([columns[name] for name in schema.names], schema=schema)
