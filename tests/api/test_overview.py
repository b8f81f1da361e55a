"""The overview of all runs, and the summary of one, over HTTP."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.keyed import bearer, guarded, new_key
from tests.api.pools import RUN, make_dataset, report, require_problem, solved

UNIFORM = {"belief": "bots", "strategy": "uniform"}


async def overview(http: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    """Return the overview once each run is judged."""
    while True:
        answer = await http.get("/overview", params=query)
        assert answer.status_code == 200, answer.text
        if not answer.json()["totals"]["unjudged"]:
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


async def test_a_gain_is_measured_by_the_uniform_run_over_the_steps_that_both_closed(http):
    await make_dataset(http)
    await put_run(http, "even", **UNIFORM)
    for effective in (4, 3, 1):
        await close(http, effective)
    for effective in (1, 2):
        await close(http, effective, run="even")
    runs = {run["run"]: run for run in (await overview(http))["runs"]}
    assert runs["even"]["gain"] is None
    factor = (7 / 8) / (3 / 8)
    assert runs["default"]["gain"] == {
        "source": "measured",
        "baseline": "even",
        "factor": pytest.approx(factor),
        "rollouts_saved": pytest.approx(128 * (factor - 1)),
        "rollouts_spent": 128.0,
        "steps": 2,
        "own_ratio": 7 / 8,
        "uniform_ratio": 3 / 8,
        "uniform_effective_task_ratio": 3 / 8,
    }
    await close(http, 4, run="even")
    later = (await summary(http))["gain"]
    assert (later["steps"], later["factor"], later["rollouts_spent"]) == (3, pytest.approx(8 / 7), 192.0)


async def three_datasets(http: httpx.AsyncClient) -> None:
    for name in ("alpha", "beta", "gamma"):
        await make_dataset(http, name=name)
    for name, effective in (("beta", 3), ("alpha", 1)):
        await report(http, *outcomes(effective), dataset=name)


async def test_runs_are_searched_filtered_and_counted(http):
    await three_datasets(http)
    await put_run(http, "Other", "beta")
    assert [run["dataset"] for run in (await overview(http, search="A/D", sort="name"))["runs"]] == [
        "alpha",
        "beta",
        "gamma",
    ]
    assert (await overview(http, search="oTHE"))["matching"] == 1
    assert (await overview(http, dataset="beta"))["matching"] == 2
    found = await overview(http, status="new", sort="name")
    assert [(run["dataset"], run["run"]) for run in found["runs"]] == [("beta", "Other"), ("gamma", "default")]
    assert found["totals"] == {
        "datasets": 3,
        "runs": 4,
        "attention": 0,
        "unjudged": 0,
        "new": 2,
        "running": 2,
        "stalled": 0,
        "idle": 0,
        "reported": 8,
        "effective": 4,
        "rollouts": 128.0,
    }


@pytest.mark.parametrize(
    ("sort", "wanted"),
    [
        ("name", ["alpha", "beta", "gamma"]),
        ("-name", ["gamma", "beta", "alpha"]),
        ("created", ["alpha", "beta", "gamma"]),
        ("-created", ["gamma", "beta", "alpha"]),
        ("last_step", ["beta", "alpha", "gamma"]),
        ("-last_step", ["alpha", "beta", "gamma"]),
        ("step", ["gamma", "alpha", "beta"]),
        ("-step", ["alpha", "beta", "gamma"]),
        ("effective_task_ratio", ["alpha", "beta", "gamma"]),
        ("-effective_task_ratio", ["beta", "alpha", "gamma"]),
        ("rollouts", ["gamma", "alpha", "beta"]),
        ("-rollouts", ["alpha", "beta", "gamma"]),
    ],
)
async def test_runs_are_sorted_and_come_in_pages_those_without_a_value_last(http, sort, wanted):
    await three_datasets(http)
    assert [run["dataset"] for run in (await overview(http, sort=sort))["runs"]] == wanted
    paged, cursor = list[str](), None
    while len(paged) < 9:
        page = await overview(http, sort=sort, limit=1, **({} if cursor is None else {"cursor": cursor}))
        assert page["matching"] == 3
        paged += [run["dataset"] for run in page["runs"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert paged == wanted


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
