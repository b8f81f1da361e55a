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


async def test_an_empty_service_has_an_empty_overview(http):
    found = await overview(http)
    statuses = {"attention": 0, "unjudged": 0, "new": 0, "running": 0, "stalled": 0, "idle": 0}
    totals = {"datasets": 0, "runs": 0, **statuses, "reported": 0, "effective": 0, "rollouts": 0.0}
    assert found == {"runs": [], "matching": 0, "totals": totals, "next_cursor": None}


async def test_a_run_without_a_step_is_new(http):
    await make_dataset(http)
    (run,) = (await overview(http))["runs"]
    assert (run["dataset"], run["run"], run["belief"], run["strategy"]) == ("guru", "default", "tracker", "pass")
    assert (run["status"], run["step"], run["last_step_at"], run["trend"]) == ("new", 0, None, [])
    assert run["effective_task_ratio"] is run["gain"]["factor"] is None


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


async def test_the_ratio_is_that_of_the_last_50_steps_and_the_trend_has_few_points(http):
    await make_dataset(http)
    for step in range(60):
        await close(http, 0 if step < 10 else 1, of=1)
    found = await summary(http)
    assert (found["effective_task_ratio"], found["effective"], found["reported"]) == (1.0, 50, 60)
    assert len(found["trend"]) == 30  # every second step
    assert found["trend"][:6] == [0, 0, 0, 0, 0, 2 / 12]
    assert found["trend"][-1] == 1.0


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


async def test_a_fork_is_compared_from_the_step_at_which_it_began(http):
    await make_dataset(http)
    for effective in (4, 4, 4):
        await close(http, effective)
    await put_run(http, "child", fork={"run": "default", "step": 2})
    await put_run(http, "even", **UNIFORM)
    for effective in (0, 0, 2, 4):
        await close(http, effective, run="even")
    await close(http, 3, run="child")
    child = await summary(http, "child")
    assert (child["step"], child["reported"], child["effective"]) == (3, 4, 3)
    assert (child["gain"]["steps"], child["gain"]["factor"]) == (1, pytest.approx((3 / 4) / (2 / 4)))


async def test_the_baseline_is_the_uniform_run_that_was_created_nearest_in_time(http):
    await make_dataset(http)
    for name, settings in (("before", UNIFORM), ("run", {}), ("after", UNIFORM), ("empty", UNIFORM)):
        await put_run(http, name, **settings)
        if name != "empty":
            await close(http, 2, run=name)
    created = {run["run"]: run["created_at"] for run in (await overview(http))["runs"]}
    times = {name: float(created[name].partition("T")[2][:-1].rpartition(":")[2]) for name in created}
    nearest = min(("before", "after"), key=lambda name: (abs(times[name] - times["run"]) % 60, name))
    assert (await summary(http, "run"))["gain"]["baseline"] == nearest
    await http.delete(f"/datasets/guru/runs/{nearest}")
    assert (await summary(http, "run"))["gain"]["baseline"] == ({"before", "after"} - {nearest}).pop()


async def test_the_strategy_is_the_one_in_use(http):
    await make_dataset(http)
    await close(http, 2)
    await http.patch(RUN, json={"strategy": "uniform"})
    await http.patch(RUN, json={"seed": 3})
    assert (await summary(http))["strategy"] == "uniform"
    assert (await summary(http))["gain"] is None
    await http.post(f"{RUN}/rewind", json={"step": 1})
    assert (await summary(http))["strategy"] == "pass"


async def test_a_run_that_is_deleted_leaves_the_overview(http):
    await make_dataset(http)
    await put_run(http, "gone")
    await close(http, 2, run="gone")
    assert (await overview(http))["matching"] == 2
    await http.delete("/datasets/guru/runs/gone")
    assert [run["run"] for run in (await overview(http))["runs"]] == ["default"]
    require_problem(await http.get("/datasets/guru/runs/gone/summary"), 404, "unknown-run")
    require_problem(await http.get("/datasets/none/runs/gone/summary"), 404, "unknown-dataset")


async def test_a_run_that_is_created_again_begins_anew(http):  # blocklint: pragma
    await make_dataset(http)
    await close(http, 2)
    assert (await summary(http))["step"] == 1
    await http.delete(RUN)
    assert (await summary(http))["step"] == 0
    await http.put(RUN, json={"strategy": "spaced"})
    assert (await summary(http))["strategy"] == "spaced"


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


async def test_runs_are_sorted_by_their_gain_and_those_without_one_come_last(http):
    await three_datasets(http)
    for dataset, effective in (("alpha", 1), ("beta", 4)):
        await put_run(http, "even", dataset, **UNIFORM)
        await report(http, *outcomes(effective), dataset=dataset, run="even")
    for sort, first in (("vs_uniform", ["beta", "alpha"]), ("-vs_uniform", ["alpha", "beta"])):
        runs = (await overview(http, sort=sort))["runs"]
        assert [(run["dataset"], run["run"]) for run in runs] == [
            *((dataset, "default") for dataset in first),
            ("alpha", "even"),
            ("beta", "even"),
            ("gamma", "default"),
        ]


async def test_a_cursor_of_another_order_is_refused(http):
    await three_datasets(http)
    cursor = (await overview(http, sort="name", limit=1))["next_cursor"]
    require_problem(await http.get("/overview", params={"sort": "step", "cursor": cursor}), 422, "invalid-request")
    require_problem(await http.get("/overview", params={"sort": "size"}), 422, "invalid-request")


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
