import math

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
    assert (chosen["dataset"], chosen["run"], chosen["step"], chosen["seq"], chosen["reused"]) == (
        "guru",
        "default",
        1,
        1,
        0,
    )
    assert (await http.get(RUN)).json()["leased"] == 6


async def test_leased_tasks_are_reused_only_when_too_few_others_are_left(http):
    await make_dataset(http)
    first, second = await select(http, 15), await select(http, 10)
    assert (first["reused"], second["reused"]) == (0, 5)
    free = {f"task-{number}" for number in range(20)} - {task["id"] for task in first["tasks"]}
    assert free <= {task["id"] for task in second["tasks"]}


async def test_tags_and_exclude_are_kept(http):
    await make_dataset(http)
    math_tasks = {f"task-{number}" for number in range(20) if number % 3}
    chosen = await select(http, 4, tags=["math"], exclude=["task-1", "task-2"])
    assert {task["id"] for task in chosen["tasks"]} <= math_tasks - {"task-1", "task-2"}


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


async def test_a_strategy_without_draws_answers_null_for_them(http):
    await make_dataset(http)
    await http.patch(RUN, json={"strategy": "uniform"})
    assert {task["draw"] for task in (await select(http, 5))["tasks"]} == {None}


async def test_counts_rewards_and_aborted_outcomes_add_up(http):
    await make_dataset(http)
    receipt = await report(
        http,
        solved(1, 4, 8),
        {"task": "task-2", "rewards": [0, 1, 0.5, 0.25]},
        {"task": "task-3", "status": "aborted"},
        solved(4, 8, 8),
    )
    assert (receipt["seq"], receipt["step"], receipt["closed"]) == (1, 1, True)
    assert (receipt["reported"], receipt["effective"]) == (3, 2)
    assert receipt["effective_task_ratio"] == pytest.approx(2 / 3)
    assert receipt["duplicate"] is False
    totals = (await http.get(RUN)).json()["totals"]
    assert totals["rollouts"] == 8 + 4 + 8
    assert totals["successes"] == pytest.approx(math.fsum([4, 1.75, 8]))


async def test_partial_reports_close_a_step_when_told_to(http):
    await make_dataset(http)
    first = await report(http, solved(1), close_step=False)
    assert (first["closed"], first["step"], first["reported"]) == (False, 0, 1)
    assert (await http.get(RUN)).json()["pending"] == 1
    last = await report(http, close_step=True)
    assert (last["closed"], last["step"], last["reported"]) == (True, 1, 1)


async def test_unknown_names_are_404(http):
    await make_dataset(http)
    for path, body in (("/select", {"count": 1}), ("/report", {"outcomes": []})):
        require_problem(await http.post(path, json={"dataset": "nope", **body}), 404, "unknown-dataset")
        require_problem(await http.post(path, json={"dataset": "guru", "run": "nope", **body}), 404, "unknown-run")


async def test_a_pool_that_is_too_small_is_422(http):
    await make_dataset(http)
    answer = await http.post("/select", json={"dataset": "guru", "count": 21})
    require_problem(answer, 422, "pool-too-small")


# --- evidence of some age --------------------------------------------------------------------------------------------


async def test_outcomes_of_an_age_count_as_those_of_a_selection_so_many_steps_ago(http):
    await make_dataset(http)
    chosen = await select(http, 4)
    for task in range(5, 8):
        await report(http, solved(task))
    late = {**solved(0), "task": chosen["tasks"][0]["id"]}
    of_selection = await report(http, late, selection_id=chosen["selection_id"], close_step=False)
    of_age = await report(http, solved(2), age=3, close_step=False)
    assert (of_selection["late"], of_age["late"], of_age["reported"]) == (1, 1, 2)
    assert (await report(http, solved(3), age=0, close_step=False))["late"] == 0
