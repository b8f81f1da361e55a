"""Snapshots of a run: stored states, made on demand."""

from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.answers import Snapshot, Snapshots, encode, json_response
from bots_service.api.bodies import NoBody
from bots_service.api.cursors import AfterNumber, read_cursor, write_cursor
from bots_service.api.idempotency import answered_once, kept
from bots_service.api.openapi import answers_with
from bots_service.api.parameters import KEYED, Cursor, DatasetName, Limit, RunName, use_cases_of
from bots_service.api.problems import documented
from bots_service.api.routes.common import EVERY, ONCE, RUN
from bots_service.api.security import allowed, guarded_router
from bots_service.ports.keys import Scope

router = guarded_router(tags=["runs"])


@router.post(
    "/datasets/{dataset}/runs/{run}/snapshots",
    status_code=201,
    response_class=Response,
    openapi_extra=KEYED,
    responses={**answers_with(Snapshot, {201: "It was stored."}), **documented(*EVERY, *ONCE, *RUN)},
)
@allowed(Scope.REPORT, audited=True)
async def take_snapshot(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Store the run's state as it stands; it is not thinned away."""
    use_cases = use_cases_of(request)
    scope, body = f"POST /datasets/{dataset}/runs/{run}/snapshots", NoBody(request)

    async def act() -> Response:
        row = await use_cases.take_snapshot(
            dataset, run, kept(scope, body, lambda row: (201, encode(Snapshot.of(row))))
        )
        return json_response(Snapshot.of(row), 201)

    return await answered_once(use_cases.answers, scope, body, act)


@router.get(
    "/datasets/{dataset}/runs/{run}/snapshots",
    response_class=Response,
    responses={**answers_with(Snapshots), **documented(*EVERY, *RUN)},
)
@allowed(Scope.READ)
async def list_snapshots(
    request: Request, dataset: DatasetName, run: RunName, limit: Limit = 100, cursor: Cursor = None
) -> Response:
    """Return stored states by seq."""
    use_cases = use_cases_of(request)
    # An empty journal has a state too, after entry 0, so the first page begins behind -1.
    after = -1 if cursor is None else read_cursor(cursor, AfterNumber).number
    rows = await use_cases.take_snapshot.page(dataset, run, after, limit + 1)
    following = write_cursor(AfterNumber(rows[limit - 1].seq)) if len(rows) > limit else None
    return json_response(Snapshots([Snapshot.of(row) for row in rows[:limit]], following))
