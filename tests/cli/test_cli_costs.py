"""What rollouts cost, as commands take it and show it."""

import json

import pytest

from bots_client import Task
from bots_service.cli.output import short

OUTCOMES = [
    {"task": "p1", "successes": 1, "trials": 4, "tokens": 5_000_000, "seconds": 7200},
    {"task": "p2", "rewards": [0, 0], "tokens": 1_234},
    {"task": "p3", "status": "aborted", "tokens": 10},
    {"task": "p4", "successes": 1, "trials": 2},
]


@pytest.fixture
def pool(client, bots, tmp_path):
    """A dataset with a step of which most outcomes say their cost."""
    client.create_dataset("costs", [Task(f"p{number}") for number in range(1, 5)])
    file = tmp_path / "outcomes.json"
    file.write_text(json.dumps(OUTCOMES))
    bots.ok("report", "costs", "--from", str(file))
    yield "costs"
    client.delete_dataset("costs")


def test_costs_are_shown_where_they_were_reported(bots, pool):
    found = bots("runs", "show", pool, "--json").json
    assert (found["tokens"]["spent"], found["tokens"]["rollouts"], found["seconds"]["spent"]) == (5_001_244, 6, 7200)
    shown = " ".join(bots.ok("runs", "show", pool).split())
    assert "tokens 5M; 834k per rollout, 5M per effective task; known for 6 of 8 rollouts" in shown
    means = "1.8k GPU seconds per rollout, 7.2k GPU seconds per effective task"
    assert f"GPU hours 2; {means}; known for 4 of 8 rollouts" in shown
    assert all(each in bots.ok("history", pool) for each in ("tokens per effective task", "GPU hours", "5M"))
    assert "1.23k" in bots.ok("tasks", pool, "p2")
    assert "GPU seconds" not in bots.ok("tasks", pool, "p2")
    assert "7.2k" in bots.ok("task-history", pool, "p1")


def test_without_costs_no_column_is_spent_on_them(bots, client):
    client.create_dataset("free", [Task("p1")])
    bots.ok("report", "free", "p1=1/2")
    for command in (("runs", "show"), ("history",), ("tasks",)):
        assert "tokens" not in bots.ok(*command, "free")
    client.delete_dataset("free")


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0"), (0.05123, "0.0512"), (914.4, "914"), (1000, "1k"), (5_529_600, "5.53M"), (2e13, "20T")],
)
def test_numbers_of_any_size_have_three_digits(value, text):
    assert short(value) == text
