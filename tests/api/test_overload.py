"""More requests than turns, slow senders, requests that take too long: each refused in time, nothing else harmed."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from bots_service.api import overload
from bots_service.api import requests as pace_module
from bots_service.api.overload import DOWNLOADS_AT_ONCE, DOWNLOADS_WAITING, Admission
from bots_service.api.routing import RouteKind
from tests.api.conftest import ClientInProcess, serving
from tests.api.pools import RUN, make_dataset, require_problem, select, solved

SOON_S = 30.0
REPORT = {"dataset": "guru", "outcomes": [solved(1)]}


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep the database from committing anything, so that reports take for ever."""
    with sqlite3.connect(folder / "bots.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")
    other.close()


def waits_s(answer: httpx.Response) -> int:
    return int(answer.headers["Retry-After"])


def has_waiting(http: ClientInProcess, count: int) -> bool:
    return http.line.waiting == count


async def until(condition: Any) -> None:
    async with asyncio.timeout(SOON_S):
        while not condition():  # noqa: ASYNC110 - nothing tells when a request has its turn
            await asyncio.sleep(0.005)


async def test_who_finds_the_line_full_is_told_when_to_come_again_and_the_others_get_their_turn(tmp_path: Path):
    async with serving(tmp_path, max_concurrent=1, max_waiting=1) as http:
        await make_dataset(http)
        with locked(tmp_path):
            patient = [asyncio.create_task(http.post("/report", json=REPORT)) for _ in range(2)]
            await until(lambda: has_waiting(http, 1))
            refused = await http.post("/select", json={"dataset": "guru", "count": 1})
            problem = require_problem(refused, 503, "overloaded")
            assert "1 requests are in progress and 1 wait" in problem["detail"]
            assert 1 <= waits_s(refused) <= 30
            assert refused.headers["X-Request-Id"]
            assert (await http.get("/livez")).status_code == 200
            assert (await http.get("/readyz")).status_code in (200, 503)
            assert (await http.get(RUN)).status_code == 200
        assert [(await answer).status_code for answer in patient] == [200, 200]
        assert (await select(http, 1))["seq"] == 2


async def test_a_report_that_takes_too_long_is_answered_in_time_and_counts_once(tmp_path: Path):
    async with serving(tmp_path, request_timeout_s=0.3) as http:
        await make_dataset(http)
        with locked(tmp_path):
            answer = await http.post("/report", json=REPORT, headers={"Idempotency-Key": "k"})
            require_problem(answer, 503, "deadline-passed")
            assert waits_s(answer) >= 1
        async with asyncio.timeout(SOON_S):
            while (again := await http.post("/report", json=REPORT, headers={"Idempotency-Key": "k"})).is_error:
                require_problem(again, 503, "deadline-passed")  # the database is busy with the first one
        assert again.json()["seq"] == 1
        assert (await http.get(RUN)).json()["seq"] == 1


async def trickle(pieces: int, pause_s: float) -> AsyncIterator[bytes]:
    for _ in range(pieces):
        yield b" " * 10
        await asyncio.sleep(pause_s)
    yield json.dumps(REPORT).encode()


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("path", ["/report", "/datasets/other"])
async def test_a_body_that_stops_coming_is_refused_and_holds_no_turn(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pace_module, "SILENCE_S", 0.3)
    async with serving(tmp_path, max_concurrent=1, max_waiting=0) as http:
        await make_dataset(http)
        send = http.post if path == "/report" else http.put
        slow = [asyncio.create_task(send(path, content=trickle(1, 60), headers=JSON)) for _ in range(5)]
        await asyncio.sleep(0.1)
        assert (await select(http, 1))["seq"] == 0
        for answer in await asyncio.gather(*slow):
            require_problem(answer, 408, "slow-sender")
            assert answer.headers["Connection"] == "close"


async def test_a_body_that_trickles_is_refused_however_long_it_could_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pace_module, "GRACE_S", 0.5)
    async with serving(tmp_path) as http:
        await make_dataset(http)
        answer = await http.post("/report", content=trickle(10_000, 0.01), headers=JSON)
        require_problem(answer, 408, "slow-sender")
        slow_but_steady = await http.post("/report", content=trickle(10, 0.01), headers=JSON)
        assert slow_but_steady.json()["seq"] == 1


async def test_a_body_that_finds_no_memory_left_is_refused_and_gives_back_what_it_took(monkeypatch: pytest.MonkeyPatch):
    taken: list[bytes] = []
    answered: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["more_body"]:
            taken.append(message["body"])
        taken.append(message["body"])

    monkeypatch.setattr(overload, "BUFFERED_BYTES", 15)
    admission = partial(
        Admission(timeout_s=10.0, concurrent=1, waiting=0), app, RouteKind.TRAINING, ends_with_client=False
    )

    def sender(*pieces: bytes) -> Any:
        messages = [
            {"type": "http.request", "body": piece, "more_body": number < len(pieces)}
            for number, piece in enumerate(pieces, 1)
        ]

        async def receive() -> Any:
            return messages.pop(0)

        return receive

    async def answer(message: Any) -> None:
        answered.append(message)

    scope = {"type": "http", "method": "POST", "path": "/report", "headers": [(b"transfer-encoding", b"chunked")]}
    await admission(scope, sender(b"a" * 10, b"b" * 10), answer)
    assert answered[0]["status"] == 503
    assert taken == [b"a" * 10]
    for _ in range(2):  # each needs all the room there is
        await admission(scope, sender(b"c" * 15), answer)
    assert taken[1:] == [b"c" * 15] * 2


@pytest.mark.parametrize("path", ["/tasks", "/runs/none/export"])
async def test_a_download_that_is_refused_gives_its_turn_back(tmp_path: Path, path: str):
    async with serving(tmp_path) as http:
        await make_dataset(http)
        for _ in range(DOWNLOADS_AT_ONCE + DOWNLOADS_WAITING + 1):
            require_problem(await http.get(f"/datasets/nothing{path}"), 404, "unknown-dataset")
        assert (await http.get(f"{RUN}/export")).is_success


async def test_uploads_wait_for_each_other_and_hold_up_no_training(tmp_path: Path):
    async with serving(tmp_path) as http:
        await make_dataset(http)
        headers = {"Content-Type": "application/x-ndjson"}
        stuck = [
            asyncio.create_task(http.put(f"/datasets/stuck{number}", content=trickle(1, 60), headers=headers))
            for number in range(4)
        ]
        await asyncio.sleep(0.1)
        waiting = asyncio.create_task(http.put("/datasets/late", content=b'{"id": "a"}\n', headers=headers))
        assert (await select(http, 1))["seq"] == 0
        assert not waiting.done()
        for upload in stuck:
            upload.cancel()
        assert (await waiting).status_code == 201
