"""What happens around every request: an id, one line in the log, and no failure without a proper answer."""

import re
import time
import uuid

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bots_service.api.audit import log_act
from bots_service.api.problems import INTERNAL, problem_response
from bots_service.metrics.requests import RequestMetrics

log = structlog.get_logger("bots_service.access")

# Called a thousand times a second by trainers, and for ever by probes and Prometheus: a line for each that went well
# would cost trainers a tenth, and hide all others.
QUIET = {"/select", "/report", "/livez", "/readyz", "/metrics"}
REQUEST_ID = re.compile(r"[ -~]{1,128}")  # printable ASCII


class RequestScope:
    """Pure ASGI: names the request, measures it, counts it, logs it, and answers 500 where nobody else answered.

    The line in the log names the route's template, never the query or a header.
    """

    def __init__(self, app: ASGIApp, metrics: RequestMetrics) -> None:
        self._app = app
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
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, send_named)
            except Exception:
                log.exception("request_failed")
                if status:
                    raise  # half an answer is out: only breaking the connection tells the client
                response = problem_response(Request(scope), INTERNAL, "an unexpected error; the log has the details")
                await response(scope, receive, send_named)
            finally:
                seconds = time.perf_counter() - started
                self._metrics.answered(scope["method"], template_of(scope), status, seconds)
                _log_access(scope, status, seconds)
                log_act(scope, status)


def request_id_of(scope: Scope) -> str:
    """Return the request's own id if it has a proper one, else a new one."""
    given = Headers(scope=scope).get("x-request-id", "")
    return given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


def template_of(scope: Scope) -> str | None:
    """Return the template of the route that was taken, None where there is none."""
    template: str | None = getattr(scope.get("route"), "path", None)
    return template


def _log_access(scope: Scope, status: int, seconds: float) -> None:
    template = template_of(scope)
    if not status:
        write = log.info  # the client went away before it was answered
    elif status >= 500:
        write = log.error
    elif status >= 400:
        write = log.warning
    else:
        write = log.debug if template in QUIET else log.info
    write("request", method=scope["method"], route=template, status=status, ms=round(seconds * 1000, 2))
