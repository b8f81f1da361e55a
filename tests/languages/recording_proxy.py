"""An HTTP proxy on loopback that keeps every exchange that passes through it."""

import contextlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

PASSED_ON = ("Authorization", "Content-Type", "Idempotency-Key")
PASSED_BACK = ("Content-Type", "Retry-After")


@dataclass(frozen=True)
class Exchange:
    """A request with its answer. asked_s, answered_s: when each was passed on, on the monotonic clock."""

    method: str
    path: str
    key: str | None
    body: Any
    status: int
    answer: Any
    retry_after_s: int
    asked_s: float
    answered_s: float


class RecordingProxy:
    """Passes requests on to a service.

    on_exchange: called after each exchange with their number so far, before the answer is passed back; an OSError
        that it raises cuts the connection instead.
    """

    def __init__(self, url: str, *, on_exchange: Callable[[int], object] = lambda _: None) -> None:
        self.exchanges: list[Exchange] = []
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else each answer waits 40 ms for the caller to acknowledge its headers

            def handle(self) -> None:
                with contextlib.suppress(ConnectionError):  # the caller was killed
                    super().handle()

            def pass_on(self) -> None:
                recorder.pass_on(self)

            do_GET = do_PUT = do_POST = pass_on  # noqa: N815 - the names that the base class looks for

            def log_message(self, *_: object) -> None:
                pass

        self._on_exchange = on_exchange
        self._client = httpx.Client(base_url=url, trust_env=False, timeout=30)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.02])
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exc):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._client.close()

    def pass_on(self, caller: BaseHTTPRequestHandler) -> None:
        asked_s = time.monotonic()
        body = _body_of(caller)
        headers = {name: caller.headers[name] for name in PASSED_ON if name in caller.headers}
        reply = self._client.request(caller.command, caller.path, content=body, headers=headers)
        exchange = Exchange(
            method=caller.command,
            path=caller.path,
            key=caller.headers["Idempotency-Key"],
            body=json.loads(body) if caller.headers["Content-Type"] == "application/json" else body or None,
            status=reply.status_code,
            answer=reply.json(),
            retry_after_s=int(reply.headers.get("Retry-After", 0)),
            asked_s=asked_s,
            answered_s=time.monotonic(),
        )
        self.exchanges.append(exchange)
        try:
            self._on_exchange(len(self.exchanges))
            caller.send_response(reply.status_code)
            for name in PASSED_BACK:
                if name in reply.headers:
                    caller.send_header(name, reply.headers[name])
            caller.send_header("Content-Length", str(len(reply.content)))
            caller.end_headers()
            caller.wfile.write(reply.content)
        except OSError:  # the caller was killed, or the way to it was cut
            caller.close_connection = True


def _body_of(caller: BaseHTTPRequestHandler) -> bytes:
    if caller.headers["Transfer-Encoding"] != "chunked":
        return caller.rfile.read(int(caller.headers.get("Content-Length", 0)))
    body = b""
    while length := int(caller.rfile.readline(), 16):
        body += caller.rfile.read(length)
        caller.rfile.readline()
    caller.rfile.readline()
    return body
