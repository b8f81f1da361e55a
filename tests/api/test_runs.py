from typing import Any

import pytest

from bots_service.core.run_settings import RunSettings
from tests.api.pools import RUN, make_dataset, report, require_problem, select, solved, standing


def as_json(settings: RunSettings) -> dict:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.in_use().items()}


async def test_a_fresh_run_has_the_default_settings_and_stands_at_zero(http):
    await make_dataset(http)
    run = (await http.get(RUN)).json()
    assert run["settings"] == as_json(RunSettings())
    assert (run["epoch"], run["step"], run["seq"], run["capability"], run["pending"], run["leased"]) == (
        0,
        0,
        0,
        None,
        0,
        0,
    )
    assert run["forked_from"] is None
    assert set(run["totals"].values()) == {0}


async def test_a_run_shows_what_its_belief_estimates_about_the_model(http):
    await make_dataset(http)
    fresh = (await http.get(RUN)).json()
    assert (fresh["capability"], fresh["estimates"]["ability"]) == (None, 0)
    papers = "/datasets/guru/runs/papers"
    assert (await http.put(papers, json={"belief": "bots"})).json()["estimates"] == {}
    for run in ("default", "papers"):
        await report(http, *(solved(number, successes=16, trials=16) for number in range(4)), run=run)
    by_tracker, by_bots = [(await http.get(path)).json() for path in (RUN, papers)]
    assert by_bots["estimates"] == {"capability": by_bots["capability"]}
    assert by_tracker["capability"] is None
    assert by_tracker["estimates"]["ability"] > 0  # all rollouts succeeded
    assert (await http.get("/datasets/guru/runs")).json()["runs"] == [by_tracker, by_bots]


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
        ({"prior": [0, 1]}, "invalid-settings"),
        ({"reward_range": [1, 1]}, "invalid-settings"),
        ({"lease_seconds": 0}, "invalid-settings"),
        ({"seed": 10**30}, "invalid-settings"),
        ({"tasks_per_step": 0}, "invalid-settings"),
        ({"forgetting": 0.2, "prior": [2, 2]}, "invalid-settings"),  # of the belief "bots" only
        ({"strategy": "best"}, "invalid-request"),
        ({"forgetting": True}, "invalid-request"),
        ({"forgetting": "0.5"}, "invalid-request"),
        ({"forgetting": None}, "invalid-request"),
        ({"seed": 1.5}, "invalid-request"),
        ({"prior": [1]}, "invalid-request"),
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
    assert run["forked_from"] == {"run": "default", "step": 2, "seq": 2, "how": "fork", "discount": None}
    assert (await http.get("/datasets/guru/runs/branch/tasks")).json() == states[1]
    unknown = {"fork": {"run": "default", "step": 99}}
    require_problem(await http.put("/datasets/guru/runs/other", json=unknown), 404, "unknown-step")
    unknown = {"fork": {"run": "nobody"}}
    require_problem(await http.put("/datasets/guru/runs/other", json=unknown), 404, "unknown-run")


async def test_rewinding_brings_the_old_beliefs_back_and_refuses_evidence_from_before(http):
    await make_dataset(http)
    states = [(await http.get(f"{RUN}/tasks")).json()]
    for task in range(3):
        await report(http, solved(task))
        states.append((await http.get(f"{RUN}/tasks")).json())
    selection = await select(http, 2)
    answer = await http.post(f"{RUN}/rewind", json={"step": 1})
    assert (answer.json()["step"], answer.json()["epoch"], answer.json()["seq"]) == (1, 1, 4)
    assert (await http.get(f"{RUN}/tasks")).json() == states[1]
    late = {"dataset": "guru", "selection_id": selection["selection_id"], "outcomes": [solved(1)]}
    require_problem(await http.post("/report", json=late), 409, "stale-epoch")
    require_problem(await http.post(f"{RUN}/rewind", json={"step": 2}), 404, "unknown-step")
    assert [step["step"] for step in (await http.get(f"{RUN}/history")).json()["history"]] == [1]


async def test_history_tells_of_each_closed_step_and_pages(http):
    await make_dataset(http)
    for task in range(5):
        await report(http, solved(task), solved(task + 6, 0), solved(task + 12, 16))
    steps = (await http.get(f"{RUN}/history")).json()["history"]
    assert [step["step"] for step in steps] == [1, 2, 3, 4, 5]
    assert {step["effective_task_ratio"] for step in steps} == {1 / 3}
    assert {step["rollouts"] for step in steps} == {48.0}
    assert steps[0]["mean_pass_rate"] == pytest.approx((7 + 0 + 16) / 48)
    first = (await http.get(f"{RUN}/history", params={"limit": 2, "after_step": 1})).json()
    assert first["history"] == steps[1:3]
    second = (await http.get(f"{RUN}/history", params={"limit": 2, "cursor": first["next_cursor"]})).json()
    assert second == {"history": steps[3:], "next_cursor": None}


async def curve(http, **query) -> list[dict[str, Any]]:
    answer = await http.get(f"{RUN}/curve", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()["points"]


async def test_a_curve_with_a_point_for_each_step_is_the_history(http):
    await make_dataset(http)
    assert await curve(http) == []
    for task in range(5):
        await report(http, solved(task), solved(task + 6, 0), solved(task + 12, 16))
    steps, points = (await http.get(f"{RUN}/history")).json()["history"], await curve(http)
    assert [(point["first_step"], point["last_step"]) for point in points] == [(n, n) for n in range(1, 6)]
    same = ("reported", "effective", "effective_task_ratio", "rollouts", "capability", "late", "new_tasks", "time")
    assert [[point[name] for name in same] for point in points] == [[step[name] for name in same] for step in steps]
    for name in ("brier", "log_loss"):
        assert [point[name] for point in points] == pytest.approx([step[name] for step in steps])
    assert {(point["all_solved"], point["none_solved"], point["expired"]) for point in points} == {(1, 1, 0)}
    assert [point["success_rate"] for point in points] == pytest.approx([23 / 48] * 5)
    assert [step["distinct_tasks"] for step in steps] == [3, 6, 9, 12, 15]
    assert [point["distinct_tasks"] for point in await curve(http, points=2)] == [9, 15]


async def test_a_calibration_tells_what_was_predicted_beside_what_came(http):
    await make_dataset(http)
    none = (await http.get(f"{RUN}/calibration")).json()
    assert (none["steps"], {bin_["rollouts"] for bin_ in none["bins"]}) == (0, {0})
    assert [(bin_["low"], bin_["high"]) for bin_ in none["bins"]] == [(n / 10, (n + 1) / 10) for n in range(10)]
    predicted, came = [], []
    for step in range(4):
        (task,) = (await http.get(f"{RUN}/tasks?ids=task-{step % 2}")).json()["tasks"]
        predicted.append(task["mean"])
        came.append((4 * step, 16))
        await report(http, solved(step % 2, 4 * step))
    await report(http, close_step=True)  # tells nothing of predictions
    for steps, of_them in ((1000, range(4)), (3, (2, 3))):
        told = (await http.get(f"{RUN}/calibration", params={"steps": steps})).json()
        assert told["steps"] == len(of_them)
        for bin_ in told["bins"]:
            own = [n for n in of_them if bin_["low"] <= predicted[n] < bin_["high"]]
            assert bin_["rollouts"] == 16 * len(own)
            if not own:
                assert bin_["mean_prediction"] is bin_["success_rate"] is None
                continue
            assert bin_["mean_prediction"] == pytest.approx(sum(predicted[n] for n in own) / len(own))
            assert bin_["success_rate"] == pytest.approx(sum(came[n][0] for n in own) / 16 / len(own))


async def test_snapshots_are_stored_on_demand_and_listed(http):
    await make_dataset(http)
    stored = []
    for task in range(3):
        answer = await http.post(f"{RUN}/snapshots")
        assert answer.status_code == 201
        assert (answer.json()["seq"], answer.json()["step"]) == (task, task)
        stored.append(answer.json())
        await report(http, solved(task))
    first = (await http.get(f"{RUN}/snapshots", params={"limit": 2})).json()
    assert first["snapshots"] == stored[:2]
    second = (await http.get(f"{RUN}/snapshots", params={"limit": 2, "cursor": first["next_cursor"]})).json()
    assert second == {"snapshots": stored[2:], "next_cursor": None}


async def test_runs_are_listed_by_name_and_a_deleted_default_is_there_again_empty(http):
    await make_dataset(http)
    for name in ("zeta", "alpha"):
        assert (await http.put(f"/datasets/guru/runs/{name}", json={})).status_code == 201
    await report(http, solved(1))
    first = (await http.get("/datasets/guru/runs", params={"limit": 2})).json()
    second = (await http.get("/datasets/guru/runs", params={"limit": 2, "cursor": first["next_cursor"]})).json()
    assert [run["run"] for run in first["runs"] + second["runs"]] == ["alpha", "default", "zeta"]
    for name in ("zeta", "default"):
        assert (await http.delete(f"/datasets/guru/runs/{name}")).status_code == 204
    require_problem(await http.get("/datasets/guru/runs/zeta"), 404, "unknown-run")
    assert (await http.get(RUN)).json()["step"] == 0
