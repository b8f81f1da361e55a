"""The client's exceptions, by cause. Mistakes in a program, such as an invalid url, are a ValueError or TypeError."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

PROBLEM = "urn:bots:problem:"  # begins the type of each of the service's problems
MEDIA_TYPE = "application/problem+json"
STALE_EPOCH = f"{PROBLEM}stale-epoch"
BUSY = f"{PROBLEM}busy"  # another request is changing the same resource
PROXY_PAGE_LENGTH = 200  # characters; enough to recognise a proxy's page
MARKUP = re.compile("<[^<>]*>")


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error in the input: its location and a message."""

    loc: tuple[str | int, ...]
    msg: str

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.loc))}: {self.msg}" if self.loc else self.msg


class BotsClientError(Exception):
    """Base class of the client's exceptions, with what the service's problem details (RFC 9457) say.

    type: kind of problem, as `urn:bots:problem:...`; "about:blank" if the service named none.
    title, detail: texts for the kind of problem, and for this occurrence of it.
    status: of the response; None if there was none.
    errors: those in the input.
    request_id: identifies the request in the service's log.
    retry_after_s: the service's Retry-After, in seconds.
    """

    type: str = "about:blank"
    title: str = ""
    status: int | None = None
    detail: str = ""
    errors: tuple[FieldError, ...] = ()
    request_id: str | None = None
    retry_after_s: float | None = None

    def __init__(self, message: str, **problem: Any) -> None:
        super().__init__(message)
        vars(self).update(problem)


class RequestError(BotsClientError):
    """The service itself refused the request (4xx), or it could not be encoded."""


class InvalidRequestError(RequestError):
    """The content of the request is invalid (400, 413, 415, 422); `errors` says where."""


class AuthenticationError(RequestError):
    """The API key is missing or unknown (401)."""


class ForbiddenError(RequestError):
    """The key has no access to this dataset or operation (403)."""


class NotFoundError(RequestError):
    """The dataset, run, step or route does not exist (404)."""


class ConflictError(RequestError):
    """The request conflicts with the current state (409)."""


class StaleEpochError(ConflictError):
    """The run was rewound after the selection was made: nothing was recorded."""


class ServiceError(BotsClientError):
    """The service failed (5xx), is overloaded (408, 429), or sent an invalid response, or a proxy refused the call."""


class UnreachableError(BotsClientError):
    """The service can't be reached, or the connection was lost."""


class DeadlineExceededError(UnreachableError):
    """No complete response within the deadline; a write may or may not have been applied."""


_BY_STATUS: dict[int, type[BotsClientError]] = {
    400: InvalidRequestError,
    401: AuthenticationError,
    403: ForbiddenError,
    404: NotFoundError,
    408: ServiceError,  # slow or overloaded: not the request's fault
    409: ConflictError,
    413: InvalidRequestError,
    415: InvalidRequestError,
    422: InvalidRequestError,
    429: ServiceError,
}


def error_of(status: int, headers: Mapping[str, str], body: bytes, *, asked: str) -> BotsClientError:
    """Return the exception for an unsuccessful response from the service, a proxy or any other server.

    Only a problem of the service itself says that the request is wrong. Any other 4xx, such as a proxy's page, may be
    gone when the request is sent again.
    """
    is_problem = headers.get("content-type", "").partition(";")[0].strip().lower() == MEDIA_TYPE
    given = object_in(body) if is_problem else {}
    type_, title, detail = (_text(given.get(name)) for name in ("type", "title", "detail"))
    if not given:
        detail = " ".join(MARKUP.sub(" ", body.decode("utf-8", "replace")).split())[:PROXY_PAGE_LENGTH]
    if 300 <= status < 400:
        detail = f"redirected to {headers.get('location', 'nowhere')}; pass that service's url="
    title, flaws = title or httpx.codes.get_reason_phrase(status) or "unknown status", _flaws(given.get("errors"))
    kind = _BY_STATUS.get(status, RequestError if 400 <= status < 500 else ServiceError)
    if kind is ConflictError and type_ == STALE_EPOCH:
        kind = StaleEpochError
    said = ": ".join(part for part in (title, detail) if part)
    if issubclass(kind, RequestError) and not type_.startswith(PROBLEM):
        kind = ServiceError
        said += "; this is no answer of the BOTS service: check url=, and the proxies before it"
    request_id = headers.get("x-request-id")
    where = f"{asked}, request {request_id}" if request_id else asked
    return kind(
        f"{status} {said} ({where})" + "".join(f"\n  {flaw}" for flaw in flaws),
        type=type_ or "about:blank",
        title=title,
        status=status,
        detail=detail,
        errors=flaws,
        request_id=request_id,
        retry_after_s=_retry_after_s(headers),
    )


def object_in(body: Any) -> dict[str, Any]:
    """Return a JSON object; an empty one if it is none."""
    try:
        said = json.loads(body)
    except (ValueError, TypeError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _flaws(said: object) -> tuple[FieldError, ...]:
    """Return the errors that can be parsed; the others are skipped, so that the failure itself is still raised."""
    rows = said if isinstance(said, list) else []
    return tuple(
        FieldError(tuple(row["loc"]), _text(row.get("msg")))
        for row in rows
        if isinstance(row, dict) and isinstance(row.get("loc"), list)
    )


def _text(said: object) -> str:
    return said if isinstance(said, str) else ""


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return a Retry-After in seconds; None without one. Dates, which the service never sends, count as none."""
    try:
        seconds = float(headers.get("retry-after", "nan"))
    except ValueError:
        return None
    return seconds if 0 <= seconds < math.inf else None
