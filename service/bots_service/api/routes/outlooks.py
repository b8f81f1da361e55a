"""GET outlooks of a run: estimates for its whole pool over the course of training."""

from datetime import datetime
from typing import Annotated

from fastapi import Query
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.openapi import answers_with
from bots_service.api.parameters import DatasetName, RunName, services_of
from bots_service.api.problems import EVERY, RUN, documented
from bots_service.api.responses import EXAMPLE_TIME, filled, json_response, moment
from bots_service.api.security import allowed, guarded_router
from bots_service.keys import Scope
from bots_service.records import StoredOutlook

router = guarded_router(tags=["runs"])

Points = Annotated[int, Query(ge=1, le=2000, description="How many at most.")]


class OutlookResponse(Struct, frozen=True):
    """The estimates for all tasks that are not retired, at a step.

    uniform_effective_task_ratio: estimated effective task ratio of uniform sampling.
    distribution: shares of the tasks by expected success probability, in equal bins from 0 to 1.
    reached_share, top_tenth_share, unmet_share, visits_per_met_task, narrow: of the coverage by then, as in a run.
    """

    step: int
    uniform_effective_task_ratio: float
    distribution: tuple[float, ...]
    distinct_tasks: int
    reached_share: float | None
    top_tenth_share: float | None
    unmet_share: float | None
    visits_per_met_task: float | None
    narrow: bool
    time: datetime

    @classmethod
    def from_stored(cls, outlook: StoredOutlook) -> "OutlookResponse":
        """Return the answer for an outlook."""
        return filled(cls, outlook, outlook.coverage, time=moment(outlook.created_at))


class OutlooksResponse(Struct, frozen=True):
    """The estimates for the whole pool over the course of training, in order.

    outlooks: the estimates.
    """

    outlooks: list[OutlookResponse]


EXAMPLE_OUTLOOK = OutlookResponse(
    step=12,
    uniform_effective_task_ratio=0.45,
    distribution=(0.1, 0.2, 0.4, 0.2, 0.1),
    distinct_tasks=683,
    reached_share=0.0914,
    top_tenth_share=0.19,
    unmet_share=None,
    visits_per_met_task=None,
    narrow=False,
    time=EXAMPLE_TIME,
)


@router.get(
    "/datasets/{dataset}/runs/{run}/outlooks",
    summary="List the estimates for a run's pool",
    response_class=Response,
    responses={**answers_with(OutlooksResponse([EXAMPLE_OUTLOOK])), **documented(*EVERY, *RUN)},
)
@allowed(Scope.READ)
async def read_outlooks(request: Request, dataset: DatasetName, run: RunName, points: Points = 200) -> Response:
    """Return the estimates for the whole pool over the course of training, in at most `points` points."""
    found = await services_of(request).insight.outlooks(dataset, run, points)
    return json_response(OutlooksResponse([OutlookResponse.from_stored(outlook) for outlook in found]))
