"""Callers over HTTP/1.1 that cost next to nothing themselves, so that the service is what gets measured."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Ask:
    """One POST. key: its idempotency key; each must be new."""

    path: str
    body: bytes
    key: str


class Caller(asyncio.Protocol):
    """One kept connection, one request at a time; reads answers that state their length."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._transport: asyncio.WriteTransport | None = None
        self._received = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the connection."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Finish the answer once it is whole."""
        self._received += data
        head_end = self._received.find(b"\r\n\r\n")
        if head_end < 0 or self._answer is None:
            return
        head = bytes(self._received[:head_end]).lower()
        body = head_end + 4
        length = int(head.split(b"\r\ncontent-length:", 1)[1].split(b"\r\n", 1)[0])
        if len(self._received) >= body + length:
            answer = int(head[9:12]), bytes(self._received[body : body + length])
            self._received.clear()
            self._answer.set_result(answer)

    def connection_lost(self, error: Exception | None) -> None:
        """Let a request that waits fail."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionError("the service hung up"))

    async def post(self, ask: Ask) -> bytes:
        """Return the body of a 2xx answer.

        Raises:
            RuntimeError: the service answered anything else.
        """
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(
            b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nIdempotency-Key: %s\r\n"
            b"Content-Length: %d\r\n\r\n%s"
            % (ask.path.encode(), self._host.encode(), ask.key.encode(), len(ask.body), ask.body)
        )
        status, body = await self._answer
        if not 200 <= status < 300:
            raise RuntimeError(f"POST {ask.path} answered {status}: {body[:500].decode(errors='replace')}")
        return body

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()


@asynccontextmanager
async def calling(port: int, callers: int) -> AsyncIterator[list[Caller]]:
    """Open so many connections to this machine's service, and close them."""
    loop = asyncio.get_running_loop()
    host = f"127.0.0.1:{port}"
    opened = [(await loop.create_connection(lambda: Caller(host), "127.0.0.1", port))[1] for _ in range(callers)]
    try:
        yield opened
    finally:
        for caller in opened:
            caller.close()


@dataclass(slots=True)
class Tally:
    """What some waves of requests took.

    times_ms: of each request. wall_s: while requests were under way. cpu_s: of this process in that time.
    """

    times_ms: list[float] = field(default_factory=list)
    wall_s: float = 0.0
    cpu_s: float = 0.0


async def send_wave(callers: list[Caller], asks: Iterator[Ask], tally: Tally, *, until: Callable[[], bool]) -> None:
    """Let all callers send requests, each its next as soon as it has its answer, until none are left or it is over."""

    async def call(caller: Caller) -> None:
        for ask in asks:  # one iterator for all
            start = time.perf_counter()
            await caller.post(ask)
            tally.times_ms.append((time.perf_counter() - start) * 1e3)
            if until():
                return

    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*map(call, callers))
    tally.wall_s += time.perf_counter() - wall
    tally.cpu_s += time.process_time() - cpu
