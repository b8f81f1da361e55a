"""Errors as RFC 9457 problems; the only module with their status codes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bots_service import errors
from bots_service.errors import BotsError, Flaw, InvalidInputError, TryLaterError, UnauthenticatedError

MEDIA_TYPE = "application/problem+json"
SOURCES = (("body",), ("query",), ("path",), ("header",))


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of problem. name: the last part of its type, "urn:bots:problem:<name>"."""

    status: int
    name: str
    title: str


INTERNAL = Kind(500, "internal", "The service failed")
NO_SUCH_ROUTE = Kind(404, "not-found", "Not found")
METHOD_NOT_ALLOWED = Kind(405, "method-not-allowed", "Method not allowed")
MALFORMED_REQUEST = Kind(400, "malformed-request", "This is not HTTP/1.1")
HEADERS_TOO_LARGE = Kind(431, "headers-too-large", "The headers are too large")

KINDS: dict[type[BotsError], Kind] = {
    BotsError: INTERNAL,
    errors.NotFoundError: NO_SUCH_ROUTE,
    errors.UnknownDatasetError: Kind(404, "unknown-dataset", "There is no such dataset"),
    errors.UnknownRunError: Kind(404, "unknown-run", "There is no such run"),
    errors.UnknownPredictionsError: Kind(404, "unknown-predictions", "There are no such predictions"),
    errors.UnknownStepError: Kind(404, "unknown-step", "The run's history has no such step"),
    errors.UnknownApiKeyError: Kind(404, "unknown-api-key", "There is no such API key"),
    errors.ConflictError: Kind(409, "conflict", "Conflict with the current state"),
    errors.DatasetExistsError: Kind(409, "dataset-exists", "The name is in use with other content"),
    errors.TaskExistsError: Kind(409, "task-exists", "A task of that id exists"),
    errors.JournalIncompleteError: Kind(409, "journal-incomplete", "The run's journal is not whole"),
    errors.RunHasHistoryError: Kind(409, "run-has-history", "The run's journal is not empty"),
    errors.StaleEpochError: Kind(409, "stale-epoch", "The evidence is from before a rewind"),
    errors.BusyError: Kind(409, "busy", "Another request is changing the same thing"),
    errors.LimitReachedError: Kind(409, "limit-reached", "A limit of the service is reached"),
    errors.InvalidInputError: Kind(422, "invalid-request", "Invalid request"),
    errors.InvalidTasksError: Kind(422, "invalid-tasks", "Invalid tasks"),
    errors.InvalidOutcomesError: Kind(422, "invalid-outcomes", "Invalid outcomes"),
    errors.InvalidSettingsError: Kind(422, "invalid-settings", "Invalid settings"),
    errors.InvalidSelectionError: Kind(422, "invalid-selection", "Invalid selection"),
    errors.PoolTooSmallError: Kind(422, "pool-too-small", "Not enough tasks"),
    errors.KeyReusedError: Kind(422, "key-reused", "Idempotency key used for another request"),
    errors.InvalidJournalError: Kind(422, "invalid-journal", "The journal can't be imported"),
    errors.UnauthenticatedError: Kind(401, "unauthenticated", "Missing or invalid API key"),
    errors.ForbiddenError: Kind(403, "forbidden", "The API key has no permission"),
    errors.MalformedBodyError: Kind(400, "malformed-body", "The body can't be read"),
    errors.PayloadTooLargeError: Kind(413, "payload-too-large", "The body is too large"),
    errors.UnsupportedMediaTypeError: Kind(415, "unsupported-media-type", "Unsupported media type"),
    errors.DamagedStateError: Kind(500, "damaged-state", "Stored bytes are damaged"),
    errors.SlowSenderError: Kind(408, "slow-sender", "The body arrived too slowly"),
    errors.TryLaterError: Kind(503, "try-later", "Temporarily unavailable"),
    errors.OverloadedError: Kind(503, "overloaded", "Too many requests"),
    errors.DeadlinePassedError: Kind(503, "deadline-passed", "The request took too long"),
    errors.OutdatedTablesError: Kind(503, "outdated-tables", "The database's tables are too old"),
    errors.StorageUnavailableError: Kind(503, "storage-unavailable", "The database does not answer"),
}


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem (RFC 9457).

    type: identifier of the kind: "urn:bots:problem:" and its name.
    title: a short text for the kind.
    status: the HTTP status.
    detail: a text for this occurrence.
    instance: path of the request.
    errors: the errors in the input.
    """

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: tuple[Flaw, ...] = ()


def problem_response(
    request: Request, kind: Kind, detail: str, flaws: tuple[Flaw, ...] = (), headers: Mapping[str, str] | None = None
) -> Response:
    """Return a problem as a response; a flaw without a source in front is one of the body."""
    problem = Problem(
        type=f"urn:bots:problem:{kind.name}",
        title=kind.title,
        status=kind.status,
        detail=detail,
        instance=request.url.path,
        errors=tuple(flaw if flaw.where[:1] in SOURCES else Flaw(("body", *flaw.where), flaw.what) for flaw in flaws),
    )
    return Response(msgspec.json.encode(problem), kind.status, headers, media_type=MEDIA_TYPE)


async def answer_error(request: Request, error: BotsError) -> Response:
    """Return the response for an error."""
    flaws = error.flaws if isinstance(error, InvalidInputError) else ()
    headers = None
    if isinstance(error, UnauthenticatedError):
        headers = {"WWW-Authenticate": "Bearer"}
    if isinstance(error, TryLaterError):
        headers = {"Retry-After": str(max(1, math.ceil(error.retry_after_s)))}
    return problem_response(request, KINDS[type(error)], str(error), flaws, headers)
