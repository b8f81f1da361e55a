"""`bots select` with a budget of rollouts, for effective groups, and within bounds."""

from itertools import count

import pytest

from bots_client import Task

NAMES = (f"wishes-{number}" for number in count())


@pytest.fixture
def pool(client):
    """A dataset of 30 tasks."""
    name = next(NAMES)
    client.create_dataset(name, [Task(f"t{number}", [number / 30]) for number in range(30)], reference_models=["weak"])
    return name


def test_a_budget_is_shown_task_by_task(bots, pool):
    options = ("--rollouts-budget", 60, "--min-rollouts", 3, "--max-rollouts", 20)
    found = bots("select", pool, 5, *options, "--json").json
    assert sum(task["rollouts"] for task in found["tasks"]) == 60
    shown = bots.ok("select", pool, 5, *options)
    assert "rollouts" in shown
    assert "effective groups expected" not in shown
    assert "rollouts" not in bots.ok("select", pool, 2)


def test_a_wish_says_what_to_expect(bots, pool):
    found = bots("select", pool, "--want-effective", 4, "--confidence", 0.8, "--max-count", 12, "--json").json
    assert 4 <= len(found["tasks"]) <= 12
    assert found["expected_effective"] > 4
    assert "effective groups expected" in bots.ok("select", pool, "--want-effective", 4)


def test_bounds_leave_out_what_is_too_easy_or_too_hard(bots, pool):
    found = bots("select", pool, 5, "--min-mean", 0.4, "--max-mean", 0.6, "--json").json
    assert all(0.4 <= task["mean"] <= 0.6 for task in found["tasks"])
    assert any(not 0.4 <= task["mean"] <= 0.6 for task in bots("select", pool, 15, "--json").json["tasks"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "either COUNT or --want-effective"),
        ((3, "--want-effective", 2), "either COUNT or --want-effective"),
        ((3, "--max-rollouts", 9), "need --rollouts-budget"),
        ((3, "--confidence", 0.9), "need --want-effective"),
    ],
)
def test_options_that_do_not_go_together_are_refused(bots, pool, arguments, message):
    refused = bots("select", pool, *arguments)
    assert refused.code != 0
    assert message in " ".join(refused.err.replace("│", " ").split())
