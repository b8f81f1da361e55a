"""Runs over HTTP: made, changed, forked, rewound; what they did: journal, a task's history, curve."""

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from bots_service.core.run_settings import RunSettings
from tests.api.pools import RUN, make_dataset, report, require_problem, solved, standing


def as_json(settings: RunSettings) -> dict:
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in settings.in_use().given().items()
    }


async def test_a_fresh_run_has_the_default_settings_and_stands_at_zero(http):
    await make_dataset(http)
    run = (await http.get(RUN)).json()
    assert run["settings"] == as_json(RunSettings())
    assert {run[name] for name in ("epoch", "step", "seq", "pending", "leased")} == {0}
    assert (run["capability"], run["forked_from"]) == (None, None)
    assert set(run["totals"].values()) == {0}


async def test_put_creates_a_run_and_replaces_settings_only_while_it_is_empty(http):
    await make_dataset(http)
    path = "/datasets/guru/runs/mine"
    created = await http.put(path, json={"target": 0.25, "strategy": "uniform"})
    assert created.status_code == 201
    assert created.json()["settings"] == as_json(RunSettings(target=0.25, strategy="uniform"))
    replaced = await http.put(path, json={"seed": 5})
    assert replaced.status_code == 200
    assert replaced.json()["settings"] == as_json(RunSettings(seed=5))
    await report(http, solved(1), run="mine")
    require_problem(await http.put(path, json={"seed": 6}), 409, "run-has-history")
    same = await http.put(path, json={"seed": 5})
    assert (same.status_code, same.json()["step"]) == (200, 1)


async def test_patch_changes_some_settings_and_is_an_entry_of_the_journal(http):
    await make_dataset(http)
    answer = await http.patch(RUN, json={"tasks_per_step": 8})
    assert answer.json()["settings"] == as_json(RunSettings(tasks_per_step=8))
    assert answer.json()["seq"] == 1
    answer = await http.patch(RUN, json={"tasks_per_step": None, "target": 0.75})
    assert answer.json()["settings"] == as_json(RunSettings(target=0.75))


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"forgetting": 1.5}, "invalid-settings"),
        ({"target": -0.1, "seed": -1}, "invalid-settings"),
        ({"seed": 10**30}, "invalid-settings"),
        ({"forgetting": 0.2, "prior": [2, 2]}, "invalid-settings"),  # of the belief "bots" only
        ({"strategy": "best"}, "invalid-request"),
        ({"forgetting": None}, "invalid-request"),
        ({"lambda": 0.5}, "invalid-request"),
    ],
)
async def test_impossible_settings_are_refused_by_name_and_change_nothing(http, settings, name):
    await make_dataset(http)
    before = await standing(http)
    for method, path in (("PUT", "/datasets/guru/runs/new"), ("PUT", RUN), ("PATCH", RUN)):
        problem = require_problem(await http.request(method, path, json=settings), 422, name)
        assert {error["loc"][1] for error in problem["errors"]} == set(settings)
    assert await standing(http) == before


async def test_a_fork_stands_where_its_parent_stood_at_that_step(http):
    await make_dataset(http)
    states = []
    for task in range(4):
        await report(http, solved(task), solved(task + 5, 3))
        states.append((await http.get(f"{RUN}/tasks")).json())
    forked = await http.put("/datasets/guru/runs/branch", json={"fork": {"run": "default", "step": 2}, "seed": 9})
    assert forked.status_code == 201
    run = forked.json()
    assert run["step"] == 2
    assert run["settings"]["seed"] == 9
    assert run["forked_from"] == {"run": "default", "step": 2, "seq": 2}
    assert (await http.get("/datasets/guru/runs/branch/tasks")).json() == states[1]
    unknown = {"fork": {"run": "default", "step": 99}}
    require_problem(await http.put("/datasets/guru/runs/other", json=unknown), 404, "unknown-step")
    unknown = {"fork": {"run": "nobody"}}
    require_problem(await http.put("/datasets/guru/runs/other", json=unknown), 404, "unknown-run")


NOTHING = dict.fromkeys(("tasks", "effective", "rollouts", "closed", "to_step", "changed"))


async def journal(http: httpx.AsyncClient, run: str = RUN, **query: str | int) -> dict[str, Any]:
    answer = await http.get(f"{run}/journal", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def without_times(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in entry.items() if name != "time"} for entry in entries]


async def test_every_kind_of_entry_tells_what_it_did(http: httpx.AsyncClient):
    await make_dataset(http)
    await report(http, solved(1, 3, 8), solved(2, 4, 4), {"task": "task-3", "status": "aborted"})
    await report(http, solved(4, 1, 2), close_step=False)
    await http.patch(RUN, json={"target": 0.25, "reward_range": [-1, 1]})
    await report(http, close_step=True)
    await http.post(f"{RUN}/rewind", json={"step": 1})
    await http.put("/datasets/guru/runs/child", json={"fork": {"run": "default"}})

    shown = {"epoch": 0, **NOTHING, "hidden": False}
    some = {"tasks": 1, "effective": 1, "rollouts": 2.0, "closed": False}
    none = {"tasks": 0, "effective": 0, "rollouts": 0.0, "closed": True}
    two = {"tasks": 2, "effective": 1, "rollouts": 8.0 + 4.0, "closed": True}
    assert without_times((await journal(http))["entries"]) == [
        {**shown, "seq": 5, "epoch": 1, "step": 1, "kind": "rewind", "to_step": 1},
        {**shown, "seq": 4, "step": 2, "kind": "report", **none, "hidden": True},
        {
            **{**shown, "seq": 3, "step": 1, "kind": "settings", "hidden": True},
            "changed": {"target": 0.25, "reward_range": [-1.0, 1.0]},
        },
        {**shown, "seq": 2, "step": 1, "kind": "report", **some, "hidden": True},
        {**shown, "seq": 1, "step": 1, "kind": "report", **two},
    ]
    (fork,) = (await journal(http, "/datasets/guru/runs/child"))["entries"]
    assert (fork["seq"], fork["kind"], fork["step"], fork["hidden"]) == (1, "fork", 1, False)


async def test_a_task_s_reports_are_listed_newest_first(http: httpx.AsyncClient):
    await make_dataset(http, 20, reward_range=[0.0, 2.0])
    await report(http, solved(1, 3, 8), solved(2, 1, 1))
    await report(http, {"task": "task-1", "rewards": [0.5, 0.5]})
    await report(http, solved(2, 1, 1))
    await http.post(f"{RUN}/rewind", json={"step": 1})
    answer = await http.get(f"{RUN}/tasks/task-1/history")
    page = answer.json()
    times = {entry["seq"]: entry["time"] for entry in (await http.get(f"{RUN}/journal")).json()["entries"]}
    shown = {"late": False, "hidden": False, "group_size": None}
    first = {"seq": 1, "step": 1, "successes": 3.0, "trials": 8.0, "mean_reward": 3 / 8, "effective": True}
    second = {"seq": 2, "step": 2, "successes": 0.5, "trials": 2.0, "mean_reward": 0.25, "effective": False}
    assert page == {
        "history": [{**second, **shown, "hidden": True, "time": times[2]}, {**first, **shown, "time": times[1]}],
        "pruned": 0,
        "next_cursor": None,
    }
    assert (await http.get(f"{RUN}/tasks/task-5/history")).json()["history"] == []


@pytest.mark.parametrize("name", ["a/b", "a/history", "/", "é %2F?#", "a/../b"])
async def test_any_id_can_stand_in_the_path(http: httpx.AsyncClient, name: str):
    await http.put("/datasets/guru", json={"tasks": [{"id": name}, {"id": "other"}]})
    await report(http, {"task": name, "successes": 1, "trials": 2})
    answer = await http.get(f"{RUN}/tasks/{quote(name, safe='')}/history")
    assert [one["seq"] for one in answer.json()["history"]] == [1]


async def test_what_was_expected_of_the_pool_is_a_part_of_the_curve(http):
    await make_dataset(http)
    tasks = (await http.get(f"{RUN}/tasks", params={"limit": 1000})).json()["tasks"]
    expected = (await http.get(RUN.removeprefix("/"))).json()["uniform_effective_task_ratio"]
    await report(http, solved(1), solved(2))
    (point,) = (await http.get(f"{RUN}/curve")).json()["points"]
    assert 0 < point["uniform_effective_task_ratio"] == expected < 1
    counts = [0] * 20
    for task in tasks:
        counts[int(task["mean"] * 20)] += 1
    assert point["distribution"] == pytest.approx([count / len(tasks) for count in counts])
