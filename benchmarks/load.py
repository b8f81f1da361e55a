"""Callers over HTTP/1.1 that cost next to nothing themselves, so that the service is what gets measured."""

import asyncio
import itertools
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


class RefusedError(Exception):
    """The service answered, but did not do what was asked."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One POST. key: its idempotency key; each must be new. run: what it is about."""

    path: str
    body: bytes
    key: str
    run: str


class Connection(asyncio.Protocol):
    """One kept connection, one request at a time; reads answers that state their length."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._transport: asyncio.WriteTransport | None = None
        self._received = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    def connection_made(self, transport: asyncio.WriteTransport) -> None:  # type: ignore[override]  # as uvicorn's
        """Keep the connection."""
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
        self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionError("the service hung up"))

    async def post(self, ask: Ask) -> bytes:
        """Return the body of a 2xx answer.

        Raises:
            RefusedError: the service answered anything else.
            ConnectionError: it hung up.
        """
        if self._transport is None:
            raise ConnectionError("the service hung up")
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(
            b"POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nIdempotency-Key: %s\r\n"
            b"Content-Length: %d\r\n\r\n%s"
            % (ask.path.encode(), self._host.encode(), ask.key.encode(), len(ask.body), ask.body)
        )
        status, body = await self._answer
        if not 200 <= status < 300:
            raise RefusedError(f"POST {ask.path} answered {status}: {body[:500].decode(errors='replace')}")
        return body

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()


class Caller:
    """Sends each request where a balancer would, over a connection kept to each service.

    That is the next service in turn, or, where runs stay, the one that the run's name stands for.
    """

    def __init__(self, connections: Sequence[Connection], *, first: int, runs_stay: bool) -> None:
        self._connections = connections
        self._turns = itertools.count(first)
        self._runs_stay = runs_stay

    async def post(self, ask: Ask) -> bytes:
        """Return the body of a 2xx answer.

        Raises:
            RefusedError: the service answered anything else.
            ConnectionError: it hung up.
        """
        place = zlib.crc32(ask.run.encode()) if self._runs_stay else next(self._turns)
        return await self._connections[place % len(self._connections)].post(ask)

    def close(self) -> None:
        """Hang up."""
        for connection in self._connections:
            connection.close()


@asynccontextmanager
async def calling(ports: Sequence[int], callers: int, *, runs_stay: bool = False) -> AsyncIterator[list[Caller]]:
    """Let so many callers connect to the services on these ports of this machine, and hang up at the end.

    Args:
        ports: of the services.
        callers: how many; each begins with another service than the one before it.
        runs_stay: whether all requests about a run go to one service.
    """
    opened: list[Caller] = []
    try:
        for number in range(callers):
            connections = [await connect(port) for port in ports]
            opened.append(Caller(connections, first=number, runs_stay=runs_stay))
        yield opened
    finally:
        for caller in opened:
            caller.close()


async def connect(port: int) -> Connection:
    """Return a connection to a port of this machine."""
    opened = await asyncio.get_running_loop().create_connection(
        lambda: Connection(f"127.0.0.1:{port}"), "127.0.0.1", port
    )
    return opened[1]


@dataclass(slots=True)
class Tally:
    """What some requests took.

    times_ms: of each request. wall_s: while requests were under way.
    degraded: answers given without a store that the services share.
    """

    times_ms: list[float] = field(default_factory=list)
    wall_s: float = 0.0
    degraded: int = 0

    async def post(self, caller: Caller, ask: Ask) -> bytes:
        """Return the answer to a request that counts."""
        start = time.perf_counter()
        answer = await caller.post(ask)
        self.times_ms.append((time.perf_counter() - start) * 1e3)
        self.degraded += b'"degraded":true' in answer
        return answer

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Count the time that passes."""
        begin = time.perf_counter()
        yield
        self.wall_s += time.perf_counter() - begin


async def send_wave(callers: list[Caller], asks: Iterator[Ask], tally: Tally, *, until: Callable[[], bool]) -> None:
    """Let all callers send requests, each its next as soon as it has its answer, until none are left or it is over."""

    async def call(caller: Caller) -> None:
        for ask in asks:  # one iterator for all
            await tally.post(caller, ask)
            if until():
                return

    async with tally.running():
        await asyncio.gather(*map(call, callers))


async def send_paced(callers: list[Caller], asks: Sequence[Ask], tally: Tally, *, per_second: float) -> list[bytes]:
    """Send so many requests a second, whether or not those before were answered; return the answers in that order.

    A request that finds all callers busy waits, and its wait counts; this process's own lateness does not.
    """
    idle: asyncio.Queue[Caller] = asyncio.Queue()
    for caller in callers:
        idle.put_nowait(caller)

    async def call(ask: Ask) -> bytes:
        start = time.perf_counter()
        caller = await idle.get()
        waited_ms = (time.perf_counter() - start) * 1e3
        answer = await tally.post(caller, ask)
        tally.times_ms[-1] += waited_ms
        idle.put_nowait(caller)
        return answer

    async with tally.running(), asyncio.TaskGroup() as sent:
        begin, answers = time.perf_counter(), list[asyncio.Task[bytes]]()
        for number, ask in enumerate(asks):
            await asyncio.sleep(begin + number / per_second - time.perf_counter())
            answers.append(sent.create_task(call(ask)))
    return [answer.result() for answer in answers]
