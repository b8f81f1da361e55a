"""`bots curve` and `bots calibration`: a run's history in few points, and its predictions beside what came."""

from itertools import count

import pytest

from bots_client import Outcome, Task

NAMES = (f"charted-{number}" for number in count())
STEPS = [[("a", 1, 2), ("b", 0, 2)], [("a", 2, 2), ("b", 1, 2)], [("a", 1, 4), ("b", 3, 4)]]


@pytest.fixture
def pool(client):
    """A dataset of two tasks and no history."""
    name = next(NAMES)
    client.create_dataset(name, [Task("a"), Task("b")])
    return name


@pytest.fixture
def tried(client, pool):
    """The same with three closed steps."""
    for step in STEPS:
        client.report(pool, [Outcome.counts(*outcome) for outcome in step])
    return pool


def effective(*steps):
    """The share of the tasks with a gradient: here, those that were solved at times."""
    outcomes = [outcome for step in steps for outcome in step]
    return sum(0 < solved < trials for _, solved, trials in outcomes) / len(outcomes)


def test_a_curve_tells_each_step_or_some_of_them_together(bots, tried):
    points = bots("curve", tried, "--json").json["points"]
    assert [(point["first_step"], point["last_step"]) for point in points] == [(1, 1), (2, 2), (3, 3)]
    assert [point["effective_task_ratio"] for point in points] == [effective(step) for step in STEPS]
    (whole,) = bots("curve", tried, "--points", 1, "--json").json["points"]
    assert whole["effective_task_ratio"] == effective(*STEPS)
    shown = bots.ok("curve", tried, "--points", 1)
    assert "1 to 3" in shown
    assert f"{effective(*STEPS):.3f}" in shown


def test_a_calibration_tells_what_was_predicted_beside_what_came(bots, tried):
    found = bots("calibration", tried, "--json").json
    assert found["steps"] == len(STEPS)
    rollouts = sum(trials for step in STEPS for _, _, trials in step)
    solved = sum(successes for step in STEPS for _, successes, _ in step)
    bins = found["bins"]
    assert sum(one["rollouts"] for one in bins) == rollouts
    assert sum(one["rollouts"] * (one["success_rate"] or 0) for one in bins) == pytest.approx(solved)
    last = bots("calibration", tried, "--steps", 1, "--json").json
    assert (last["steps"], sum(one["rollouts"] for one in last["bins"])) == (
        1,
        sum(trials for _, _, trials in STEPS[-1]),
    )
    shown = bots.ok("calibration", tried)
    (first,) = [one for one in last["bins"] if one["rollouts"]][:1]
    assert f"{first['low']:.1f} to {first['high']:.1f}" in shown
