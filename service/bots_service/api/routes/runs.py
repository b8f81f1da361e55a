"""Runs: created, read, changed, rewound, deleted, moved to another service."""

from collections.abc import AsyncGenerator
from functools import partial
from types import NoneType
from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.overload import Download
from bots_service.api.requests import (
    NDJSON,
    Body,
    Cursor,
    DatasetName,
    Limit,
    RunName,
    answered_once,
    read_cursor,
    read_json,
    services_of,
    state_of,
    write_cursor,
)
from bots_service.api.responses import json_response, no_content
from bots_service.api.routing import ANY_SCOPE, About, Route, RouteKind, Routes, caller_of
from bots_service.api.task_formats.text import split_lines
from bots_service.core.checks import MAX_IDS, Name, TaskId
from bots_service.core.run_settings import SomeSettings
from bots_service.errors import (
    DatasetExistsError,
    InvalidJournalError,
    InvalidSettingsError,
    InvalidTasksError,
    JournalIncompleteError,
    LimitReachedError,
    OverloadedError,
    RunHasHistoryError,
    UnknownStepError,
)
from bots_service.keys import Scope
from bots_service.moving import LONGEST_LINE
from bots_service.records import RunPut
from bots_service.runs import ForkFrom, PutRunResult, Run
from bots_service.storage.sql.transfer import Moved

routes = Routes("runs")

RUN = "/datasets/{dataset}/runs/{run}"
LINES = {NDJSON: {"schema": {"type": "string"}}}


class ForkRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a run starts: another run, at a step that closed there.

    step: the step of the other run; left out, the last that closed.
    """

    run: Name
    step: Annotated[int, Meta(ge=0, le=2**53)] | None = None


class RunRequest(SomeSettings):
    """Settings of a new run, and where it starts.

    fork: the run to continue.
    """

    fork: ForkRequest | None = None


class RewindRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The step that the run goes back to.

    step: a step that closed in the run's present history; 0 for the beginning.
    """

    step: Annotated[int, Meta(ge=0, le=2**53)]


class ForgetRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Tasks that are other tasks now, because a label or a verifier was mended.

    tasks: their ids.
    """

    tasks: Annotated[list[TaskId], Meta(min_length=1, max_length=MAX_IDS)]


class RunPage(Struct, frozen=True):
    """A page of runs, by name.

    runs: the runs.
    """

    runs: list[Run]
    next_cursor: str | None


@Route(
    routes,
    f"PUT {RUN}",
    "Create a run",
    Scope.ADMIN,
    Run,
    (UnknownStepError, InvalidSettingsError, RunHasHistoryError, LimitReachedError),
    reads=RunRequest,
    meanings={200: "The run existed and has these settings now.", 201: "The run was created."},
)
async def put_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Create a run, or replace the settings of one whose journal is empty.

    It starts on its own, or continues another run.
    """
    body, wanted = await read_json(request, RunRequest)
    origin = None if wanted.fork is None else ForkFrom(wanted.fork.run, wanted.fork.step)
    if origin is not None:
        caller_of(request).require_run(dataset, origin.run)

    def respond(result: PutRunResult) -> Response:
        return json_response(result.run, 201 if result.put is RunPut.CREATED else 200)

    act = partial(services_of(request).runs.put, dataset, run, wanted.given(), origin, body.idempotency_key())
    return await answered_once(body, PutRunResult, act, respond)


@Route(routes, "GET /datasets/{dataset}/runs", "List a dataset's runs", Scope.READ, RunPage)
async def list_runs(request: Request, dataset: DatasetName, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Return by name the runs of a dataset that the caller's key reaches."""
    after = "" if cursor is None else read_cursor(cursor, Name)
    runs = await services_of(request).runs.page(dataset, after, limit + 1, caller_of(request))
    following = write_cursor(runs[limit - 1].run) if len(runs) > limit else None
    return json_response(RunPage(runs[:limit], following))


@Route(routes, f"GET {RUN}", "Get a run", ANY_SCOPE, Run)
async def get_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Return a run's present state."""
    return json_response(await services_of(request).runs.describe(dataset, run))


@Route(routes, f"PATCH {RUN}", "Change a run's settings", Scope.ADMIN, Run, (InvalidSettingsError,), reads=SomeSettings)
async def change_settings(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Change settings from the next step on; written to the journal. Belief and prior are fixed."""
    body, wanted = await read_json(request, SomeSettings)
    result = await services_of(request).runs.change_settings(dataset, run, wanted.given(), body.idempotency_key())
    return json_response(result.run, replayed=result.duplicate)


@Route(routes, f"POST {RUN}/rewind", "Rewind a run", Scope.REPORT, Run, (UnknownStepError,), reads=RewindRequest)
async def rewind_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Return to the state right after a step closed. Outcomes of earlier selections are refused from then on."""
    body, wanted = await read_json(request, RewindRequest)
    result = await services_of(request).runs.rewind(dataset, run, wanted.step, body.idempotency_key())
    return json_response(result.run, replayed=result.duplicate)


@Route(routes, f"POST {RUN}/forget", "Forget tasks", Scope.REPORT, Run, (InvalidTasksError,), reads=ForgetRequest)
async def forget_tasks(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Forget what the run knows of some tasks alone; written to the journal.

    They then count as never tried. What their rollouts say about other tasks stays, as do all counts.
    """
    body, wanted = await read_json(request, ForgetRequest)
    result = await services_of(request).runs.forget_tasks(dataset, run, wanted.tasks, body.idempotency_key())
    return json_response(result.run, replayed=result.duplicate)


@Route(routes, f"DELETE {RUN}", "Delete a run", Scope.ADMIN)
async def delete_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Delete a run. The run `default` is created again at once, empty."""
    body = Body(request)
    act = partial(services_of(request).runs.delete, dataset, run, body.idempotency_key())
    return await answered_once(body, NoneType, act, no_content)


class ImportedRun(Struct, frozen=True):
    """An imported run.

    seq: the number of its last journal entry.
    """

    dataset: str
    run: str
    seq: int
    epoch: int


@Route(
    routes,
    f"GET {RUN}/export",
    "Export a run",
    Scope.READ,
    refuses=(JournalIncompleteError, OverloadedError),
    about=About.WHOLE,
    answers_media=LINES,
    meanings={200: "A header, then one line for each entry."},
)
async def export_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Stream the run's journal as lines of JSON; of a fork, the journals of the runs that it continues come first."""
    export = services_of(request).moves.export

    async def pieces() -> AsyncGenerator[bytes]:
        async for piece in await export(dataset, run):
            yield piece

    disposition = {"Content-Disposition": f'attachment; filename="{dataset}.{run}.ndjson"'}
    return Download(state_of(request.app).downloads, pieces(), headers=disposition, media_type=NDJSON)


@Route(
    routes,
    f"POST {RUN}/import",
    "Import a run",
    Scope.ADMIN,
    ImportedRun,
    (InvalidJournalError, DatasetExistsError, RunHasHistoryError, LimitReachedError),
    kind=RouteKind.UPLOAD,
    reads_media=LINES,
    meanings={201: "The run was imported."},
)
async def import_run(request: Request, dataset: DatasetName, run: RunName) -> Response:
    """Replay an exported journal as a run of a dataset with the same tasks: all of it or nothing."""
    body = Body(request, {NDJSON: state_of(request.app).uploads.max_bytes})

    def respond(moved: Moved) -> Response:
        return json_response(ImportedRun(dataset, moved.run.name, moved.run.head, moved.run.epoch), 201)

    lines = split_lines(body.chunks(), longest=LONGEST_LINE)
    act = partial(services_of(request).moves.import_lines, dataset, run, lines, body.idempotency_key)
    return await answered_once(body, Moved, act, respond)
