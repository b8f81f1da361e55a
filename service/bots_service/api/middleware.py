"""The middleware around every request: a request id, a log line, and a proper answer to every failure."""

import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bots_service.api.problems import INTERNAL, problem_response
from bots_service.api.routing import LOGGED, READS, RouteKind, RouteKinds
from bots_service.metrics.process import RequestMetrics

log = structlog.get_logger("bots_service.access")

# Trainers call a thousand times a second, and probes, Prometheus and open pages read all the time. A line for each
# successful request would cost trainers a tenth of the speed, and hide all other lines.
SLOW_S = 1.0  # a trainer's GPUs are idle that long
REQUEST_ID = re.compile(r"[ -~]{1,128}")  # printable ASCII


class RequestScope:
    """Pure ASGI middleware: sets the request id, measures, counts and logs the request, and answers 500 if nothing did.

    The log line contains the route's template, never the query or a header.
    """

    def __init__(self, app: ASGIApp, kind_of: RouteKinds, metrics: RequestMetrics) -> None:
        self._app = app
        self._kind_of = kind_of
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0
        request_id = request_id_of(scope)

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                finish_headers(MutableHeaders(scope=message), request_id)
            await send(message)

        kind = self._kind_of(scope)
        with bound(request_id):
            try:
                await self._app(scope, receive, send_named)
            except Exception:
                log.exception("request_failed")
                if status:
                    raise  # half an answer is sent: only a broken connection informs the client
                response = problem_response(Request(scope), INTERNAL, "an unexpected error; the log has the details")
                await response(scope, receive, send_named)
            finally:
                seconds = time.perf_counter() - started
                self._metrics.answered(scope["method"], template_of(scope), status, seconds)
                _log_access(scope, kind, status, seconds)


def finish_headers(headers: MutableHeaders, request_id: str) -> None:
    """Add the headers that every answer has; a route's own caching headers stay.

    No proxy or browser may cache answers, or interpret them as another media type.
    """
    headers["X-Request-Id"] = request_id
    headers["X-Content-Type-Options"] = "nosniff"
    headers.setdefault("Cache-Control", "no-store")


def request_id_of(scope: Scope) -> str:
    """Return the request's own id if it is valid, otherwise a new one."""
    given = Headers(scope=scope).get("x-request-id", "")
    return given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


def template_of(scope: Scope) -> str | None:
    """Return the template of the matched route; None if no route matched."""
    template: str | None = getattr(scope.get("route"), "path", None)
    return template


@contextmanager
def bound(request_id: str) -> Iterator[None]:
    """Add the request's id to every log line inside the block."""
    with structlog.contextvars.bound_contextvars(request_id=request_id):
        try:
            yield
        finally:
            structlog.contextvars.unbind_contextvars(*LOGGED)


def _log_access(scope: Scope, kind: RouteKind, status: int, seconds: float) -> None:
    is_training = kind is RouteKind.TRAINING
    if not status:
        write = log.info  # the client disconnected before the answer
    elif status >= 500:
        write = log.error
    elif status >= 400 or (is_training and seconds > SLOW_S):
        write = log.warning
    else:
        write = log.debug if scope["method"] in READS or is_training else log.info
    write("request", method=scope["method"], route=template_of(scope), status=status, ms=round(seconds * 1000, 2))
