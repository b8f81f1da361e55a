"""A write under a key happens once, and each retry is answered as at first, whatever happened meanwhile."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.conftest import serving
from tests.api.pools import MODELS, RUN, make_dataset, report, require_problem, solved, standing, tasks

Sent = tuple[str, str, dict[str, Any] | None]  # method, path, body

POOL = {"reference_models": MODELS, "tasks": tasks(8)}
REWARDS = {"dataset": "guru", "outcomes": [{"task": "task-3", "rewards": [0, 10, 4, 6]}]}
OPEN = {"dataset": "guru", "outcomes": [solved(4)], "close_step": False}
WRITES: list[Sent] = [
    ("PUT", "/datasets/new", POOL),
    ("PUT", "/datasets/standing", POOL),  # found as it is: 200
    ("POST", "/datasets/guru/tasks", {"tasks": tasks(3, 20)}),
    ("DELETE", "/datasets/guru/tasks", {"ids": ["task-1"]}),
    ("PUT", "/datasets/guru/runs/new", {"seed": 1}),
    ("PUT", "/datasets/guru/runs/fork", {"fork": {"run": "default", "step": 2}}),
    ("PUT", "/datasets/standing/runs/default", {}),  # found as it is: 200
    ("PUT", "/datasets/standing/runs/reported", {"seed": 7}),  # found as it is, with a history: 200
    ("POST", "/report", REWARDS),
    ("POST", "/report", OPEN),
    ("PATCH", RUN, {"target": 0.25}),
    ("POST", f"{RUN}/rewind", {"step": 2}),
    ("PUT", f"{RUN}/probe", {"values": {"task-1": 0.5, "task-2": 2.0}}),
    ("POST", f"{RUN}/evaluations", {"values": {"heldout/accuracy": 0.5}}),
    ("POST", f"{RUN}/finish", None),
    ("DELETE", "/datasets/guru/runs/old", None),
    ("DELETE", "/datasets/gone", None),
    ("POST", "/keys", {"name": "trainer", "scopes": ["select", "report"], "datasets": ["*"]}),
]

SELECT: Sent = ("POST", "/select", {"dataset": "guru", "count": 4, "exclude": ["task-9"]})


@pytest.fixture(params=["sqlite", "postgresql"])
async def http(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an empty service on each product, that the operator's key guards."""
    settings = {"database_url": request.getfixturevalue("postgres_url")} if request.param == "postgresql" else {}
    async with serving(tmp_path, admin_key="the-operators-own-key", **settings) as client:
        client.headers["Authorization"] = "Bearer the-operators-own-key"
        yield client


async def prepare(http: httpx.AsyncClient) -> None:
    """A run at step 2 whose rewards lie in [0, 10]; and what the writes find, or delete."""
    await make_dataset(http)
    (await http.patch(RUN, json={"reward_range": [0, 10]})).raise_for_status()
    for step in (1, 2):
        await report(http, solved(step), solved(step + 10))
    for name in ("standing", "gone"):
        (await http.put(f"/datasets/{name}", json=POOL)).raise_for_status()
    (await http.put("/datasets/standing/runs/reported", json={"seed": 7})).raise_for_status()
    await report(http, solved(1), dataset="standing", run="reported")
    (await http.post("/select", json={"dataset": "standing", "count": 2})).raise_for_status()  # in flight
    (await http.put("/datasets/guru/runs/old", json={})).raise_for_status()


async def everything_changes(http: httpx.AsyncClient) -> None:
    """Settings, tasks, steps, epoch and names: after this, no write would be answered as it was."""
    changes: list[Sent] = [
        ("PATCH", RUN, {"reward_range": [0, 1], "target": 0.75, "tasks_per_step": 3}),
        ("DELETE", "/datasets/guru/tasks", {"ids": ["task-3", "task-4", "task-9"]}),
        ("POST", "/datasets/guru/tasks", {"tasks": tasks(5, 30)}),
        ("POST", "/report", {"dataset": "guru", "outcomes": [solved(5)], "close_step": True}),
        ("POST", "/datasets/standing/tasks", {"tasks": tasks(2, 8)}),
        ("PATCH", "/datasets/standing/runs/default", {"seed": 5}),
        ("PATCH", "/datasets/standing/runs/reported", {"seed": 5}),
        ("PATCH", "/datasets/guru/runs/new", {"seed": 5}),
        ("PATCH", "/datasets/guru/runs/fork", {"seed": 5}),
        ("DELETE", "/datasets/new", None),
        ("PUT", "/datasets/gone", POOL),
        ("PUT", "/datasets/guru/runs/old", {"seed": 3}),
    ]
    for method, path, body in changes:
        (await http.request(method, path, json=body)).raise_for_status()


async def send(http: httpx.AsyncClient, sent: Sent, key: str, *, more: str = "") -> httpx.Response:
    method, path, body = sent
    content = None if body is None else json.dumps(body) + more
    headers = {"Idempotency-Key": key} | ({} if body is None else {"Content-Type": "application/json"})
    return await http.request(method, path, content=content, headers=headers)


def shown(answer: httpx.Response) -> tuple[int, Any]:
    """Status and body, but for what says that this is a retry, and a new key's secret, which is told once."""
    body = answer.json() if answer.content else {}
    return answer.status_code, {name: value for name, value in body.items() if name not in ("duplicate", "key")}


CHANGES = [("PATCH", RUN), ("POST", f"{RUN}/rewind"), ("PUT", f"{RUN}/probe")]


async def require_first_answers(http: httpx.AsyncClient, first: dict[str, tuple[Sent, httpx.Response]]) -> None:
    before = await standing(http)
    again = {key: await send(http, sent, key) for key, (sent, _) in first.items()}
    assert {answer.headers.get("Idempotent-Replayed") for answer in again.values()} == {"true"}
    # A change that is in the journal is told the run as it stands now.
    kept = {key: at for key, (sent, at) in first.items() if sent[:2] not in CHANGES}
    assert {key: shown(again[key]) for key in kept} == {key: shown(at) for key, at in kept.items()}
    for key, at in kept.items():
        if not at.content or at.json().keys().isdisjoint(("duplicate", "key")):
            assert again[key].content == at.content
    for key, (sent, _) in first.items():
        if sent[2] is not None:
            require_problem(await send(http, sent, key, more=" "), 422, "key-reused")
    assert await standing(http) == before


async def test_a_retry_is_answered_as_at_first_whatever_happened_between(http):
    await prepare(http)
    first = {f"{sent[:2]} {number}": sent for number, sent in enumerate([*WRITES, SELECT])}
    answered = {key: (sent, await send(http, sent, key)) for key, sent in first.items()}
    assert all(answer.is_success for _, answer in answered.values()), [answer.text for _, answer in answered.values()]
    assert {answer.headers.get("Idempotent-Replayed") for _, answer in answered.values()} == {None}
    assert {
        answer.json()["leased"] for sent, answer in answered.values() if sent[1].endswith("standing/runs/default")
    } == {2}
    await everything_changes(http)
    await require_first_answers(http, answered)
    (await http.post(f"{RUN}/rewind", json={"step": 0})).raise_for_status()  # the step that was rewound to is gone
    select, chosen = answered.popitem()
    await require_first_answers(http, answered)
    # A selection from before a rewind would only be refused when it is reported.
    assert (await send(http, SELECT, select)).json()["epoch"] == chosen[1].json()["epoch"] + 1


@pytest.mark.parametrize("sent", [*WRITES[:-1], SELECT], ids=lambda sent: f"{sent[0]} {sent[1]}")
async def test_eight_callers_at_once_count_as_one(tmp_path, sent):
    async with serving(tmp_path / "once") as once, serving(tmp_path / "often") as often:
        for http in (once, often):
            await prepare(http)
        assert (await send(once, sent, "k")).is_success
        answers = await asyncio.gather(*(send(often, sent, "k") for _ in range(8)))
        assert all(answer.is_success for answer in answers)
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
