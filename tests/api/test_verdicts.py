"""Verdicts of runs that are played over HTTP, and the table of tags; tests/core/test_verdict.py has each verdict."""

from typing import Any

import httpx
import pytest

from tests.api.pools import RUN, make_dataset, report, select, solved
from tests.api.test_overview import overview, summary


async def plain_dataset(
    http: httpx.AsyncClient, count: int = 60, *, rate: float | None = None, **settings: Any
) -> None:
    """Create a dataset of tasks tagged even or odd, with one pass rate for all, and its run `default`."""
    known = {} if rate is None else {"reference_pass_rates": [rate]}
    tasks = [{"id": f"task-{number}", "tags": [("even", "odd")[number % 2]], **known} for number in range(count)]
    body = {"tasks": tasks, **({} if rate is None else {"reference_models": ["weak"]})}
    (await http.put("/datasets/guru", json=body)).raise_for_status()
    if settings:
        (await http.put(RUN, json=settings)).raise_for_status()


async def play(http: httpx.AsyncClient, steps: int, *, of: int = 6, first: int = 0, **more: Any) -> None:
    """Close steps whose tasks follow one another through the pool; a third succeed, a third fail, a third differ."""
    for step in range(first, first + steps):
        tasks = [(step * of + place) % 60 for place in range(of)]
        await report(http, *(solved(task, (16, 0, 8)[place % 3]) for place, task in enumerate(tasks)), **more)


async def verdict(http: httpx.AsyncClient) -> dict[str, str]:
    found = (await summary(http))["verdict"]
    assert found["reason"]
    assert found["advice"]
    return found


async def test_a_run_whose_tasks_teach_is_healthy(http):
    await plain_dataset(http)
    await play(http, 12)
    found = await verdict(http)
    assert found["kind"] == "healthy"
    assert found["reason"].startswith("33.3 % of the tasks of the last 12 steps were effective")


async def test_a_verifier_that_rejects_everything_of_a_tag_is_suspect(http):
    await plain_dataset(http)
    await play(http, 15)
    for step in range(4):  # 12 groups of each tag a step
        tasks = range(24 * (step % 2), 24 * (step % 2) + 24)
        await report(http, *(solved(task, 0 if task % 2 else (16, 0, 8)[task % 3]) for task in tasks))
    found = await verdict(http)
    assert found["kind"] == "verifier_suspect"
    assert "'odd' failed since step 16: 48 groups" in found["reason"]
    assert "rewind the run to step 15" in found["advice"]
    (alarm,) = (await http.get(RUN)).json()["alarms"]
    assert alarm.pop("chance") <= 1e-9
    assert alarm == {"tag": "odd", "outcome": "failed", "since_step": 16, "last_step": 19, "groups": 48}
    await http.post(f"{RUN}/rewind", json={"step": 15})
    assert (await http.get(RUN)).json()["alarms"] == []
    assert (await verdict(http))["kind"] == "healthy"


async def four_runs(http: httpx.AsyncClient) -> None:
    """Play a uniform run, a healthy one, a short one, and a narrow one, each with a larger gain than that before."""
    await plain_dataset(http)
    for run, strategy, steps, effective, of in (
        ("even", "uniform", 12, 2, 60),
        ("wide", "pass", 12, 3, 60),
        ("early", "pass", 3, 4, 60),
        ("few", "thompson", 12, 6, 6),
    ):
        (await http.put(f"/datasets/guru/runs/{run}", json={"strategy": strategy})).raise_for_status()
        for step in range(steps):
            tasks = [(step * 6 + place) % of for place in range(6)]
            outcomes = (solved(task, 8 if place < effective else 16 * (place % 2)) for place, task in enumerate(tasks))
            await report(http, *outcomes, run=run)


async def names(http: httpx.AsyncClient, **query: Any) -> list[str]:
    return [run["run"] for run in (await overview(http, **query))["runs"]]


async def test_runs_that_need_attention_come_first_and_are_counted_and_filtered(http):
    await four_runs(http)
    (await http.put("/datasets/guru/runs/lost", json={})).raise_for_status()
    refused = {"dataset": "guru", "run": "lost", "outcomes": [{"task": "task-1", "rewards": [-1, 1]}]}
    assert (await http.post("/report", json=refused)).status_code == 422
    found = await overview(http, sort="-attention")  # the most urgent first, then by the last step
    assert [run["run"] for run in found["runs"]] == ["lost", "few", "early", "wide", "even", "default"]
    assert [run["attention"] for run in found["runs"]] == [True, True, False, False, False, False]
    assert (found["totals"]["attention"], found["totals"]["unjudged"]) == (2, 0)
    assert await names(http, attention=True, sort="name") == ["few", "lost"]
    assert await names(http, sort="attention") == ["even", "wide", "early", "few", "lost", "default"]


# --- tags ------------------------------------------------------------------------------------------------------------


async def tags(http: httpx.AsyncClient, **query: Any) -> dict[str, Any]:
    answer = await http.get(f"{RUN}/tags", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_tags_are_summed_up_over_the_last_steps_and_compared_with_those_before(http):
    await plain_dataset(http, 10)
    steps = [[(0, 16), (1, 0)], [(2, 8), (3, 4)], [(0, 12), (2, 16), (5, 8)], [(4, 0), (5, 16)]]
    for step in steps:
        await report(http, *(solved(task, successes) for task, successes in step))
    found = await tags(http, steps=2)
    assert (found["first_step"], found["last_step"]) == (3, 4)
    rows = {row["tag"]: row for row in found["tags"]}
    assert rows["even"] == {
        "tag": "even",
        "tasks": 5,
        "pool_share": 0.5,
        "reported": 3,
        "selected_share": 3 / 5,
        "effective": 1,
        "effective_task_ratio": 1 / 3,
        "rollouts": 48.0,
        "mean_pass_rate": pytest.approx((12 + 16 + 0) / 16 / 3),
        "earlier_mean_pass_rate": pytest.approx((16 + 8) / 16 / 2),
    }
    assert (rows["odd"]["reported"], rows["odd"]["earlier_mean_pass_rate"]) == (2, pytest.approx(4 / 16 / 2))


async def test_a_step_in_parts_is_one_step_and_a_rewound_one_is_none(http):
    await plain_dataset(http, 10)
    await report(http, solved(1, 0))
    await report(http, solved(1, 16))
    await http.post(f"{RUN}/rewind", json={"step": 1})
    await report(http, solved(2, 16), solved(3, 0), close_step=False)
    await report(http, solved(2, 0), close_step=True)
    rows = {row["tag"]: row for row in (await tags(http))["tags"]}
    assert (rows["even"]["reported"], rows["even"]["effective"], rows["even"]["rollouts"]) == (1, 1, 32.0)
    assert (rows["odd"]["reported"], rows["odd"]["mean_pass_rate"]) == (2, 0.0)
    last = {row["tag"]: row for row in (await tags(http, steps=1))["tags"]}
    assert (last["odd"]["reported"], last["odd"]["earlier_mean_pass_rate"]) == (1, 0.0)


async def test_late_outcomes_count_in_the_step_that_they_came_in(http):
    await make_dataset(http)
    early = await select(http, 2)
    await report(http, solved(1))
    late = [{"task": task["id"], "successes": 0, "trials": 16} for task in early["tasks"]]
    await report(http, *late, selection_id=early["selection_id"])
    found = await tags(http, steps=1)
    history = (await http.get(f"{RUN}/history")).json()["history"]
    assert history[-1]["reported"] == 2
    assert sum(row["reported"] for row in found["tags"]) == 2
    assert {row["mean_pass_rate"] for row in found["tags"] if row["reported"]} == {0.0}
