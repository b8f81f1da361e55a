"""`min_effective` over HTTP: what a run leaves out, and how it shows that."""

import pytest

from tests.api.pools import RUN, report, select


@pytest.fixture
async def trained(http):
    """Six tasks: two always solved, two never, two in between, each tried in 30 steps."""
    tasks = [{"id": f"task-{number}"} for number in range(6)]
    (await http.put("/datasets/guru", json={"tasks": tasks})).raise_for_status()
    for _ in range(30):
        outcomes = [{"task": f"task-{n}", "successes": (8, 0, 4)[n // 2], "trials": 8} for n in range(6)]
        await report(http, *outcomes)
    return http


async def test_tasks_that_hardly_teach_are_left_out_counted_and_back_after_another_setting(trained):
    assert (await trained.get(RUN)).json()["resting"] == {"solved": 0, "unsolved": 0, "expected_wrong": 0.0}
    changed = (await trained.patch(RUN, json={"min_effective": 0.3})).json()
    effective = {row["id"]: row["effective"] for row in (await trained.get(f"{RUN}/tasks")).json()["tasks"]}
    assert {task for task, chance in effective.items() if chance < 0.3} == {f"task-{number}" for number in range(4)}
    left_out = sum(effective[f"task-{number}"] for number in range(4))
    assert changed["resting"] == {"solved": 2, "unsolved": 2, "expected_wrong": pytest.approx(left_out)}
    assert {task["id"] for task in (await select(trained, 2))["tasks"]} == {"task-4", "task-5"}
    # Training never starves: where too few others are free, they come after all, and before tasks in flight.
    again = await select(trained, 4)
    assert ({task["id"] for task in again["tasks"]}, again["reused"]) == ({f"task-{n}" for n in range(4)}, 0)
    back = (await trained.patch(RUN, json={"min_effective": 0})).json()
    assert back["resting"] == {"solved": 0, "unsolved": 0, "expected_wrong": 0.0}
