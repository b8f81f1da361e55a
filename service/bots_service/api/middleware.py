"""The middleware around every request: a request id, a log line, and a proper answer to every failure."""

import time

import structlog
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bots_service.api.overload import Line, Parting, has_no_body
from bots_service.api.problems import INTERNAL, answer_error, problem_response
from bots_service.api.requests import Pace
from bots_service.api.responses import finish_headers, request_id_of
from bots_service.api.routing import LOGGED, READS, RouteKind, RouteKinds
from bots_service.metrics import RequestMetrics

log = structlog.get_logger("bots_service.access")

# Trainers call a thousand times a second, and probes, Prometheus and open pages read all the time. A line for each
# successful request would cost trainers a tenth of the speed, and hide all other lines.
SLOW_S = 1.0  # a trainer's GPUs are idle that long
TELL_EVERY_S = 1.0


class RequestScope:
    """Pure ASGI middleware: sets the request id, measures, counts and logs the request, and answers 500 if nothing did.

    The log line contains the route's template, never the query or a header. While the queue of training requests is
    full, they are answered 503 at once, at almost no cost.
    """

    def __init__(self, app: ASGIApp, kind_of: RouteKinds, line: Line, metrics: RequestMetrics) -> None:
        self._app = app
        self._kind_of = kind_of
        self._line = line
        self._metrics = metrics
        self._told, self._told_at = 0, 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0
        request_id = request_id_of(scope)
        kind = self._kind_of(scope)
        if kind is RouteKind.TRAINING and self._line.is_full:
            await self._refuse(scope, receive, send, request_id)
            return

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                finish_headers(MutableHeaders(scope=message), request_id)
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
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
                structlog.contextvars.unbind_contextvars(*LOGGED)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        """Answer that too many requests wait; log one line for all refusals of a second."""
        error = self._line.refusal()
        if time.monotonic() - self._told_at > TELL_EVERY_S:
            log.warning("overloaded", refused=self._line.refused - self._told, reason=str(error))
            self._told, self._told_at = self._line.refused, time.monotonic()
        response = await answer_error(Request(scope), error)
        finish_headers(response.headers, request_id)
        self._metrics.answered(scope["method"], scope["path"], response.status_code, 0.0)
        await response(scope, receive, Parting(scope, Pace(receive, is_complete=has_no_body(scope)), send))


def template_of(scope: Scope) -> str | None:
    """Return the template of the matched route; None if no route matched."""
    template: str | None = getattr(scope.get("route"), "path", None)
    return template


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
