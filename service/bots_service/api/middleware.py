"""The middleware around every request: a request id, a log line, and a proper answer to every failure."""

import re
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bots_service.api.problems import INTERNAL, problem_response
from bots_service.api.route_kinds import MACHINES, RouteKind, RouteKinds
from bots_service.api.security import LOGGED_NAMES, log_audit
from bots_service.metrics.process import CLIENT_LEFT, METHODS, RequestMetrics
from bots_service.spans import Fact, Tracer, TraceSpan, Work, working

log = structlog.get_logger("bots_service.access")

# Trainers call a thousand times a second, and probes, Prometheus and open pages read all the time. A line for each
# successful request would cost trainers a tenth of the speed, and hide all other lines.
READS = {"GET", "HEAD"}
SLOW_S = 1.0  # a trainer's GPUs are idle that long; the line shows where the time went
REQUEST_ID = re.compile(r"[ -~]{1,128}")  # printable ASCII


class RequestSpan(TraceSpan, Protocol):
    """The span of a whole request."""

    @property
    def trace_id(self) -> str:
        """The trace's id in hexadecimal."""
        ...

    @property
    def is_sampled(self) -> bool:
        """Whether the trace will be sent."""
        ...

    def rename(self, name: str) -> None:
        """Rename the span."""
        ...


class RequestTracer(Tracer, Protocol):
    """Creates the spans of requests and their child spans."""

    def request(self, method: str, headers: Mapping[str, str]) -> RequestSpan:
        """Start the span of a request, in its caller's trace if the headers have one."""
        ...


class RequestScope:
    """Pure ASGI middleware: sets the request id, measures, counts and logs the request, and answers 500 if nothing did.

    The log line contains the route's template, never the query or a header.
    """

    def __init__(
        self, app: ASGIApp, kind_of: RouteKinds, metrics: RequestMetrics, tracer: RequestTracer | None
    ) -> None:
        self._app = app
        self._kind_of = kind_of
        self._metrics = metrics
        self._tracer = tracer

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
        span = self._span(scope, kind)
        tracer = self._tracer if span is not None and span.is_sampled else None
        with bound(request_id, span), working(tracer) as work:
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
                _log_access(scope, kind, status, seconds, work)
                log_audit(scope, status)
                if span is not None:
                    _end(span, scope, status, {"request_id": request_id, **work.facts})

    def _span(self, scope: Scope, kind: RouteKind) -> RequestSpan | None:
        if self._tracer is None or kind in MACHINES:
            return None
        return self._tracer.request(scope["method"], Headers(scope=scope))


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
def bound(request_id: str, span: RequestSpan | None) -> Iterator[None]:
    """Add the request's ids to every log line inside the block."""
    names = {"request_id": request_id} if span is None else {"request_id": request_id, "trace_id": span.trace_id}
    with structlog.contextvars.bound_contextvars(**names):
        try:
            yield
        finally:
            structlog.contextvars.unbind_contextvars(*LOGGED_NAMES)


def _log_access(scope: Scope, kind: RouteKind, status: int, seconds: float, work: Work) -> None:
    is_training = kind is RouteKind.TRAINING
    if not status:
        write = log.info  # the client disconnected before the answer
    elif status >= 500:
        write = log.error
    elif status >= 400 or (is_training and seconds > SLOW_S):
        write = log.warning
    else:
        write = log.debug if scope["method"] in READS or is_training else log.info
    parts = {f"{name.replace(' ', '_')}_ms": _ms(spent) for name, spent in work.seconds.items()}
    write("request", method=scope["method"], route=template_of(scope), status=status, ms=_ms(seconds), **parts)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)


def _end(span: RequestSpan, scope: Scope, status: int, facts: Mapping[str, Fact]) -> None:
    """End a request's span, with the attributes that are known only now."""
    template = template_of(scope)
    method = scope["method"] if scope["method"] in METHODS else "_OTHER"  # from the semantic conventions
    span.rename(f"{method} {template}" if template else method)
    attributes = {"http.request.method": method, "http.response.status_code": status or CLIENT_LEFT}
    span.tell({**attributes, **facts} if template is None else {**attributes, "http.route": template, **facts})
    span.end(str(status) if status >= 500 else None)
