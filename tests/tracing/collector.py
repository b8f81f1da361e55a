"""A collector of spans (OTLP over HTTP), and one that takes them and never answers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

LET_GO_S = 240.0  # a hanging collector lets its connections go at last, so that no test waits for ever


@dataclass(frozen=True)
class Told:
    """One span as it came. facts: its attributes. of: those of the process that sent it."""

    name: str
    trace: str
    id: str
    parent: str
    is_server: bool
    is_error: bool
    began: int
    ended: int
    facts: dict[str, Any]
    of: dict[str, Any]


@dataclass
class Collector:
    """What came so far. hears: set once something came. free: while it is not set, nobody is answered."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    hears: threading.Event = field(default_factory=threading.Event)
    free: threading.Event = field(default_factory=threading.Event)

    @property
    def spans(self) -> list[Told]:
        """All spans."""
        return [span for body in self.bodies for span in told(body)]

    def requests(self) -> list[Told]:
        """The spans of requests."""
        return [span for span in self.spans if span.is_server]

    def named(self, name: str) -> Told:
        """The one span of that name."""
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def below(self, parent: Told) -> dict[str, Any]:
        """What is below a span: names with what is below those; of several with one name the first."""
        children = sorted((span for span in self.spans if span.parent == parent.id), key=lambda span: span.began)
        return {span.name: self.below(span) for span in reversed(children)}


def told(body: bytes) -> Iterator[Told]:
    """Yield the spans of one request to the collector."""
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        of = {one.key: one.value.string_value for one in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                facts = {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}
                yield Told(
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.kind == Span.SPAN_KIND_SERVER,
                    span.status.code != 0,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    facts,
                    of,
                )


@contextmanager
def collecting(*, hangs: bool = False) -> Iterator[Collector]:
    """Run a collector."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf")
            collector.bodies.append(body)
            collector.hears.set()
            collector.free.wait(LET_GO_S)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_request(self, code: object = None, size: object = None) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Say nothing of a client that went away."""

    if not hangs:
        collector.free.set()
    with Server(("127.0.0.1", 0), Handler) as server:
        collector.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield collector
        collector.free.set()
        server.shutdown()
        thread.join()
