"""Leases: the tasks that a run has in flight."""

from typing import Annotated

from fastapi import Query
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.openapi import answers_with
from bots_service.api.parameters import DatasetName, Limit, RunName, services_of
from bots_service.api.problems import EVERY, RUN
from bots_service.api.responses import EXAMPLE_TIME, json_response
from bots_service.api.security import allowed, guarded_router
from bots_service.insight import IDS_PER_LEASE, Lease
from bots_service.keys import Scope

router = guarded_router(tags=["runs"])

LeaseIds = Annotated[int, Query(ge=0, le=1000, description="How many ids of each lease at most.")]


class LeasesResponse(Struct, frozen=True):
    """Tasks in flight, those first whose leases end soonest.

    leased: how many tasks are in flight, also where not all leases are listed.
    leases: the leases.
    """

    leased: int
    leases: list[Lease]


EXAMPLE_LEASES = LeasesResponse(64, [Lease(EXAMPLE_TIME, 64, ["gsm8k-17", "gsm8k-4"])])


@router.get(
    "/datasets/{dataset}/runs/{run}/leases",
    summary="List a run's tasks in flight",
    responses=answers_with(EXAMPLE_LEASES, *EVERY, *RUN),
)
@allowed(Scope.READ)
async def read_leases(
    request: Request, dataset: DatasetName, run: RunName, limit: Limit = 100, ids: LeaseIds = IDS_PER_LEASE
) -> Response:
    """Return the tasks in flight, ordered by when their leases end."""
    leased, groups = await services_of(request).insight.leases(dataset, run, limit, ids)
    return json_response(LeasesResponse(leased, groups))
