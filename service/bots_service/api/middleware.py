"""What happens around every request: an id, one line in the log, and no failure without a proper answer."""

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
from bots_service.api.security import TOLD, log_act
from bots_service.metrics.process import CLIENT_LEFT, METHODS, RequestMetrics
from bots_service.spans import Fact, Tracer, TraceSpan, Work, working

log = structlog.get_logger("bots_service.access")

# Called a thousand times a second by trainers, and reads for ever by probes, Prometheus and every open page: a line for
# each that went well would cost trainers a tenth, and hide all others.
READS = {"GET", "HEAD"}
SLOW_S = 1.0  # a trainer's GPUs stand still that long; the line tells where the time went
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
        """Give it another name."""
        ...


class RequestTracer(Tracer, Protocol):
    """Makes the spans of requests, and those below them."""

    def request(self, method: str, headers: Mapping[str, str]) -> RequestSpan:
        """Begin the span of a request, in its caller's trace if the headers name one."""
        ...


class RequestScope:
    """Pure ASGI: names the request, measures it, counts it, logs it, and answers 500 where nobody else answered.

    The line in the log names the route's template, never the query or a header.
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
                    raise  # half an answer is out: only breaking the connection tells the client
                response = problem_response(Request(scope), INTERNAL, "an unexpected error; the log has the details")
                await response(scope, receive, send_named)
            finally:
                seconds = time.perf_counter() - started
                self._metrics.answered(scope["method"], template_of(scope), status, seconds)
                _log_access(scope, kind, status, seconds, work)
                log_act(scope, status)
                if span is not None:
                    _end(span, scope, status, {"request_id": request_id, **work.facts})

    def _span(self, scope: Scope, kind: RouteKind) -> RequestSpan | None:
        if self._tracer is None or kind in MACHINES:
            return None
        return self._tracer.request(scope["method"], Headers(scope=scope))


def finish_headers(headers: MutableHeaders, request_id: str) -> None:
    """Put on an answer what every answer carries; what a route said of caching stays.

    Answers are for their callers alone: no proxy and no browser may keep them, or take them for something else.
    """
    headers["X-Request-Id"] = request_id
    headers["X-Content-Type-Options"] = "nosniff"
    headers.setdefault("Cache-Control", "no-store")


def request_id_of(scope: Scope) -> str:
    """Return the request's own id if it has a proper one, else a new one."""
    given = Headers(scope=scope).get("x-request-id", "")
    return given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


def template_of(scope: Scope) -> str | None:
    """Return the template of the route that was taken, None where there is none."""
    template: str | None = getattr(scope.get("route"), "path", None)
    return template


@contextmanager
def bound(request_id: str, span: RequestSpan | None) -> Iterator[None]:
    """Put what names the request on every line that is logged until the end."""
    names = {"request_id": request_id} if span is None else {"request_id": request_id, "trace_id": span.trace_id}
    with structlog.contextvars.bound_contextvars(**names):
        try:
            yield
        finally:
            structlog.contextvars.unbind_contextvars(*TOLD)


def _log_access(scope: Scope, kind: RouteKind, status: int, seconds: float, work: Work) -> None:
    is_training = kind is RouteKind.TRAINING
    if not status:
        write = log.info  # the client went away before it was answered
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
    """End a request's span, with what is known only now."""
    template = template_of(scope)
    method = scope["method"] if scope["method"] in METHODS else "_OTHER"  # the conventions' word
    span.rename(f"{method} {template}" if template else method)
    told = {"http.request.method": method, "http.response.status_code": status or CLIENT_LEFT}
    span.tell({**told, **facts} if template is None else {**told, "http.route": template, **facts})
    span.end(str(status) if status >= 500 else None)
