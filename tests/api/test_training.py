"""Selections and reports over HTTP, and what of them is in flight, mixed by tags, and paid for."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.api.pools import RUN, make_dataset, report, require_problem, select, solved


async def test_a_selection_names_each_task_once_with_what_is_believed_of_it(http):
    await make_dataset(http, strategy="thompson")
    await report(http, *map(solved, range(10)))
    chosen = await select(http, 6)
    listed = {task["id"]: task for task in (await http.get(f"{RUN}/tasks")).json()["tasks"]}
    assert len({task["id"] for task in chosen["tasks"]}) == 6
    for task in chosen["tasks"]:
        assert task["mean"] == listed[task["id"]]["mean"]
        assert task["effective"] == listed[task["id"]]["effective"]
        assert 0 <= task["draw"] <= 1
    assert (chosen["dataset"], chosen["run"]) == ("guru", "default")
    assert (chosen["step"], chosen["seq"], chosen["reused"]) == (1, 1, 0)
    assert (await http.get(RUN)).json()["leased"] == 6


async def test_a_wish_for_effective_groups_gets_as_few_tasks_as_are_expected_to_give_them(http):
    await make_dataset(http)
    wish = {"dataset": "guru", "want_effective": 4}
    first, again = [await http.post("/select", json=wish, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json() == first.json()
    chosen = [task["effective"] for task in first.json()["tasks"]]
    assert first.json()["expected_effective"] == pytest.approx(sum(chosen))
    assert sum(chosen) >= 4 > sum(chosen[:-1])
    assert (await select(http, 3))["expected_effective"] > 0


async def test_unknown_names_are_404(http):
    await make_dataset(http)
    for path, body in (("/select", {"count": 1}), ("/report", {"outcomes": []})):
        require_problem(await http.post(path, json={"dataset": "nope", **body}), 404, "unknown-dataset")
        require_problem(await http.post(path, json={"dataset": "guru", "run": "nope", **body}), 404, "unknown-run")


COSTLY = [solved(0) | {"tokens": 16_000, "seconds": 8.5}, solved(1, 0) | {"tokens": 8_000}, solved(2, 4, 8)]
CHEAPER = [
    {"task": "task-1", "rewards": [0, 1], "tokens": 2_000},
    {"task": "task-3", "status": "aborted", "tokens": 500},
]


def costs(answer: dict[str, Any]) -> tuple[Any, Any]:
    return answer["tokens"], answer["seconds"]


async def test_receipts_history_and_run_tell_the_same_sums_of_what_rollouts_cost(http: httpx.AsyncClient):
    await make_dataset(http)
    receipts = [await report(http, *COSTLY), await report(http, *CHEAPER), await report(http, solved(4))]
    history = (await http.get(f"{RUN}/history")).json()["history"]
    assert list(map(costs, receipts)) == list(map(costs, history)) == [(24_000, 8.5), (2_500, 0), (0, 0)]
    assert costs((await http.get(RUN)).json()["totals"]) == (26_500, 8.5)


async def test_each_selection_is_listed_until_it_is_reported(http: httpx.AsyncClient):
    await make_dataset(http)
    before = datetime.now(UTC)
    first, _ = await select(http, 8), await select(http, 3)

    told = (await http.get(f"{RUN}/leases", params={"ids": 1000})).json()

    assert (told["leased"], [lease["tasks"] for lease in told["leases"]]) == (11, [8, 3])
    assert set(told["leases"][0]["first"]) == {task["id"] for task in first["tasks"]}
    ends = datetime.fromisoformat(told["leases"][0]["expires_at"]) - timedelta(hours=1)
    assert before - timedelta(minutes=1) < ends < datetime.now(UTC) + timedelta(minutes=1)
    one = (await http.get(f"{RUN}/leases", params={"limit": 1})).json()
    assert (one["leased"], len(one["leases"])) == (11, 1)
    numbers = [int(task["id"].removeprefix("task-")) for task in first["tasks"]]
    await report(http, *map(solved, numbers), selection_id=first["selection_id"])
    assert [lease["tasks"] for lease in (await http.get(f"{RUN}/leases")).json()["leases"]] == [3]


@pytest.fixture
async def mixed(http):
    """The run `default` of 60 tasks, mixed from three parts of math to one of code."""
    tasks = [
        {"id": f"{tag}-{number}", "tags": [tag]}
        for tag, count in (("math", 60), ("code", 30))
        for number in range(count)
    ]
    (await http.put("/datasets/guru", json={"tasks": tasks})).raise_for_status()
    (await http.put(RUN, json={"mix": {"math": 3, "code": 1}})).raise_for_status()
    return http


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_a_mix_of_tags_that_no_task_has_is_refused_by_name_until_some_have(mixed, method):
    problem = require_problem(
        await mixed.request(method, RUN, json={"mix": {"math": 1, "maths": 1}}), 422, "invalid-settings"
    )
    assert [error["loc"] for error in problem["errors"]] == [["body", "mix", "maths"]]
    (await mixed.post("/datasets/guru/tasks", json={"tasks": [{"id": "m1", "tags": ["maths"]}]})).raise_for_status()
    (await mixed.request(method, RUN, json={"mix": {"math": 1, "maths": 1}})).raise_for_status()
