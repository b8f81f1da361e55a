"""A run moves to another service: export and import of its journal."""

from collections.abc import AsyncGenerator
from functools import partial

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.app_state import state_of
from bots_service.api.bodies import Body
from bots_service.api.idempotency import answered_once
from bots_service.api.openapi import answers_with
from bots_service.api.overload import Download
from bots_service.api.parameters import KEYED, DatasetName, RunName, services_of
from bots_service.api.problems import DATASET, EVERY, RUN, WRITE, documented
from bots_service.api.responses import json_response
from bots_service.api.route_kinds import RouteKind
from bots_service.api.security import About, allowed, guarded_router
from bots_service.api.task_formats.text import split_lines
from bots_service.api.uploads import NDJSON
from bots_service.errors import (
    DatasetExistsError,
    InvalidJournalError,
    JournalIncompleteError,
    LimitReachedError,
    OverloadedError,
    RunHasHistoryError,
)
from bots_service.keys import Scope
from bots_service.moving import LONGEST_LINE
from bots_service.storage.sql.transfer import Moved

router = guarded_router(tags=["runs"])

LINES = {NDJSON: {"schema": {"type": "string"}}}


class ImportedRun(Struct, frozen=True):
    """An imported run.

    seq: the number of its last journal entry.
    """

    dataset: str
    run: str
    seq: int
    epoch: int


@router.get(
    "/datasets/{dataset}/runs/{run}/export",
    summary="Export a run",
    responses={
        200: {"description": "A header, then one line for each entry.", "content": LINES},
        **documented(*EVERY, *RUN, JournalIncompleteError, OverloadedError),
    },
)
@allowed(Scope.READ, about=About.WHOLE)
async def export_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Stream the run's journal as lines of JSON; of a fork, the journals of the runs that it continues come first."""
    export = services_of(request).moves.export

    async def pieces() -> AsyncGenerator[bytes]:
        async for piece in await export(dataset, run):
            yield piece

    disposition = {"Content-Disposition": f'attachment; filename="{dataset}.{run}.ndjson"'}
    return Download(state_of(request.app).downloads, pieces(), headers=disposition, media_type=NDJSON)


@router.post(
    "/datasets/{dataset}/runs/{run}/import",
    summary="Import a run",
    status_code=201,
    openapi_extra={**KEYED, "requestBody": {"required": True, "content": LINES}},
    responses=answers_with(
        ImportedRun("gsm8k", "default", 12, 0),
        *WRITE,
        *DATASET,
        InvalidJournalError,
        DatasetExistsError,
        RunHasHistoryError,
        LimitReachedError,
        meanings={201: "The run was imported."},
    ),
)
@allowed(Scope.ADMIN, kind=RouteKind.UPLOAD)
async def import_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Replay an exported journal as a run of a dataset with the same tasks: all of it or nothing."""
    services = services_of(request)
    body = Body(request, {NDJSON: state_of(request.app).uploads.max_bytes})

    def respond(moved: Moved) -> Response:
        return json_response(ImportedRun(dataset, moved.run.name, moved.run.head, moved.run.epoch), 201)

    lines = split_lines(body.chunks(), longest=LONGEST_LINE)
    act = partial(services.moves.import_lines, dataset, run, lines, body.idempotency_key)
    return await answered_once(services.store.answers, body, Moved, act, respond)
