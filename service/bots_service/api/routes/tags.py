"""GET tags of a run: what its last steps selected of each tag, and the outcomes of the rollouts."""

from typing import Annotated

from fastapi import Query
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.openapi import answers_with
from bots_service.api.parameters import DatasetName, RunName, services_of
from bots_service.api.problems import EVERY, RUN
from bots_service.api.responses import json_response
from bots_service.api.security import allowed, guarded_router
from bots_service.core.summary.tags import TagRow
from bots_service.keys import Scope

router = guarded_router(tags=["runs"])

Steps = Annotated[int, Query(ge=1, le=200, description="Number of last steps to sum up.")]


class TagsResponse(Struct, frozen=True):
    """The tags with most tasks, over the last closed steps; at most 100 of them.

    first_step, last_step: the first and the last of these steps; 0 if none closed, or all were pruned.
    tags: the tags, those with most tasks first.
    """

    first_step: int
    last_step: int
    tags: list[TagRow]


EXAMPLE_ROW = TagRow("arithmetic", 5120, 0.6851, 512, 0.6667, 350, 0.6836, 4096.0, 0.47, None)
EXAMPLE = TagsResponse(1, 12, [EXAMPLE_ROW])


@router.get(
    "/datasets/{dataset}/runs/{run}/tags",
    summary="Compare a run's tags",
    responses=answers_with(EXAMPLE, *EVERY, *RUN),
)
@allowed(Scope.READ)
async def read_tags(request: Request, dataset: DatasetName, run: RunName, steps: Steps = 50) -> Response:
    """Return the sums over the last steps by tag, next to the success rates of as many steps before."""
    found = await services_of(request).insight.tags(dataset, run, steps)
    return json_response(TagsResponse(found.first_step, found.last_step, found.tags))
