"""Saving the rest of a report that was refused in part."""

import json

import pytest

from bots_client import FieldError
from bots_client._resilience.delivery import split_report

BODY = json.dumps({"dataset": "guru", "outcomes": [{"task": name} for name in "abcd"]}).encode()


def at(*loc):
    return FieldError(("body", *loc), "it cannot be true")


def tasks_in(body):
    return [outcome["task"] for outcome in json.loads(body)["outcomes"]]


def test_outcomes_with_flaws_are_told_from_the_others():
    parts = split_report(BODY, [at("outcomes", 1, "task"), at("outcomes", 3), at("outcomes", 1, "trials")])

    assert parts is not None
    sound, flawed = parts
    assert (tasks_in(sound), tasks_in(flawed)) == (["a", "c", "d"], ["b", "d"])
    assert json.loads(sound)["dataset"] == json.loads(flawed)["dataset"] == "guru"


def test_a_task_whose_outcome_cannot_be_true_is_given_back():
    parts = split_report(BODY, [at("outcomes", 1), at("outcomes", 3, "task")])

    assert parts is not None
    assert json.loads(parts[0])["outcomes"] == [{"task": "a"}, {"task": "b", "status": "aborted"}, {"task": "c"}]


def test_a_step_does_not_close_without_evidence():
    body = json.dumps({"close_step": True, "outcomes": [{"task": "a"}, {"task": "b"}]}).encode()
    parts = [split_report(body, [at("outcomes", place) for place in range(count)]) for count in (1, 2)]

    assert [json.loads(sound)["close_step"] for sound, _ in filter(None, parts)] == [True, False]


@pytest.mark.parametrize(
    "flaws",
    [
        [],
        [at("outcomes")],
        [at("dataset")],
        [at("outcomes", 1), at("run")],
        [at("outcomes", n, "task") for n in range(4)],
        [at("outcomes", 4)],
    ],
    ids=["none", "all of them", "elsewhere", "here and elsewhere", "every one", "one that is not there"],
)
def test_a_report_that_cannot_be_saved_is_left_whole(flaws):
    assert split_report(BODY, flaws) is None
