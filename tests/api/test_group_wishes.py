"""POST /select with a budget of rollouts, or with a number of effective groups."""

import pytest

from tests.api.pools import RUN, make_dataset, report, require_problem, select, solved


async def ask(http, **wanted):
    """Select tasks of the run `default` without a count."""
    answer = await http.post("/select", json={"dataset": "guru", **wanted})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_budget_gives_each_task_its_rollouts(http):
    await make_dataset(http)
    await report(http, *map(solved, range(10)))
    chosen = await select(http, 6, rollouts_budget=72, min_rollouts=4, max_rollouts=24)
    rollouts = [task["rollouts"] for task in chosen["tasks"]]
    assert sum(rollouts) == 72
    assert min(rollouts) >= 4
    assert max(rollouts) <= 24
    assert "expected_effective" not in chosen


async def test_an_ordinary_answer_has_neither_field(http):
    await make_dataset(http)
    chosen = await select(http, 3)
    assert "expected_effective" not in chosen
    assert all(set(task) == {"id", "draw", "mean", "effective"} for task in chosen["tasks"])


async def test_different_numbers_of_rollouts_enter_the_belief_as_counts_and_the_group_size_is_their_mean(http):
    await make_dataset(http)
    chosen = await select(http, 5, rollouts_budget=60)
    outcomes = [{"task": task["id"], "successes": 1, "trials": task["rollouts"]} for task in chosen["tasks"]]
    receipt = await report(http, *outcomes, selection_id=chosen["selection_id"])
    assert receipt["reported"] == 5
    described = (await http.get(RUN)).json()
    assert described["rollouts_per_task"] == pytest.approx(12)
    assert described["totals"]["rollouts"] == 60


async def test_a_wish_for_effective_groups_says_how_many_to_expect(http):
    await make_dataset(http)
    for step in range(4):
        await report(http, *(solved(task, 7, 16) for task in range(5 * step, 5 * step + 5)))
    chosen = await ask(http, want_effective=4)
    assert 4 <= len(chosen["tasks"]) <= 8
    assert 3.6 < chosen["expected_effective"] <= len(chosen["tasks"])  # 0.9 and more of 4
    surer = await ask(http, want_effective=4, confidence=0.99)
    assert len(surer["tasks"]) >= len(chosen["tasks"])
    bounded = await ask(http, want_effective=4, max_count=4)
    assert len(bounded["tasks"]) == 4


async def test_a_retry_with_the_same_key_repeats_rollouts_and_expectation(http):
    await make_dataset(http)
    for number, wanted in enumerate([{"count": 4, "rollouts_budget": 40}, {"want_effective": 3}]):
        body, key = {"dataset": "guru", **wanted}, {"Idempotency-Key": f"key-{number}"}
        first, again = [await http.post("/select", json=body, headers=key) for _ in range(2)]
        assert again.headers["idempotent-replayed"] == "true"
        assert again.json() == first.json()


@pytest.mark.parametrize(
    ("wanted", "place", "message"),
    [
        ({}, "count", "give either count or want_effective"),
        ({"count": 2, "want_effective": 2}, "want_effective", "not both"),
        ({"want_effective": 2, "rollouts_budget": 32}, "rollouts_budget", "needs count"),
        ({"want_effective": 5, "max_count": 4}, "max_count", "4 tasks can't give 5 effective groups"),
        ({"want_effective": 5, "quotas": {"math": 3}}, "quotas", "give a share"),
        ({"count": 3, "rollouts_budget": 5}, "rollouts_budget", "5 rollouts are too few for 3 tasks"),
        ({"count": 3, "rollouts_budget": 33, "max_rollouts": 10}, "rollouts_budget", "33 rollouts are too many"),
    ],
)
async def test_what_can_not_be_is_refused_where_it_stands(http, wanted, place, message):
    await make_dataset(http)
    answer = await http.post("/select", json={"dataset": "guru", **wanted})
    problem = require_problem(answer, 422, "invalid-selection")
    (error,) = problem["errors"]
    assert error["loc"][:2] == ["body", place]
    assert message in error["msg"]
    assert (await http.get(RUN)).json()["leased"] == 0


@pytest.mark.parametrize("wanted", [{"confidence": 1.0}, {"confidence": 0.1}, {"max_count": 0}, {"want_effective": 0}])
async def test_values_out_of_range_are_refused(http, wanted):
    await make_dataset(http)
    answer = await http.post("/select", json={"dataset": "guru", "want_effective": 2, **wanted})
    assert answer.status_code == 422
