"""What rollouts cost is said once, in a report; every answer goes by that, and says how many rollouts it covers."""

import csv
import io
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.api.conftest import serving
from tests.api.pools import RUN, make_dataset, report, require_problem, solved
from tests.api.test_backups import BACKUP
from tests.api.test_monitoring import OF_RUN, value

FIRST = [
    solved(0) | {"tokens": 16_000, "seconds": 8.5},  # code, effective
    solved(1, 0) | {"tokens": 8_000},  # math, not effective
    solved(2, 4, 8),  # math, effective; nobody says what it cost
]
SECOND = [
    {"task": "task-1", "rewards": [0, 1, 0, 0], "tokens": 2_000},  # math, effective
    {"task": "task-3", "status": "aborted", "tokens": 500},  # code
]


def cost(spent: float, rollouts: float, effective: int) -> dict[str, Any]:
    each = [spent / count if count else None for count in (rollouts, effective)]
    sums = {"spent": spent, "rollouts": rollouts, "effective": effective}
    return sums | {"per_rollout": each[0], "per_effective": each[1]}


STEPS = [(cost(24_000, 32, 1), cost(8.5, 16, 1)), (cost(2_500, 4, 1), None)]
ALL = (cost(26_500, 36, 2), cost(8.5, 16, 1))


def told(answer: dict[str, Any]) -> tuple[Any, Any]:
    return answer["tokens"], answer["seconds"]


async def train(http: httpx.AsyncClient) -> list[dict[str, Any]]:
    """Report two steps, and return their receipts."""
    return [await report(http, *FIRST), await report(http, *SECOND)]


async def stored(http: httpx.AsyncClient, run: str = RUN) -> list[Any]:
    """Return what run, history and curve tell."""
    history = (await http.get(f"{run}/history")).json()["history"]
    points = (await http.get(f"{run}/curve", params={"points": 1})).json()["points"]
    return [told((await http.get(run)).json()), list(map(told, history)), list(map(told, points))]


SHOWN = [ALL, STEPS, [ALL]]


async def test_receipts_run_history_and_curve_tell_the_same_sums(http: httpx.AsyncClient):
    await make_dataset(http)
    assert list(map(told, await train(http))) == STEPS
    assert await stored(http) == SHOWN


async def test_the_summary_tells_what_was_spent_and_saved_by_its_gain(http: httpx.AsyncClient):
    await make_dataset(http)
    (await http.put("/datasets/guru/runs/even", json={"strategy": "uniform"})).raise_for_status()
    await train(http)
    for _ in range(2):
        await report(
            http,
            *(solved(task, successes, 4) | {"tokens": 400} for task, successes in ((4, 1), (5, 0), (6, 0))),
            run="even",
        )
    summary = (await http.get(f"{RUN}/summary")).json()
    assert told(summary) == (summary["recent_tokens"], summary["recent_seconds"]) == ALL
    gain = summary["gain"]
    assert (gain["source"], gain["factor"]) == ("measured", (3 / 4) / (1 / 3))
    # Uniform sampling needs 2.25 times the 36 rollouts that the tokens cover, at 100 tokens each.
    tokens = {"spent": 26_500, "rollouts": 36, "source": "measured", "saved": pytest.approx(36 * 2.25 * 100 - 26_500)}
    assert gain["tokens"] == tokens
    seconds = {"spent": 8.5, "rollouts": 16, "source": "estimated", "saved": pytest.approx(8.5 * 1.25)}
    assert gain["seconds"] == seconds  # the baseline says none


async def test_without_a_cost_nothing_is_told(http: httpx.AsyncClient):
    await make_dataset(http)
    assert told(await report(http, solved(1), solved(2, 0))) == (None, None)
    assert await stored(http) == [(None, None), [(None, None)], [(None, None)]]
    summary = (await http.get(f"{RUN}/summary")).json()
    assert told(summary) == told(summary["gain"]) == (None, None)
    tags = (await http.get(f"{RUN}/tags")).json()["tags"]
    assert {told(tag) for tag in tags} == {(None, None)}


async def test_tags_tell_what_their_tasks_cost(http: httpx.AsyncClient):
    await make_dataset(http)
    await train(http)
    tags = {tag["tag"]: told(tag) for tag in (await http.get(f"{RUN}/tags")).json()["tags"]}
    assert tags["code"] == (cost(16_500, 16, 1), cost(8.5, 16, 1))
    assert tags["math"] == (cost(10_000, 20, 1), None)


async def test_each_task_tells_what_it_cost_and_tasks_are_sorted_by_it(http: httpx.AsyncClient):
    await make_dataset(http)
    await train(http)
    tasks = (await http.get(f"{RUN}/tasks", params={"sort": "-tokens"})).json()["tasks"]
    expected = {"task-0": (16_000, 8.5), "task-1": (10_000, None), "task-3": (500, None)}
    assert [task["id"] for task in tasks[:3]] == list(expected)
    assert {task["id"]: told(task) for task in tasks} == {task["id"]: (None, None) for task in tasks} | expected
    rows = csv.DictReader(io.StringIO((await http.get(f"{RUN}/tasks", params={"format": "csv"})).text))
    cells = {row["id"]: (row["tokens"], row["seconds"]) for row in rows}
    assert (cells["task-0"], cells["task-2"]) == (("16000.0", "8.5"), ("", ""))
    answer = await http.get(f"{RUN}/tasks", headers={"Accept": "application/vnd.apache.arrow.stream"})
    table = pa.ipc.open_stream(answer.content).read_all()
    assert table["tokens"].to_pylist()[:4] == [16_000, 10_000, None, 500]


async def test_a_tasks_history_tells_what_each_report_said(http: httpx.AsyncClient):
    await make_dataset(http)
    await train(http)
    history = {
        task: list(map(told, (await http.get(f"{RUN}/tasks/task-{task}/history")).json()["history"]))
        for task in (0, 1, 2)
    }
    assert history == {0: [(16_000, 8.5)], 1: [(2_000, None), (8_000, None)], 2: [(None, None)]}


async def test_metrics_count_what_closed_steps_cost(http: httpx.AsyncClient):
    await make_dataset(http)
    await train(http)
    counted = {"tokens": 26_500, "accelerator_seconds": 8.5}
    for name, expected in counted.items():
        assert await value(http, f"bots_{name}_total", **OF_RUN) == expected, name


async def test_a_repeated_report_costs_once(http: httpx.AsyncClient):
    await make_dataset(http)
    body = {"dataset": "guru", "outcomes": FIRST}
    answers = [(await http.post("/report", json=body, headers={"Idempotency-Key": "one"})).json() for _ in range(2)]
    assert [told(answer) for answer in answers] == [STEPS[0]] * 2
    assert (await stored(http))[0] == STEPS[0]


async def test_a_rewind_takes_costs_back_and_a_fork_keeps_them(http: httpx.AsyncClient):
    await make_dataset(http)
    await train(http)
    (await http.put("/datasets/guru/runs/fork", json={"fork": {"run": "default"}})).raise_for_status()
    (await http.post(f"{RUN}/rewind", json={"step": 1})).raise_for_status()
    assert await stored(http) == [STEPS[0], STEPS[:1], [STEPS[0]]]
    fork = (await http.get("/datasets/guru/runs/fork")).json()
    assert told(fork) == ALL
    (await http.put("/datasets/guru/runs/again", json={"replay_of": {"run": "default"}})).raise_for_status()
    assert told((await http.get("/datasets/guru/runs/again")).json()) == STEPS[0]
    (
        await http.put("/datasets/guru/runs/warm", json={"warm_start": {"run": "default", "discount": 0.5}})
    ).raise_for_status()
    assert told((await http.get("/datasets/guru/runs/warm")).json()) == (None, None)


@pytest.mark.parametrize("belief", ["bots", "tracker"])
async def test_a_restart_and_an_imported_backup_tell_the_same(tmp_path: Path, belief: str):
    async with serving(tmp_path / "one") as http:
        await make_dataset(http, belief=belief)
        await train(http)
        await report(http, *FIRST, close_step=False)
        (await http.post(f"{RUN}/snapshots")).raise_for_status()
        exported = (await http.get("/datasets/guru/export")).content
    async with serving(tmp_path / "one") as again:
        assert await stored(again) == SHOWN
    async with serving(tmp_path / "other") as other:
        (await other.post("/imports", content=exported, headers=BACKUP)).raise_for_status()
        assert await stored(other) == SHOWN
        assert told(await report(other, close_step=True)) == STEPS[0]


@pytest.mark.parametrize("wrong", [-1, "many", True, 1e12, {}])
@pytest.mark.parametrize("name", ["tokens", "seconds"])
async def test_a_cost_that_can_t_be_true_is_refused(http: httpx.AsyncClient, name: str, wrong: Any):
    await make_dataset(http)
    body = {"dataset": "guru", "outcomes": [solved(1) | {name: wrong}]}
    problem = require_problem(await http.post("/report", json=body), 422, "invalid-request")
    assert problem["errors"][0]["loc"] == ["body", "outcomes", 0, name]
    assert (await http.get(RUN)).json()["seq"] == 0
