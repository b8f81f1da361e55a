"""Errors as RFC 9457 problems; the only module with their status codes."""

import math
import re
from collections.abc import Mapping

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bots_service import errors
from bots_service.errors import BotsError, Flaw, InvalidInputError, TryLaterError, UnauthenticatedError

MEDIA_TYPE = "application/problem+json"
SOURCES = (("body",), ("query",), ("path",), ("header",))


STATUSES: dict[type[BotsError], int] = {
    BotsError: 500,
    errors.NotFoundError: 404,
    errors.MethodNotAllowedError: 405,
    errors.ConflictError: 409,
    errors.InvalidInputError: 422,
    errors.UnauthenticatedError: 401,
    errors.ForbiddenError: 403,
    errors.MalformedRequestError: 400,
    errors.MalformedBodyError: 400,
    errors.HeadersTooLargeError: 431,
    errors.PayloadTooLargeError: 413,
    errors.UnsupportedMediaTypeError: 415,
    errors.SlowSenderError: 408,
    errors.TryLaterError: 503,
}


def kind_of(error: type[BotsError]) -> tuple[int, str]:
    """Return the status of an error's class, or of its nearest base's, and its name, as in "unknown-dataset"."""
    status = next(STATUSES[each] for each in error.__mro__ if each in STATUSES)
    words = re.findall("[A-Z][a-z]+", error.__name__.removesuffix("Error"))
    return status, "-".join(words).lower()


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem (RFC 9457).

    type: identifier of the kind: "urn:bots:problem:" and its name.
    title: the name in words.
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


def problem_response(request: Request, error: BotsError, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error as a response; a flaw without a source in front is one of the body."""
    status, name = kind_of(type(error))
    flaws = error.flaws if isinstance(error, InvalidInputError) else ()
    problem = Problem(
        type=f"urn:bots:problem:{name}",
        title=name.replace("-", " ").capitalize(),
        status=status,
        detail=str(error),
        instance=request.url.path,
        errors=tuple(flaw if flaw.where[:1] in SOURCES else Flaw(("body", *flaw.where), flaw.what) for flaw in flaws),
    )
    if isinstance(error, UnauthenticatedError):
        headers = {"WWW-Authenticate": "Bearer"}
    if isinstance(error, TryLaterError):
        headers = {"Retry-After": str(max(1, math.ceil(error.retry_after_s)))}
    return Response(msgspec.json.encode(problem), status, headers, media_type=MEDIA_TYPE)
