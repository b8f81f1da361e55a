"""Too many callers, floods, and callers that read nothing: others are served as ever, and memory stays bounded."""

import asyncio
import contextlib
import json
import random
import selectors
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import cycle, pairwise
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import psutil
import pytest

from tests.servers import wait_until
from tests.serving import ServiceProcess, running_service
from tests.sizes import SOAK, size

ROUNDS, ROUND_S = size(2, 10), size(1.0, 2.0)  # in turns, few callers and too many: a noisy machine disturbs both alike
ROOM = 16  # half of it working, half in line
GOODPUT = 0.9 if SOAK else 0.6  # of what few callers got done just before and just after
OVERLOAD_BYTES = 64 * 2**20
SOON_S = 30.0
REPORTED = 2000


@dataclass
class Crowd:
    """Callers that report again and again, each on its connection, and wait as long as they are told to."""

    port: int
    done: int = 0
    refused: int = 0
    waits_s: list[int] = field(default_factory=list)
    others: list[bytes] = field(default_factory=list)

    async def done_in(self, callers: int, seconds: float) -> int:
        """Return how many reports were taken; all callers are connected before the first asks, and each asks once."""
        before = self.done
        streams = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", self.port) for _ in range(callers)))
        give_up = time.monotonic() + seconds
        await asyncio.gather(*(self._caller(number, *each, give_up) for number, each in enumerate(streams)))
        return self.done - before

    async def _caller(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, give_up: float
    ) -> None:
        rng, is_first = random.Random(number), True
        while is_first or time.monotonic() < give_up:
            is_first = False
            outcomes = [{"task": f"t{task}", "successes": 3, "trials": 8} for task in rng.sample(range(REPORTED), 64)]
            body = json.dumps({"dataset": "pool", "run": f"run{number % 4}", "outcomes": outcomes}).encode()
            head = (
                b"POST /report HTTP/1.1\r\nHost: bots\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            )
            writer.write(head % len(body) + body)
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(answer.split(b"content-length: ", 1)[1].split(b"\r\n", 1)[0])
            await reader.readexactly(length)
            if answer.startswith(b"http/1.1 200"):
                self.done += 1
            elif answer.startswith(b"http/1.1 503"):
                self.refused += 1
                self.waits_s.append(int(answer.split(b"retry-after: ", 1)[1].split(b"\r\n", 1)[0]))
                await asyncio.sleep(min(self.waits_s[-1] * rng.uniform(1.0, 1.2), give_up - time.monotonic()))
            else:
                self.others.append(answer)
        writer.close()
        await writer.wait_closed()


async def probe(url: str, until: asyncio.Event) -> list[float]:
    """Return how long /livez took, asked again and again."""
    took_s = []
    async with httpx.AsyncClient() as http:
        while not until.is_set():
            start = time.monotonic()
            assert (await http.get(f"{url}/livez", timeout=SOON_S)).status_code == 200
            took_s.append(time.monotonic() - start)
            await asyncio.sleep(0.1)
    return took_s


async def overload(service: ServiceProcess) -> tuple[Crowd, Crowd, list[float], list[float]]:
    """Return what few callers met, what too many did, the ratio of what each round got done, and /livez's times."""
    few, many, over = Crowd(service.port), Crowd(service.port), asyncio.Event()
    probing = asyncio.create_task(probe(service.url, over))
    peaks, goodputs = [await few.done_in(ROOM, ROUND_S)], []
    for _ in range(ROUNDS):
        goodputs.append(await many.done_in(5 * ROOM, ROUND_S))
        peaks.append(await few.done_in(ROOM, ROUND_S))
    over.set()
    ratios = [done / statistics.mean(around) for done, around in zip(goodputs, pairwise(peaks), strict=True)]
    return few, many, ratios, await probing


def test_five_times_too_many_callers_slow_nothing_down(tmp_path: Path):
    room = {"max_concurrent": str(ROOM // 2), "max_waiting": str(ROOM // 2)}
    with running_service(tmp_path, log_level="error", **room) as service:
        tasks = [{"id": f"t{task}"} for task in range(REPORTED)]
        httpx.put(f"{service.url}/datasets/pool", json={"tasks": tasks}, timeout=SOON_S).raise_for_status()
        for run in range(4):
            httpx.put(f"{service.url}/datasets/pool/runs/run{run}", json={}, timeout=SOON_S).raise_for_status()
        asyncio.run(Crowd(service.port).done_in(ROOM, 1))
        before = memory_bytes(service)
        few, many, ratios, alive_s = asyncio.run(overload(service))
        grown = memory_bytes(service) - before
        after = Crowd(service.port)
        start = time.monotonic()
        asyncio.run(after.done_in(ROOM // 2, 1))
        recovered_s = time.monotonic() - start

    assert few.refused == 0
    assert many.refused > 5 * ROOM // 2
    assert few.others == many.others == after.others == []
    assert {1 <= wait_s <= 30 for wait_s in many.waits_s} == {True}
    # Short rounds are at the mercy of what else the machine does: one that was left in peace shows it.
    assert (statistics.median(ratios) if SOAK else max(ratios)) >= GOODPUT, ratios
    assert statistics.median(alive_s) < 1.0
    assert grown < OVERLOAD_BYTES
    assert (after.refused, recovered_s < 5.0) == (0, True)


SECONDS = size(2.0, 60.0)
CONNECTIONS = 300
GROWTH_BYTES = 300 * 2**20
ANSWERS_S = 1.0 if SOAK else 3.0  # in a short form, what else the machine does counts for more
KEY = "k" * 16

PIECE = 2**18
BEGIN = b"GET /version HTTP/1.1\r\nHost: bots\r\n"
CHUNKED = b"GET /livez HTTP/1.1\r\nHost: bots\r\nTransfer-Encoding: chunked\r\n\r\n"
FLOODS = {  # what a connection begins with, and what it sends from then on
    "small headers": (BEGIN, b"a:b\r\n"),
    "large headers": (BEGIN, b"a: " + b"b" * 1000 + b"\r\n"),
    "a header without an end": (BEGIN + b"a: ", b"b"),
    "a request line without an end": (b"GET /", b"b"),
    "lines before a request": (b"\r\n", b"\r\n"),
    "trailers": (CHUNKED + b"0\r\n", b"a: b\r\n"),
    "a trailer without an end": (CHUNKED + b"0\r\na: ", b"b"),
    "a chunk's extension": (CHUNKED + b"1", b";a=b"),
    "bodies of refused requests": (b"POST /report HTTP/1.1\r\nHost: bots\r\nContent-Length: 99999999999\r\n\r\n", b"b"),
    "pages that nobody reads": (BEGIN + b"\r\n", b"GET / HTTP/1.1\r\nHost: bots\r\n\r\n"),
    "refusals that nobody reads": (BEGIN + b"\r\n", BEGIN + b"\r\n"),
}


class Flood:
    """Connections that send as fast as they can, and read nothing; one that is cut is opened again."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._selector = selectors.DefaultSelector()
        for name, _ in zip(cycle(FLOODS), range(CONNECTIONS), strict=False):
            self._open(name)

    def _open(self, name: str) -> None:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setblocking(False)
        connection.connect_ex(("127.0.0.1", self._port))
        begin, again = FLOODS[name]
        self._selector.register(connection, selectors.EVENT_WRITE, (name, begin + again * (PIECE // len(again))))

    def send(self) -> None:
        for key, _ in self._selector.select(0.1):
            name, piece = key.data
            connection: Any = key.fileobj
            try:
                count = connection.send(piece)
            except BlockingIOError:
                continue
            except OSError:
                self._selector.unregister(connection)
                connection.close()
                self._open(name)
                continue
            again = FLOODS[name][1]
            rest = piece[count:] + again * (count // len(again))  # goes on where it was interrupted
            self._selector.modify(connection, selectors.EVENT_WRITE, (name, rest))

    def close(self) -> None:
        for key in list(self._selector.get_map().values()):
            connection: Any = key.fileobj
            connection.close()
        self._selector.close()


@contextmanager
def flooding(port: int) -> Iterator[None]:
    """Flood a port while the block runs."""
    flood, over = Flood(port), Event()

    def send() -> None:
        while not over.is_set():
            flood.send()

    sending = Thread(target=send)
    sending.start()
    try:
        yield
    finally:
        over.set()
        sending.join()
        flood.close()


def memory_bytes(service: ServiceProcess) -> int:
    return psutil.Process(service.process.pid).memory_info().rss


def watched(service: ServiceProcess, before: int, ask: Callable[[], httpx.Response]) -> tuple[int, float, set[int]]:
    """Ask again and again; return how much the service's memory grew at most, the slowest answer, and all statuses."""
    grown, slowest_s, statuses, give_up = 0, 0.0, set(), time.monotonic() + SECONDS
    while time.monotonic() < give_up and grown < GROWTH_BYTES:
        began = time.monotonic()
        with contextlib.suppress(httpx.TimeoutException):
            statuses.add(ask().status_code)
        slowest_s = max(slowest_s, time.monotonic() - began)
        grown = max(grown, memory_bytes(service) - before)
        time.sleep(0.05)
    return grown, slowest_s, statuses


def test_floods_without_a_key_take_little_memory_and_leave_the_service_answering(tmp_path: Path):
    with running_service(tmp_path, admin_key=KEY, log_level="error") as service, httpx.Client(timeout=SOON_S) as http:
        http.get(f"{service.url}/").raise_for_status()
        before = memory_bytes(service)
        with flooding(service.port):
            grown, slowest_s, statuses = watched(service, before, lambda: http.get(f"{service.url}/livez"))
    assert statuses == {200}
    assert grown < GROWTH_BYTES
    assert slowest_s < ANSWERS_S


TASKS = size(30_000, 60_000)
RUN = "/datasets/pool/runs/default/tasks"
WHOLE = ("/datasets/pool/tasks", "*/*")
PAGE = (f"{RUN}?sort=-effective&limit=1000", "*/*")


def asked(port: int, path: str, accept: str) -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", port))
    head = f"GET {path} HTTP/1.1\r\nHost: bots\r\nAccept: {accept}\r\nAuthorization: Bearer {KEY}\r\n\r\n"
    connection.sendall(head.encode())
    connection.setblocking(False)
    return connection


def take_statuses(readers: list[socket.socket], answers: list[int]) -> list[int]:
    """Add the statuses of the answers that have begun, and keep the connections that still wait for theirs."""
    for reader in list(readers):
        with contextlib.suppress(BlockingIOError):
            answers.append(int(reader.recv(12).split()[1]))
            readers.remove(reader)
    return answers


def fill(http: httpx.Client) -> None:
    """Make a large pool with evidence about each task, and another from which a draw takes a thread."""
    tasks = [{"id": f"t{task}", "reference_pass_rates": [task / TASKS]} for task in range(TASKS)]
    for dataset in ("pool", "other"):
        body = {"reference_models": ["model"], "tasks": tasks}
        http.put(f"/datasets/{dataset}", json=body).raise_for_status()
    http.put("/datasets/other/runs/default", json={"strategy": "thompson"}).raise_for_status()
    outcomes = [{"task": f"t{task}", "successes": task % 9, "trials": 8} for task in range(TASKS)]
    http.post("/report", json={"dataset": "pool", "outcomes": outcomes}).raise_for_status()


@pytest.mark.parametrize("asking", [WHOLE, PAGE], ids=["whole", "pages"])
def test_answers_that_nobody_reads_take_little_memory_and_hold_up_no_select(tmp_path: Path, asking: tuple[str, str]):
    keyed = {"Authorization": f"Bearer {KEY}"}
    with ExitStack() as stack:
        service = stack.enter_context(running_service(tmp_path, admin_key=KEY, log_level="error"))
        http = stack.enter_context(httpx.Client(headers=keyed, timeout=SOON_S, base_url=service.url))
        fill(http)
        select = {"dataset": "other", "count": 32}
        http.post("/select", json=select).raise_for_status()
        before = memory_bytes(service)
        readers = [stack.enter_context(asked(service.port, *asking)) for _ in range(CONNECTIONS)]
        grown, slowest_s, statuses = watched(service, before, lambda: http.post("/select", json=select))
        answers = take_statuses(readers, [])
        if asking is WHOLE:
            wait_until(lambda: take_statuses(readers, answers).count(503) > CONNECTIONS / 2)
        service.kill()  # it would answer what it was asked first
    assert statuses == {200}
    assert grown < GROWTH_BYTES
    assert slowest_s < ANSWERS_S
    assert answers.count(200) > 4 or not SOAK  # the first were cut, and others had their turn
