"""Everything the client raises, by whose fault it is.

    BotsClientError
    ├── RequestError                 ours: the service refused what was asked (4xx), or it could not be written
    │   ├── InvalidRequestError      400, 413, 415, 422: the content is wrong; `errors` says where
    │   ├── AuthenticationError      401: no key, or not a known one
    │   ├── ForbiddenError           403: the key does not open this dataset
    │   ├── NotFoundError            404: no such dataset, run, step or route
    │   └── ConflictError            409: it clashes with what the service holds
    │       └── StaleEpochError      the run was rewound after the selection was made; its evidence counts for nothing
    ├── ServiceError                 the service's: 5xx, too busy (408, 429), or an answer that makes no sense
    └── UnreachableError             the network's: refused, unknown host, connection lost
        └── DeadlineExceededError    no full answer within the deadline; a write may or may not have been applied

Only programming mistakes (a bad url, a key that no header can carry) are a plain ValueError.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

STALE_EPOCH = "urn:bots:problem:stale-epoch"
BUSY = "urn:bots:problem:busy"  # another request is changing the same thing
PROXY_PAGE_LENGTH = 200  # enough of a proxy's HTML page to recognise it


@dataclass(frozen=True, slots=True)
class FieldError:
    """One flaw of the input: where it is and what is wrong there."""

    loc: tuple[str | int, ...]
    msg: str

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.loc))}: {self.msg}" if self.loc else self.msg


@dataclass(frozen=True, slots=True)
class Problem:
    """What the service said about a failure (RFC 9457); all unset when it said nothing.

    status: of the answer; None if there was none.
    request_id: finds the request in the service's log.
    retry_after_s: how long the service asked to be left alone.
    """

    type: str = "about:blank"
    title: str = ""
    status: int | None = None
    detail: str = ""
    errors: tuple[FieldError, ...] = ()
    request_id: str | None = None
    retry_after_s: float | None = None


class BotsClientError(Exception):
    """Root of all that the client raises on purpose."""

    def __init__(self, message: str, problem: Problem | None = None) -> None:
        super().__init__(message, problem)  # both in args, so that the error survives pickling between workers
        self.message = message
        self.problem = problem or Problem()

    def __str__(self) -> str:
        return self.message

    @property
    def type(self) -> str:
        """The kind of problem, as `urn:bots:problem:...`; "about:blank" if the service named none."""
        return self.problem.type

    @property
    def title(self) -> str:
        """The kind of problem in words."""
        return self.problem.title

    @property
    def status(self) -> int | None:
        """HTTP status of the answer; None if there was no answer."""
        return self.problem.status

    @property
    def detail(self) -> str:
        """What happened this time."""
        return self.problem.detail

    @property
    def errors(self) -> tuple[FieldError, ...]:
        """Every flaw of the input that the service found."""
        return self.problem.errors

    @property
    def request_id(self) -> str | None:
        """What finds the request in the service's log."""
        return self.problem.request_id


class RequestError(BotsClientError):
    """The service refused what was asked, or it could not be written."""


class InvalidRequestError(RequestError):
    """The content of the request is wrong; `errors` says where."""


class AuthenticationError(RequestError):
    """The service wants a key, or does not know this one."""


class ForbiddenError(RequestError):
    """The key does not open this dataset."""


class NotFoundError(RequestError):
    """There is no such dataset, run, step or route."""


class ConflictError(RequestError):
    """The request clashes with what the service holds."""


class StaleEpochError(ConflictError):
    """The run was rewound after the selection was made: its evidence counts for nothing."""


class ServiceError(BotsClientError):
    """The service failed, is too busy, or answered what makes no sense."""


class UnreachableError(BotsClientError):
    """No connection to the service, or it was lost."""


class DeadlineExceededError(UnreachableError):
    """No full answer within the deadline; a write may or may not have been applied."""


_BY_STATUS: dict[int, type[BotsClientError]] = {
    400: InvalidRequestError,
    401: AuthenticationError,
    403: ForbiddenError,
    404: NotFoundError,
    408: ServiceError,  # too slow or too busy: not for us to mend
    409: ConflictError,
    413: InvalidRequestError,
    415: InvalidRequestError,
    422: InvalidRequestError,
    429: ServiceError,
}


def error_of(problem: Problem, *, asked: str) -> BotsClientError:
    """Return the error for an answer that is not a success.

    Args:
        problem: what the service said.
        asked: method and path, for the message.
    """
    status = problem.status or 0
    kind = _BY_STATUS.get(status, RequestError if 400 <= status < 500 else ServiceError)
    if kind is ConflictError and problem.type == STALE_EPOCH:
        kind = StaleEpochError
    said = ": ".join(part for part in (problem.title, problem.detail) if part)
    flaws = "".join(f"\n  {flaw}" for flaw in problem.errors)
    request = f", request {problem.request_id}" if problem.request_id else ""
    return kind(f"{status} {said} ({asked}{request}){flaws}", problem)


def problem_of(status: int, headers: Mapping[str, str], body: bytes, *, retry_after_s: float | None) -> Problem:
    """Return what an answer says about a failure, whoever wrote it: the service, a proxy or a stranger."""
    said = _object_in(body)
    type_, title, detail = (_text(said.get(name)) for name in ("type", "title", "detail"))
    if not said:
        detail = " ".join(body.decode("utf-8", "replace").split())[:PROXY_PAGE_LENGTH]
    if 300 <= status < 400:
        detail = f"redirected to {headers.get('location', 'nowhere')}; pass that service's url="
    return Problem(
        type=type_ or "about:blank",
        title=title or _phrase(status),
        status=status,
        detail=detail,
        errors=_flaws(said.get("errors")),
        request_id=headers.get("x-request-id"),
        retry_after_s=retry_after_s,
    )


def _object_in(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _flaws(said: object) -> tuple[FieldError, ...]:
    """Return the flaws that are readable; a failure must not be hidden behind another one."""
    rows = [row for row in said if isinstance(row, dict)] if isinstance(said, list) else []
    return tuple(FieldError(_location(row.get("loc")), _text(row.get("msg"))) for row in rows)


def _location(said: object) -> tuple[str | int, ...]:
    return tuple(part for part in said if isinstance(part, str | int)) if isinstance(said, list) else ()


def _text(said: object) -> str:
    return said if isinstance(said, str) else ""


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "unknown status"
