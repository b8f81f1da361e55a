"""POST prune: remove old journal entries."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.bodies import CONTROL_LIMIT, JSON, Body
from bots_service.api.decoding import decode_plain
from bots_service.api.openapi import answers_with, reads
from bots_service.api.parameters import services_of
from bots_service.api.problems import BODY, EVERY
from bots_service.api.responses import json_response
from bots_service.api.security import About, allowed, guarded_router
from bots_service.errors import BusyError
from bots_service.keys import Scope
from bots_service.prune import PrunedRun

router = guarded_router(tags=["service"])


class PruneRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What to remove.

    dry_run: only report what would be removed.
    keep_journal_days: keep entries younger than this; default: BOTS_KEEP_JOURNAL_DAYS.
    """

    dry_run: bool = False
    keep_journal_days: Annotated[float, Meta(gt=0, le=36_500)] | None = None


class PruneResponse(Struct, frozen=True):
    """The removed journal entries of all runs; with dry_run, those that would be removed.

    dry_run: whether nothing was removed.
    runs: the runs.
    """

    dry_run: bool
    runs: list[PrunedRun]


_PRUNE = msgspec.json.Decoder(PruneRequest)


@router.post(
    "/prune",
    summary="Remove old journal entries",
    openapi_extra=reads(PruneRequest(dry_run=True, keep_journal_days=30)),
    responses=answers_with(
        PruneResponse(dry_run=True, runs=[PrunedRun("gsm8k", "default", 1200, 1200)]), *EVERY, *BODY, BusyError
    ),
)
@allowed(Scope.ADMIN, about=About.EVERY)
async def prune(request: Request) -> Response:
    """Remove old journal entries that a snapshot covers, as the service does every hour."""
    body = Body(request, {JSON: CONTROL_LIMIT})
    asked = decode_plain(_PRUNE, await body.whole())
    pruned = await services_of(request).prune(keep_days=asked.keep_journal_days, dry_run=asked.dry_run)
    return json_response(PruneResponse(asked.dry_run, pruned))
