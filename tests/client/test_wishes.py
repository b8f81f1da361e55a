"""What a selection asks of its groups, on the wire and as answers."""

import json
from typing import Any

import pytest

from bots_client import EffectiveGroups, RolloutsBudget
from bots_client._calls import step_calls
from tests.client.answers import SELECTION


def body_of(call: Any) -> bytes:
    return call.body


def sent(*arguments, **wanted):
    """The body of a select, without the names that each has."""
    body: dict[str, Any] = json.loads(body_of(step_calls.select("guru", *arguments, **wanted)))
    return {name: value for name, value in body.items() if name not in ("dataset", "run")}


@pytest.mark.parametrize(
    ("arguments", "wanted", "body"),
    [
        ((4,), {}, {"count": 4}),
        ((4,), {"rollouts_budget": 64}, {"count": 4, "rollouts_budget": 64}),
        (
            (4,),
            {"rollouts_budget": RolloutsBudget(64, least=4, most=32)},
            {"count": 4, "rollouts_budget": 64, "min_rollouts": 4, "max_rollouts": 32},
        ),
        ((), {"want_effective": 32}, {"want_effective": 32}),
        (
            (),
            {"want_effective": EffectiveGroups(32, confidence=0.8, max_count=99)},
            {"want_effective": 32, "confidence": 0.8, "max_count": 99},
        ),
    ],
)
def test_wishes_become_fields_of_the_request(arguments, wanted, body):
    assert sent(*arguments, **wanted) == body


@pytest.mark.parametrize(("arguments", "wanted", "got"), [((), {}, "neither"), ((4,), {"want_effective": 2}, "both")])
def test_a_selection_needs_either_a_count_or_a_wish(arguments, wanted, got):
    with pytest.raises(TypeError, match=f"either count or want_effective, got {got}"):
        step_calls.select("guru", *arguments, **wanted)


def test_answers_bring_rollouts_and_expectation():
    tasks = [{**task, "rollouts": 3 + place} for place, task in enumerate(SELECTION["tasks"])]
    body = json.dumps({**SELECTION, "tasks": tasks, "expected_effective": 1.5}).encode()
    selection = step_calls.select("guru", 1).parse(body)
    assert [task.rollouts for task in selection.tasks] == [3 + place for place in range(len(tasks))]
    assert selection.expected_effective == 1.5
    plain = step_calls.select("guru", 1).parse(json.dumps(SELECTION).encode())
    assert plain.expected_effective is None
    assert {task.rollouts for task in plain.tasks} == {None}
