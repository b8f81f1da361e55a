"""Runs: made, read, changed, rewound, deleted; and the tasks that they have in flight."""

from typing import Annotated

import msgspec
from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.answers import Run, Runs, encode, json_response
from bots_service.api.bodies import CONTROL_LIMIT, JSON, Body, NoBody
from bots_service.api.cursors import AfterName, read_cursor, write_cursor
from bots_service.api.decoding import decode_plain
from bots_service.api.idempotency import answered_once, kept, kept_after
from bots_service.api.lease_answers import Leases
from bots_service.api.openapi import answers_with, reads
from bots_service.api.parameters import KEYED, Cursor, DatasetName, Limit, RunName, use_cases_of
from bots_service.api.problems import documented
from bots_service.api.requests import RewindRequest, RunRequest, SettingsRequest
from bots_service.api.routes.common import BODY, DATASET, EVERY, ONCE, RUN
from bots_service.api.security import ANY_SCOPE, allowed, guarded_router
from bots_service.errors import InvalidSettingsError, LimitReachedError, RunHasHistoryError, UnknownStepError
from bots_service.ports.keys import Scope
from bots_service.ports.records import RunPut
from bots_service.usecases.describe import RunDescription
from bots_service.usecases.read_run import TOLD

router = guarded_router(tags=["runs"])

LeaseIds = Annotated[int, Query(ge=0, le=1000, description="How many ids of each lease at most.")]

_PUT = msgspec.json.Decoder(RunRequest)
_PATCH = msgspec.json.Decoder(SettingsRequest)
_REWIND = msgspec.json.Decoder(RewindRequest)


@router.put(
    "/datasets/{dataset}/runs/{run}",
    response_class=Response,
    openapi_extra=reads(RunRequest),
    responses={
        **answers_with(Run, {200: "Its settings were replaced, or were these.", 201: "It was created."}),
        **documented(
            *EVERY, *BODY, *ONCE, *RUN, UnknownStepError, InvalidSettingsError, RunHasHistoryError, LimitReachedError
        ),
    },
)
@allowed(Scope.ADMIN, audited=True)
async def put_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Create a run, on its own or forked from another, or replace the settings of one whose journal is empty."""
    use_cases = use_cases_of(request)
    body = Body(request, {JSON: CONTROL_LIMIT})
    scope = f"PUT /datasets/{dataset}/runs/{run}"
    wanted = decode_plain(_PUT, await body.whole())

    async def act() -> Response:
        keep = kept(scope, body, rendered)
        put = await use_cases.put_run(dataset, run, wanted.given(), wanted.fork_from(), keep)
        return await kept_after(use_cases.answers, scope, body, *rendered(put))

    return await answered_once(use_cases.answers, scope, body, act)


def rendered(written: tuple[RunDescription, RunPut]) -> tuple[int, bytes]:
    """Return status and body of the answer to a PUT of a run."""
    described, put = written
    return 201 if put is RunPut.CREATED else 200, encode(Run.of(described))


@router.get(
    "/datasets/{dataset}/runs",
    response_class=Response,
    responses={**answers_with(Runs), **documented(*EVERY, *DATASET)},
)
@allowed(Scope.READ)
async def list_runs(request: Request, dataset: DatasetName, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Return a dataset's runs by name."""
    use_cases = use_cases_of(request)
    after = "" if cursor is None else read_cursor(cursor, AfterName).name
    runs = await use_cases.describe_run.page(dataset, after, limit + 1)
    following = write_cursor(AfterName(runs[limit - 1].row.name)) if len(runs) > limit else None
    return json_response(Runs([Run.of(run) for run in runs[:limit]], following))


@router.get(
    "/datasets/{dataset}/runs/{run}",
    response_class=Response,
    responses={**answers_with(Run), **documented(*EVERY, *RUN)},
)
@allowed(*ANY_SCOPE)
async def get_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Return a run as it stands."""
    use_cases = use_cases_of(request)
    return json_response(Run.of(await use_cases.describe_run(dataset, run)))


@router.patch(
    "/datasets/{dataset}/runs/{run}",
    response_class=Response,
    openapi_extra=reads(SettingsRequest),
    responses={**answers_with(Run), **documented(*EVERY, *BODY, *ONCE, *RUN, InvalidSettingsError)},
)
@allowed(Scope.ADMIN, audited=True)
async def change_settings(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Change settings from the next step on; written to the journal. The prior is fixed."""
    use_cases = use_cases_of(request)
    body = Body(request, {JSON: CONTROL_LIMIT})
    scope = f"PATCH /datasets/{dataset}/runs/{run}"
    values = decode_plain(_PATCH, await body.whole()).given()

    async def act() -> Response:
        described, again = await use_cases.change_settings(dataset, run, values, body.once())
        return await kept_after(use_cases.answers, scope, body, 200, encode(Run.of(described)), replayed=again)

    return await answered_once(use_cases.answers, scope, body, act)


@router.post(
    "/datasets/{dataset}/runs/{run}/rewind",
    response_class=Response,
    openapi_extra=reads(RewindRequest),
    responses={**answers_with(Run), **documented(*EVERY, *BODY, *ONCE, *RUN, UnknownStepError)},
)
@allowed(Scope.REPORT, audited=True)
async def rewind_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Go back to the state that stood when a step had just closed; evidence selected before is refused from then on."""
    use_cases = use_cases_of(request)
    body = Body(request, {JSON: CONTROL_LIMIT})
    scope = f"POST /datasets/{dataset}/runs/{run}/rewind"
    step = decode_plain(_REWIND, await body.whole()).step

    async def act() -> Response:
        described, again = await use_cases.rewind_run(dataset, run, step, body.once())
        return await kept_after(use_cases.answers, scope, body, 200, encode(Run.of(described)), replayed=again)

    return await answered_once(use_cases.answers, scope, body, act)


@router.delete(
    "/datasets/{dataset}/runs/{run}",
    status_code=204,
    response_class=Response,
    openapi_extra=KEYED,
    responses=documented(*EVERY, *ONCE, *RUN),
)
@allowed(Scope.ADMIN, audited=True)
async def delete_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Delete a run; `default` is there again at once, empty."""
    use_cases = use_cases_of(request)
    scope, body = f"DELETE /datasets/{dataset}/runs/{run}", NoBody(request)

    async def act() -> Response:
        await use_cases.delete_run(dataset, run, kept(scope, body, lambda _: (204, b"")))
        return Response(status_code=204)

    return await answered_once(use_cases.answers, scope, body, act)


@router.get(
    "/datasets/{dataset}/runs/{run}/leases",
    response_class=Response,
    responses={**answers_with(Leases), **documented(*EVERY, *RUN)},
)
@allowed(Scope.READ)
async def read_leases(
    request: Request, dataset: DatasetName, run: RunName, limit: Limit = 100, ids: LeaseIds = TOLD
) -> Response:
    """Return the tasks in flight by when their leases end, the soonest first."""
    leased, groups = await use_cases_of(request).read_leases(dataset, run, limit, ids)
    return json_response(Leases.of(leased, groups))
