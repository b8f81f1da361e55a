"""A write under a key happens once, however often and from however many sides it is sent."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.api.conftest import serving
from tests.api.pools import MODELS, RUN, make_dataset, report, require_problem, solved, standing, tasks
from tests.serving import running_service


@dataclass(frozen=True)
class Write:
    """A write, and the same address with another body (None where the route reads none)."""

    method: str
    path: str
    body: dict[str, Any] | None = None
    other: dict[str, Any] | None = None
    statuses: set[int] = field(default_factory=lambda: {200})

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


NEW = {"reference_models": MODELS, "tasks": tasks(3)}
WRITES = [
    Write("PUT", "/datasets/new", NEW, {**NEW, "description": "other"}, {200, 201}),
    Write("POST", "/datasets/guru/tasks", {"tasks": tasks(3, 20)}, {"tasks": tasks(3, 23)}),
    Write("DELETE", "/datasets/guru/tasks", {"ids": ["task-1"]}, {"ids": ["task-2"]}),
    Write("PUT", "/datasets/guru/runs/new", {"seed": 1}, {"seed": 2}, {201}),
    Write(
        "PUT", "/datasets/guru/runs/fork", {"fork": {"run": "default"}}, {"fork": {"run": "default", "step": 1}}, {201}
    ),
    Write("PATCH", RUN, {"target": 0.25}, {"target": 0.75}),
    Write("POST", f"{RUN}/rewind", {"step": 1}, {"step": 0}),
    Write("POST", f"{RUN}/snapshots", statuses={201}),
    Write("POST", "/select", {"dataset": "guru", "count": 4}, {"dataset": "guru", "count": 5}),
    Write(
        "POST", "/report", {"dataset": "guru", "outcomes": [solved(3)]}, {"dataset": "guru", "outcomes": [solved(4)]}
    ),
    Write("DELETE", RUN, statuses={204}),
    Write("DELETE", "/datasets/guru", statuses={204}),
]


async def prepare(http: httpx.AsyncClient) -> None:
    await make_dataset(http)
    await report(http, solved(1), solved(2))
    await report(http, solved(5), solved(6))


async def send(http: httpx.AsyncClient, write: Write, body: Any, key: str = "k-1") -> httpx.Response:
    return await http.request(write.method, write.path, json=body, headers={"Idempotency-Key": key})


def without_flag(answer: httpx.Response) -> Any:
    if not answer.content:
        return None
    return {name: value for name, value in answer.json().items() if name != "duplicate"}


@pytest.mark.parametrize("write", WRITES, ids=str)
async def test_a_retry_gets_the_first_answer_and_changes_nothing(http, write):
    await prepare(http)
    first = await send(http, write, write.body)
    assert first.status_code in write.statuses, first.text
    assert "Idempotent-Replayed" not in first.headers
    after = await standing(http)
    for _ in range(4):
        again = await send(http, write, write.body)
        assert again.status_code == first.status_code
        assert again.headers["Idempotent-Replayed"] == "true"
        assert without_flag(again) == without_flag(first)
    assert await standing(http) == after
    if write.other is not None:
        require_problem(await send(http, write, write.other), 422, "key-reused")
        assert await standing(http) == after


@pytest.mark.parametrize("write", WRITES, ids=str)
async def test_eight_callers_at_once_count_as_one(tmp_path, write):
    async with serving(tmp_path / "once") as once, serving(tmp_path / "often") as often:
        for http in (once, often):
            await prepare(http)
        alone = await send(once, write, write.body)
        answers = await asyncio.gather(*(send(often, write, write.body) for _ in range(8)))
        assert {answer.status_code for answer in answers} <= write.statuses
        assert alone.status_code in write.statuses
        assert without_times(await standing(often)) == without_times(await standing(once))


def without_times(node: Any) -> Any:
    if isinstance(node, dict):
        return {name: without_times(value) for name, value in node.items() if name not in ("created_at", "time")}
    return [without_times(item) for item in node] if isinstance(node, list) else node


async def test_a_key_is_good_for_one_address_only(http):
    await make_dataset(http)
    for name in ("one", "two"):
        answer = await http.put(f"/datasets/guru/runs/{name}", json={"seed": 3}, headers={"Idempotency-Key": "same"})
        assert answer.status_code == 201
    for run in ("one", "two"):
        body = {"dataset": "guru", "run": run, "outcomes": [solved(1)]}
        answer = await http.post("/report", json=body, headers={"Idempotency-Key": "same"})
        assert answer.json()["duplicate"] is False


async def test_a_key_works_again_after_a_refusal(http):
    await make_dataset(http)
    refused = {"dataset": "guru", "outcomes": [solved(1, 9, 8)]}
    for _ in range(2):
        answer = await http.post("/report", json=refused, headers={"Idempotency-Key": "k"})
        require_problem(answer, 422, "invalid-outcomes")
    answer = await http.post(
        "/report", json={"dataset": "guru", "outcomes": [solved(1)]}, headers={"Idempotency-Key": "k"}
    )
    assert (answer.status_code, answer.json()["duplicate"]) == (200, False)


async def test_the_fingerprint_covers_what_is_streamed(http):
    lines = b"".join(b'{"id": "t%d"}\n' % number for number in range(2000))
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": "k"}

    async def pieces(text: bytes, size: int):
        for start in range(0, len(text), size):
            yield text[start : start + size]

    first = await http.put("/datasets/big", content=pieces(lines, 1000), headers=headers)
    again = await http.put("/datasets/big", content=pieces(lines, 777), headers=headers)
    assert (again.status_code, again.json()) == (201, first.json())
    assert again.headers["Idempotent-Replayed"] == "true"
    require_problem(await http.put("/datasets/big", content=lines + b"\n", headers=headers), 422, "key-reused")


async def test_answers_outlive_the_process(tmp_path):
    writes = [
        write for write in WRITES if write.method == "PUT" or "snapshots" in write.path or write.path == "/report"
    ]
    async with serving(tmp_path) as http:
        await prepare(http)
        first = [await send(http, write, write.body, str(write)) for write in writes]
    async with serving(tmp_path) as http:
        again = [await send(http, write, write.body, str(write)) for write in writes]
    assert list(map(without_flag, again)) == list(map(without_flag, first))
    assert {answer.headers["Idempotent-Replayed"] for answer in again} == {"true"}


def test_reports_from_eight_threads_count_once_each(tmp_path):
    steps = 12
    with running_service(tmp_path) as service, httpx.Client(base_url=service.url, timeout=60) as http:
        http.put("/datasets/guru", json=NEW | {"tasks": tasks(20)}).raise_for_status()

        def deliver(job: int) -> bool:
            step, repeat = job % steps, 1 + job % 5
            body = {"dataset": "guru", "outcomes": [solved(step)]}
            headers = {"Idempotency-Key": f"step-{step}"}
            answers = [http.post("/report", json=body, headers=headers) for _ in range(repeat)]
            assert {answer.status_code for answer in answers} == {200}
            return any(not answer.json()["duplicate"] for answer in answers)

        with ThreadPoolExecutor(8) as threads:
            counted = list(threads.map(deliver, range(steps * 4)))
        assert sum(counted) == steps
        run = http.get(RUN).json()
        assert (run["seq"], run["totals"]["reported"]) == (steps, steps)
