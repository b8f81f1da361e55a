"""GET tasks of a run: what is believed of each."""

import asyncio
from typing import Annotated

from fastapi import Depends, Header, Query
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bots_service.api import arrow
from bots_service.api.answers import json_response
from bots_service.api.cursors import AfterTask, broken_cursor, read_cursor, write_cursor
from bots_service.api.openapi import answers_with
from bots_service.api.parameters import Cursor, DatasetName, Limit, RunName, use_cases_of
from bots_service.api.problems import documented
from bots_service.api.routes.common import EVERY, RUN
from bots_service.api.security import allowed, guarded_router
from bots_service.api.training_answers import Tasks, tasks_of
from bots_service.errors import InvalidTasksError
from bots_service.ports.keys import Scope
from bots_service.usecases.read_tasks import Query as TaskQuery

router = guarded_router(tags=["runs"])

Ids = Annotated[list[str], Query(max_length=1000, description="Only these tasks.")]
OneTag = Annotated[str | None, Query(max_length=64, description="Only tasks that carry this tag.")]
Search = Annotated[
    str | None,
    Query(min_length=1, max_length=128, description="Only tasks whose id contains this; a and A are the same."),
]
Sort = Annotated[
    str,
    Query(
        pattern="^-?(index|mean|distance|evidence|last_step)$",
        description="The order; a leading - turns it round. distance: |mean - target|.",
    ),
]
Accept = Annotated[str, Header(description=f"{arrow.MEDIA_TYPE} streams the whole pool, whatever the query says.")]


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


@router.get(
    "/datasets/{dataset}/runs/{run}/tasks",
    response_class=Response,
    responses={
        **answers_with(Tasks, other_media={arrow.MEDIA_TYPE: {"type": "string", "format": "binary"}}),
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
    """Return what is believed of tasks; retired ones are left out."""
    use_cases = use_cases_of(request)
    if arrow.MEDIA_TYPE in accept:
        opened, pieces = await use_cases.read_tasks.whole(dataset, run)
        return StreamingResponse(arrow.arrow_stream(opened, pieces), media_type=arrow.MEDIA_TYPE)
    page = await use_cases.read_tasks(dataset, run, query)
    rows = await asyncio.to_thread(tasks_of, page.dataset, page.table)
    following = None if page.next is None else write_cursor(AfterTask(query.sort, *page.next))
    return json_response(Tasks(rows, page.matching, following))
