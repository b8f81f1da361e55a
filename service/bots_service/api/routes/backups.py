"""Export, import and pruning."""

from collections.abc import AsyncGenerator
from typing import Annotated

import msgspec
from fastapi import Query
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.app_state import state_of
from bots_service.api.bodies import CONTROL_LIMIT, JSON, Body
from bots_service.api.decoding import decode_plain
from bots_service.api.idempotency import answered_once
from bots_service.api.openapi import answers_with, reads
from bots_service.api.overload import Download
from bots_service.api.parameters import KEYED, DatasetName, use_cases_of
from bots_service.api.problems import BODY, DATASET, EVERY, ONCE, RUN, documented
from bots_service.api.responses import json_response
from bots_service.api.route_kinds import RouteKind
from bots_service.api.security import About, allowed, guarded_router
from bots_service.core.checks import NAME
from bots_service.errors import (
    BusyError,
    DatasetExistsError,
    InvalidBackupError,
    LimitReachedError,
    OverloadedError,
    RunHasHistoryError,
)
from bots_service.ports.backup import Imported
from bots_service.ports.keys import Scope
from bots_service.usecases.backup_format import MEDIA_TYPE
from bots_service.usecases.prune import PrunedRun

router = guarded_router(tags=["backups"])

OCTETS = "application/octet-stream"
BINARY = {"schema": {"type": "string", "format": "binary"}}
OneRun = Annotated[str | None, Query(pattern=NAME, description="Only this run, without the tasks.")]
AsDataset = Annotated[
    str | None, Query(pattern=NAME, description="New name of the dataset; default: the name in the backup.")
]
AsRun = Annotated[
    str | None,
    Query(pattern=NAME, description="New name of the run, for a backup of one run; default: the name in the backup."),
]


class ImportedRun(Struct, frozen=True):
    """An imported run.

    seq: the number of its last journal entry.
    """

    run: str
    seq: int
    epoch: int


class ImportResponse(Struct, frozen=True):
    """The result of an import.

    runs: the imported runs.
    """

    dataset: str
    tasks: int
    runs: list[ImportedRun]

    @classmethod
    def from_imported(cls, imported: Imported) -> "ImportResponse":
        """Return the response for an import."""
        runs = [ImportedRun(row.name, row.head, row.epoch) for row in imported.runs]
        return cls(imported.dataset.name, imported.dataset.live, runs)


class PruneRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What to remove.

    dry_run: only report what would be removed.
    keep_journal_days: keep entries younger than this; default: BOTS_KEEP_JOURNAL_DAYS.
    """

    dry_run: bool = False
    keep_journal_days: Annotated[float, Meta(gt=0, le=36_500)] | None = None


class PrunedJournal(Struct, frozen=True):
    """Removed journal entries of one run.

    entries: how many.
    seq: the last entry removed.
    """

    dataset: str
    run: str
    entries: int
    seq: int

    @classmethod
    def from_run(cls, pruned: PrunedRun) -> "PrunedJournal":
        """Return the answer for a run."""
        return cls(pruned.dataset, pruned.run, pruned.entries, pruned.seq)


class PruneResponse(Struct, frozen=True):
    """The removed journal entries of all runs; with dry_run, those that would be removed.

    dry_run: whether nothing was removed.
    runs: the runs.
    """

    dry_run: bool
    runs: list[PrunedJournal]


_PRUNE = msgspec.json.Decoder(PruneRequest)


@router.get(
    "/datasets/{dataset}/export",
    summary="Export a dataset or a run",
    response_class=Response,
    responses={
        200: {"description": "The backup.", "content": {MEDIA_TYPE: BINARY}},
        **documented(*EVERY, *RUN, OverloadedError),
    },
)
@allowed(Scope.ADMIN, about=About.WHOLE)
async def export_dataset(request: Request, dataset: DatasetName, run: OneRun = None) -> Response:
    """Stream the dataset with all its runs, or one run of it, as one checksummed file."""
    export = use_cases_of(request).export_backup

    async def pieces() -> AsyncGenerator[bytes]:
        async for piece in await export(dataset, run):
            yield piece

    name = dataset if run is None else f"{dataset}.{run}"
    disposition = {"Content-Disposition": f'attachment; filename="{name}.botsbackup"'}
    return Download(state_of(request.app).downloads, pieces(), headers=disposition, media_type=MEDIA_TYPE)


@router.post(
    "/imports",
    summary="Import a backup",
    status_code=201,
    response_class=Response,
    openapi_extra={**KEYED, "requestBody": {"required": True, "content": {MEDIA_TYPE: BINARY, OCTETS: BINARY}}},
    responses={
        **answers_with(
            ImportResponse("gsm8k", 7473, [ImportedRun("default", 12, 0)]), {201: "The backup was imported."}
        ),
        **documented(
            *EVERY,
            *BODY,
            *ONCE,
            *DATASET,
            InvalidBackupError,
            DatasetExistsError,
            RunHasHistoryError,
            LimitReachedError,
        ),
    },
)
@allowed(Scope.ADMIN, about=About.EVERY, kind=RouteKind.UPLOAD)
async def import_backup(request: Request, dataset: AsDataset = None, run: AsRun = None) -> Response:
    """Import a dataset with its runs, or one run, from an export: all of it or nothing."""
    use_cases, most = use_cases_of(request), state_of(request.app).uploads.max_bytes
    body = Body(request, {MEDIA_TYPE: most, OCTETS: most})

    async def act() -> Imported:
        return await use_cases.import_backup(body.chunks(), body.idempotency_key, dataset=dataset, run=run)

    def respond(imported: Imported) -> Response:
        return json_response(ImportResponse.from_imported(imported), 201)

    return await answered_once(use_cases.answers, body, Imported, act, respond)


@router.post(
    "/prune",
    summary="Remove old journal entries",
    response_class=Response,
    openapi_extra=reads(PruneRequest(dry_run=True, keep_journal_days=30)),
    responses={
        **answers_with(PruneResponse(dry_run=True, runs=[PrunedJournal("gsm8k", "default", 1200, 1200)])),
        **documented(*EVERY, *BODY, BusyError),
    },
)
@allowed(Scope.ADMIN, about=About.EVERY)
async def prune(request: Request) -> Response:
    """Remove old journal entries that a snapshot covers, as the service does every hour."""
    body = Body(request, {JSON: CONTROL_LIMIT})
    asked = decode_plain(_PRUNE, await body.whole())
    pruned = await use_cases_of(request).prune(keep_days=asked.keep_journal_days, dry_run=asked.dry_run)
    return json_response(PruneResponse(asked.dry_run, list(map(PrunedJournal.from_run, pruned))))
