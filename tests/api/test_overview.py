"""The overview of all runs and the summary of one: verdicts, refused reports, tags. tests/core has each verdict."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.keyed import bearer, guarded, new_key
from tests.api.pools import RUN, make_dataset, report, require_problem, solved

UNIFORM = {"belief": "bots", "strategy": "uniform"}


async def overview(http: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    answer = await http.get("/overview", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def summary(http: httpx.AsyncClient, run: str = "default", dataset: str = "guru") -> dict[str, Any]:
    answer = await http.get(f"/datasets/{dataset}/runs/{run}/summary")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def put_run(http: httpx.AsyncClient, name: str, dataset: str = "guru", **settings: Any) -> None:
    answer = await http.put(f"/datasets/{dataset}/runs/{name}", json=settings)
    assert answer.status_code == 201, answer.text


async def close(http: httpx.AsyncClient, effective: int, of: int = 4, run: str = "default") -> None:
    """Close a step of so many tasks, some of them effective."""
    await report(http, *outcomes(effective, of), run=run)


def outcomes(effective: int, of: int = 4) -> list[dict[str, Any]]:
    return [solved(task, 8 if task < effective else 16) for task in range(of)]


async def test_a_run_is_summed_up_over_its_present_history(http):
    await make_dataset(http)
    for effective in (1, 2, 4, 4, 4):
        await close(http, effective)
    await http.post(f"{RUN}/rewind", json={"step": 3})
    await close(http, 0)
    (run,) = (await overview(http))["runs"]
    assert (run["step"], run["epoch"], run["seq"]) == (4, 1, 7)
    assert (run["reported"], run["effective"], run["rollouts"]) == (16, 7, 16 * 16.0)
    assert run["effective_task_ratio"] == 7 / 16
    assert run["trend"] == [1 / 4, 3 / 8, 7 / 12, 7 / 16]
    assert run["status"] == "running"
    steps = (await http.get(f"{RUN}/history")).json()["history"]
    assert run["last_step_at"] == steps[-1]["time"]


async def three_datasets(http: httpx.AsyncClient) -> None:
    for name in ("alpha", "beta", "gamma"):
        await make_dataset(http, name=name)
    for name, effective in (("beta", 3), ("alpha", 1)):
        await report(http, *outcomes(effective), dataset=name)


async def test_runs_are_searched_sorted_and_counted_and_come_in_pages(http):
    """tests/usecases has every order and filter."""
    await three_datasets(http)
    await put_run(http, "Other", "beta")
    assert (await overview(http, search="oTHE"))["matching"] == 1
    found = await overview(http, status="new", sort="-name", limit=1)
    rest = await overview(http, status="new", sort="-name", cursor=found["next_cursor"])
    runs = [(run["dataset"], run["run"]) for run in (*found["runs"], *rest["runs"])]
    assert (runs, found["matching"], rest["next_cursor"]) == ([("gamma", "default"), ("beta", "Other")], 2, None)
    assert found["totals"] == {
        "datasets": 3,
        "runs": 4,
        "attention": 0,
        "new": 2,
        "running": 2,
        "stalled": 0,
        "idle": 0,
        "reported": 8,
        "effective": 4,
        "rollouts": 128.0,
    }


async def test_a_key_sees_the_runs_of_its_own_datasets_only(tmp_path: Path):
    async with guarded(tmp_path) as http:
        await three_datasets(http)
        key = (await new_key(http, "read", datasets=("b*", "g*")))["key"]
        found = (await http.get("/overview", params={"sort": "name"}, headers=bearer(key))).json()
        assert [run["dataset"] for run in found["runs"]] == ["beta", "gamma"]
        assert (found["totals"]["datasets"], found["totals"]["reported"]) == (2, 4)
        assert (await overview(http))["totals"]["reported"] == 8
        answer = await http.get("/datasets/alpha/runs/default/summary", headers=bearer(key))
        require_problem(answer, 403, "forbidden")


async def send(http: httpx.AsyncClient, *outcomes: dict[str, Any], **more: Any) -> int:
    """Report outcomes to the run `default`; return the status."""
    return (await http.post("/report", json={"dataset": "guru", "outcomes": list(outcomes), **more})).status_code


OUTSIDE = {"task": "task-1", "rewards": [-1, 1, 1, -1]}


@pytest.mark.parametrize(
    "body",
    [
        {"outcomes": [OUTSIDE]},
        {"outcomes": [{"task": "task-1", "reward": [1.0]}]},  # a misspelt field
        {"outcomes": [solved(1)], "selection_id": "0-0-0-0-000000000000"},
    ],
)
async def test_a_report_that_can_t_be_true_is_counted_with_its_run_and_shown_everywhere(http, body: dict[str, Any]):
    await make_dataset(http)
    assert (await summary(http))["refused"] is None
    answers = [await http.post("/report", json={"dataset": "guru", **body}) for _ in range(2)]
    assert {answer.status_code for answer in answers} == {422}
    found = await summary(http)
    assert found["refused"]["count"] == 2
    problem = answers[0].json()
    said = problem["errors"][0]["msg"] if problem.get("errors") else problem["detail"]
    assert said in found["refused"]["reason"]
    assert (found["verdict"]["kind"], found["attention"]) == ("reports_refused", True)
    assert found["refused"]["reason"] in found["verdict"]["reason"]
    everything = await overview(http)
    assert everything["totals"]["attention"] == 1
    assert everything["runs"] == [{name: found[name] for name in everything["runs"][0]}]


@pytest.mark.parametrize(
    ("status", "sent"),
    [
        (400, lambda http: http.post("/report", content=b"{", headers={"Content-Type": "application/json"})),
        (404, lambda http: http.post("/report", json={"dataset": "guru", "run": "nobody", "outcomes": [OUTSIDE]})),
        (415, lambda http: http.post("/report", content=b"{}", headers={"Content-Type": "text/plain"})),
        (422, lambda http: http.post("/report", json={"dataset": "guru", "run": "no body", "outcomes": []})),
    ],
)
async def test_what_no_run_is_to_blame_for_is_not_counted(http, status: int, sent: Callable[[Any], Any]):
    await make_dataset(http)
    assert (await sent(http)).status_code == status
    assert (await summary(http))["refused"] is None


async def test_a_key_counts_nothing_where_it_has_no_access(tmp_path: Path):
    async with guarded(tmp_path) as http:
        await make_dataset(http)
        stranger = bearer((await new_key(http, "report", datasets=("mine",)))["key"])
        for outcome in (OUTSIDE, {"task": "task-1", "reward": 1}):
            answer = await http.post("/report", json={"dataset": "guru", "outcomes": [outcome]}, headers=stranger)
            assert answer.status_code == 403
        assert (await summary(http))["refused"] is None
