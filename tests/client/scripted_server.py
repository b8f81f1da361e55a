"""A server on a real socket that does as it is told: answer, drop, cut short, trickle, stay silent."""

import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

Act = Callable[["ScriptedServer", socket.socket], None]

POLL_S = 0.02
TRICKLE_S = 0.05


@dataclass(frozen=True)
class Received:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def key(self):
        return self.headers.get("idempotency-key")

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def content(self):
        """What the body says: a list of NDJSON's lines, otherwise JSON; None without a body."""
        if self.headers.get("content-type") == "application/x-ndjson":
            return [json.loads(line) for line in self.body.splitlines()]
        return self.json if self.body else None


class ScriptedServer:
    """Answers the n-th request with the n-th act, and all later ones with the last; one request a connection."""

    def __init__(self, *acts: Act, port: int = 0) -> None:
        self.received: list[Received] = []
        self.stopping = threading.Event()
        self.acts = acts
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", port))
        self._listener.settimeout(POLL_S)
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def port(self) -> int:
        return self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self.stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(5)
            try:
                request = read_request(connection)
                with self._lock:
                    act = self.acts[min(len(self.received), len(self.acts) - 1)]
                    self.received.append(request)
                act(self, connection)
            except (OSError, ValueError):
                return  # the client went away, as some tests want


def read_request(connection: socket.socket) -> Received:
    with connection.makefile("rb") as stream:
        method, target, _ = stream.readline().decode().split(" ")
        headers = {}
        while line := stream.readline().decode().strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        if headers.get("transfer-encoding") == "chunked":
            body = b"".join(iter(lambda: read_chunk(stream), b""))
        else:
            length = int(headers.get("content-length", 0))
            body = stream.read(length)
            if len(body) < length:
                raise ValueError("the client left in the middle of its request")
    return Received(method, target, headers, body)


def read_chunk(stream) -> bytes:
    chunk = stream.read(int(stream.readline(), 16))
    stream.readline()
    return chunk


def head(status: int, length: int | None, headers: dict[str, str] | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", "Connection: close"]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def answer(content: object = None, status: int = 200, headers: dict[str, str] | None = None) -> Act:
    """Answer with JSON, or with bytes as they are."""
    body = content if isinstance(content, bytes) else b"" if content is None else json.dumps(content).encode()
    return lambda _, connection: connection.sendall(head(status, len(body), headers) + body)


def problem(status: int, name: str = "some-problem", headers: dict[str, str] | None = None, **more: object) -> Act:
    content = {"type": f"urn:bots:problem:{name}", "title": "Some problem", "status": status, "detail": "why", **more}
    return answer(content, status, {"Content-Type": "application/problem+json", **(headers or {})})


def drop(server: ScriptedServer, connection: socket.socket) -> None:
    """Close without a word: whether the request was applied, the client cannot know."""


def cut_short(content: bytes, *, missing: int = 10) -> Act:
    """Promise more bytes than come."""
    return lambda _, connection: connection.sendall(head(200, len(content) + missing) + content)


def stay_silent(server: ScriptedServer, connection: socket.socket) -> None:
    server.stopping.wait()


def pour(poured: list[int], status: int = 200) -> Act:
    """Answer without end, as fast as the client reads, and note how many bytes went out."""

    def act(server: ScriptedServer, connection: socket.socket) -> None:
        connection.sendall(head(status, None))
        while not server.stopping.is_set():
            poured.append(connection.send(bytes(2**20)))

    return act


def trickle(server: ScriptedServer, connection: socket.socket) -> None:
    """Send a byte now and then, so that no single read ever times out."""
    connection.sendall(head(200, 1_000_000))
    while not server.stopping.wait(TRICKLE_S):
        connection.sendall(b" ")
