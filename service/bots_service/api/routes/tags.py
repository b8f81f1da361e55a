"""GET tags of a run: what its last steps selected of each tag, and the outcomes of the rollouts."""

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.openapi import answers_with
from bots_service.api.parameters import DatasetName, RunName, services_of
from bots_service.api.problems import EVERY, RUN
from bots_service.api.responses import json_response
from bots_service.api.security import allowed, guarded_router
from bots_service.core.summary.tags import TagRow
from bots_service.insight import TagTable
from bots_service.keys import Scope

router = guarded_router(tags=["runs"])

Steps = Annotated[int, Query(ge=1, le=200, description="Number of last steps to sum up.")]


EXAMPLE_ROW = TagRow("arithmetic", 5120, 0.6851, 512, 0.6667, 350, 0.6836, 4096.0, 0.47, None)
EXAMPLE = TagTable(1, 12, [EXAMPLE_ROW])


@router.get(
    "/datasets/{dataset}/runs/{run}/tags",
    summary="Compare a run's tags",
    responses=answers_with(EXAMPLE, *EVERY, *RUN),
)
@allowed(Scope.READ)
async def read_tags(request: Request, dataset: DatasetName, run: RunName, steps: Steps = 50) -> Response:
    """Return the sums over the last steps by tag, next to the success rates of as many steps before."""
    return json_response(await services_of(request).insight.tags(dataset, run, steps))
