"""Traces of requests to a collector, by OpenTelemetry (OTLP over HTTP). Imported only where one is configured."""

import asyncio
import os
import socket
from collections.abc import Mapping
from contextvars import Token
from threading import Thread

import structlog
from opentelemetry import context as contexts
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, format_trace_id, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from bots_service import __version__
from bots_service.spans import Fact

log = structlog.get_logger(__name__)

SEND_S = 5.0  # for one batch with all its retries, in the background; what comes to be too much meanwhile is dropped
FLUSH_S = 2.0  # at the end, for what was not sent yet; a collector that is away must not hold up a restart


class OtlpSpan:
    """A span; and while it is a parent, the one that others go below."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: Span, *, is_parent: bool) -> None:
        self._span = span
        self._token: Token[Context] | None = contexts.attach(set_span_in_context(span)) if is_parent else None

    @property
    def is_sampled(self) -> bool:
        """Whether it will be sent."""
        return self._span.is_recording()

    @property
    def trace_id(self) -> str:
        """The trace's id in hexadecimal, as people look for it."""
        return format_trace_id(self._span.get_span_context().trace_id)

    def rename(self, name: str) -> None:
        """Give it the name that is known only now."""
        self._span.update_name(name)

    def tell(self, facts: Mapping[str, Fact]) -> None:
        """Put facts on it: those of the conventions as they are, ours behind `bots.`."""
        self._span.set_attributes(_named(facts))

    def end(self, error: str | None) -> None:
        """End it. Only the type of an error is recorded: its message may contain user input."""
        if error is not None:
            self._span.set_attribute("error.type", error)
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()
        if self._token is not None:
            contexts.detach(self._token)


class OtlpTracer:
    """Makes spans and sends them from a thread of its own; nobody ever waits for the collector."""

    def __init__(self, endpoint: str, *, share: float) -> None:
        """Start the thread.

        Args:
            endpoint: the collector's URL, without `/v1/traces`.
            share: of the requests that are traced where the caller did not decide, in [0, 1].
        """
        own = {"service.name": "bots", "service.version": __version__, "service.instance.id": _instance()}
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(share)),
            resource=Resource(own).merge(OTELResourceDetector().detect()),  # the operator's OTEL_SERVICE_NAME wins
            shutdown_on_exit=False,  # it would wait for the collector, far longer than FLUSH_S
        )
        exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=SEND_S)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("bots_service", __version__)
        self._propagator = TraceContextTextMapPropagator()

    def request(self, method: str, headers: Mapping[str, str]) -> OtlpSpan:
        """Begin the span of a request, in its caller's trace if the headers name one."""
        # No more of the headers: the library logs a broken tracestate unchanged, also from callers without a key.
        above = self._propagator.extract({"traceparent": headers.get("traceparent", "")}, context=Context())
        return OtlpSpan(self._tracer.start_span(method, above, kind=SpanKind.SERVER), is_parent=True)

    def begin(self, name: str, facts: Mapping[str, Fact], *, is_parent: bool) -> OtlpSpan:
        """Begin a span below the last parent that was begun here and has not ended."""
        return OtlpSpan(self._tracer.start_span(name, attributes=_named(facts)), is_parent=is_parent)

    async def aclose(self) -> None:
        """Send what was not sent yet, for a moment; what is left then is lost."""
        # A thread that the process's end does not wait for: the library's own patience has no bound that can be set.
        last = Thread(target=self._provider.shutdown, name="bots-last-spans", daemon=True)
        last.start()
        await asyncio.to_thread(last.join, FLUSH_S)
        if last.is_alive():
            log.warning("spans_lost", reason=f"the collector did not take them in {FLUSH_S:g} s")


def _named(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    return {name if "." in name else f"bots.{name}": fact for name, fact in facts.items()}


def _instance() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"
