"""GET history of a task."""

from urllib.parse import quote

import httpx
import pytest

from tests.api.pools import RUN, make_dataset, report, require_problem, solved


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


async def test_pages_of_a_task_s_history_follow_one_another(http: httpx.AsyncClient):
    await make_dataset(http)
    for _ in range(5):
        await report(http, solved(1))
    seen: list[int] = []
    cursor = None
    while cursor is not None or not seen:
        query = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        page = (await http.get(f"{RUN}/tasks/task-1/history", params=query)).json()
        seen += [one["seq"] for one in page["history"]]
        cursor = page["next_cursor"]
    assert seen == [5, 4, 3, 2, 1]


@pytest.mark.parametrize("name", ["a/b", "a/history", "history", "/", "a//b", "é %2F?#", "..x", "a/../b"])
async def test_any_id_can_stand_in_the_path(http: httpx.AsyncClient, name: str):
    await http.put("/datasets/guru", json={"tasks": [{"id": name}, {"id": "other"}]})
    await report(http, {"task": name, "successes": 1, "trials": 2})
    answer = await http.get(f"{RUN}/tasks/{quote(name, safe='')}/history")
    assert [one["seq"] for one in answer.json()["history"]] == [1]


async def test_an_unknown_task_is_404_with_ids_that_contain_it(http: httpx.AsyncClient):
    await make_dataset(http, 20)
    problem = require_problem(await http.get(f"{RUN}/tasks/TASK-1/history"), 404, "unknown-task")
    assert "'task-1', 'task-10', 'task-11'" in problem["detail"]
    require_problem(await http.get("/datasets/guru/runs/none/tasks/task-1/history"), 404, "unknown-run")
    require_problem(await http.get(f"{RUN}/tasks/{'x' * 257}/history"), 422, "invalid-request")
    require_problem(await http.get(f"{RUN}/tasks/task-1/history?cursor=x"), 422, "invalid-request")
