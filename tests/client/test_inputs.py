"""What a program gives: outcomes, tasks of rows, and arguments of the wrong kind, refused before anything is sent."""

import hashlib
import json
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_client import InvalidRequestError, Outcome, ResilientClient, Selector, Task, TaskColumns
from bots_client._inputs import MAX_REWARDS, joined
from tests.client.answers import DATASET, RECEIPT, RUN, SELECTION
from tests.client.scripted_server import answer
from tests.serving import NOWHERE

ONE = Outcome.counts("t1", 7, 16)
# as a program without a type checker sees them
AnyOutcome: Any = Outcome
AnyResilientClient: Any = ResilientClient
AnySelector: Any = Selector
AnyTask: Any = Task


@pytest.mark.parametrize(
    ("mistake", "named"),
    [
        (lambda bots: bots.report("pool", ("t1", 7, 16)), "outcomes[0]"),
        (lambda bots: bots.report("pool", ONE), "outcomes"),
        (lambda bots: bots.report([ONE], "pool"), "dataset"),
        (lambda bots: bots.report("pool", [ONE], selection=["s-1"]), "selection"),
        (lambda bots: bots.select(32, "pool"), "dataset"),
        (lambda bots: bots.select("pool", "32"), "count"),
        (lambda bots: bots.select("pool", 2, tags="math"), "tags"),
        (lambda bots: bots.select("pool", 2, first=["a", 7]), "first[1]"),
        (lambda bots: bots.rewind("pool", "r1", 400), "run"),
        (lambda bots: bots.create_dataset("pool", ["t1"]), "tasks[0]"),
        (lambda bots: bots.create_dataset("pool", [AnyTask(7)]), "id"),
        (lambda _: AnyOutcome.rewards(7, [1]), "task"),
        (lambda _: AnyOutcome.rewards("t1", {"a": 1}), "rewards of task t1"),
        (lambda _: AnyOutcome.rewards("t1", "10"), "rewards of task t1"),
        (lambda _: AnySelector("pool", "default", ids=["t1"]), "client"),
        (lambda _: AnySelector(None, "pool", ids="t1"), "ids"),
        (lambda _: AnySelector(None, "pool", ids=["t1", 3]), "ids[1]"),
        (lambda _: AnySelector(None, "pool", ids=["t1"], tags="math"), "tags"),
        (lambda _: AnyResilientClient(NOWHERE).select("pool", 2, ids="t1"), "ids"),
        (lambda _: AnyResilientClient(NOWHERE).report("pool", ("t1", 7, 16)), "outcomes[0]"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_named(connect, mistake, named, monkeypatch, tmp_path):
    monkeypatch.setenv("BOTS_SPOOL", str(tmp_path))
    with pytest.raises(TypeError, match=rf"^{re.escape(named)}: "):
        mistake(connect(NOWHERE))


def test_what_numpy_and_generators_give_is_taken(serve, connect):
    two: Any = np.int64(2)
    server = serve(answer(SELECTION), answer(RUN), answer(DATASET), answer(RECEIPT))
    bots = connect(server)
    bots.select("pool", two, tags=np.array(["math"]))
    bots.rewind("pool", two)
    bots.append_tasks("pool", (Task(id_) for id_ in ["t1"]))
    bots.report("pool", (Outcome.rewards("t1", np.array([1, 0.5])) for _ in range(1)))
    sent = [b'"count":2,"tags":["math"]', b'"step":2', b'{"id":"t1"}', b'"rewards":[1,0.5]']
    assert [part in request.body for part, request in zip(sent, server.received, strict=True)] == [True] * 4


def test_counts_with_rewards_are_joined_by_task_in_their_order():
    parts = [
        Outcome.counts("a", 1, 2, rewards=[1.2, 0]),
        Outcome.counts("b", 0, 1, rewards=[0.2]),
        Outcome.counts("a", 1, 1, rewards=[1]),
    ]
    assert joined(parts) == [Outcome.counts("a", 2, 3, rewards=[1.2, 0, 1]), parts[1]]


def test_what_says_the_same_in_parts_stays_as_it_is():
    parts = [
        Outcome.counts("a", 1, 2),
        Outcome.rewards("a", [0, 1]),
        Outcome.aborted("a"),
        Outcome.counts("a", 1, 2, rewards=[1, 0], effective=True),
        Outcome.counts("a", 1, 2, rewards=[1, 0]),
    ]
    assert joined([*parts, *parts[:4]]) == [*parts, *parts[:4]]


def test_no_outcome_holds_more_rewards_than_the_service_takes():
    full, one = Outcome.counts("a", 0, MAX_REWARDS, rewards=[0] * MAX_REWARDS), Outcome.counts("a", 0, 1, rewards=[0])
    assert joined([full, one, one]) == [full, one, one]


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), None])
def test_a_rollout_without_a_reward_is_left_out(reward):
    shown = Outcome.rewards("a", [1, reward, 0])
    counted = Outcome.counts("a", 1, 3, rewards=[1, reward, 0])
    assert (shown.as_wire(), shown.left_out) == ({"task": "a", "rewards": (1, 0)}, 1)
    assert counted.as_wire() == {"task": "a", "successes": 1, "trials": 2, "rewards": (1, 0)}
    assert Outcome.rewards("a", [reward]).as_wire() == Outcome.aborted("a").as_wire()
    assert Outcome.counts("a", 0, 1, rewards=[reward]).is_aborted


@pytest.mark.parametrize("effective", ["false", 0.5, [True], float("nan")])
def test_an_effective_that_is_neither_true_nor_false_is_refused_by_its_task(effective):
    with pytest.raises(InvalidRequestError):
        Outcome.counts("math-17", 1, 2, effective=effective)


def test_a_cost_goes_onto_the_wire_and_is_joined_with_its_group():
    parts = [
        Outcome.counts("a", 1, 2, rewards=[1, 0], tokens=300, seconds=1.5),
        Outcome.counts("a", 1, 1, rewards=[1], tokens=100, seconds=0.25),
        Outcome.counts("a", 0, 1, rewards=[0]),  # nobody says what it cost
        Outcome.rewards("b", [1], tokens=7),
        Outcome.aborted("c", seconds=2),
    ]
    whole, apart, *others = joined(parts)
    assert whole.as_wire() == {
        "task": "a",
        "successes": 2,
        "trials": 3,
        "rewards": (1, 0, 1),
        "tokens": 400,
        "seconds": 1.75,
    }
    assert (apart, others) == (parts[2], parts[3:])
    assert others[0].as_wire() == {"task": "b", "rewards": (1,), "tokens": 7}
    assert others[1].as_wire() == {"task": "c", "status": "aborted", "seconds": 2}
    assert others[1].is_aborted


ROW = {
    "data_source": "openai/gsm8k",
    "prompt": [{"role": "user", "content": "1 + 1?"}],
    "ability": "math",
    "qwen2.5_7b_pass_rate": 0.25,
    "extra_info": {"index": 17, "level.of": {"words": 3}},
}


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("data_source", "openai/gsm8k"),
        ("extra_info.index", "17"),
        ("extra_info.level.of.words", "3"),
        (["data_source", "extra_info.index"], "openai/gsm8k:17"),
    ],
)
def test_an_id_is_made_of_columns_and_of_columns_inside_columns(columns, expected):
    assert TaskColumns(columns).id_of(ROW) == expected


def test_a_row_number_is_an_id_that_needs_no_column():
    columns = TaskColumns(id_from="row")
    assert [task.id for task in columns.tasks([ROW, ROW], first=5)] == ["5", "6"]
    assert columns.named == ()


def test_a_content_id_is_the_hash_of_sorted_json():
    said = json.dumps(["openai/gsm8k", [{"content": "1 + 1?", "role": "user"}]], separators=(",", ":"))
    assert (
        TaskColumns(["data_source", "prompt"], "content").id_of(ROW) == hashlib.sha256(said.encode()).hexdigest()[:32]
    )


def test_a_content_id_does_not_depend_on_what_read_the_row():
    columns = TaskColumns("value", "content")
    same: list[dict[str, Any]] = [
        {"value": [{"a": 1, "b": [0.5, 2]}]},
        {"value": ({"b": np.array([0.5, 2.0]), "a": np.int64(1), "c": None},)},
        {"value": [{"b": [0.5, 2.0], "a": 1.0}], "other": 3},
        {"value": [{"b": [0.5, 2.0], "a": 1, "c": float("nan")}]},
        {"value": [{"b": [0.5, 2.0], "a": 1, "c": np.float32("nan")}]},
    ]
    assert len({columns.id_of(row) for row in same}) == 1
    assert columns.id_of({"value": [{"a": 1, "b": [2, 0.5]}]}) != columns.id_of(same[0])


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=8))
def test_a_content_id_survives_being_written_as_json_and_read_again(value):
    columns = TaskColumns(["kind", "value"], "content")
    row = {"kind": "x", "value": value}
    assert columns.id_of(json.loads(json.dumps(row))) == columns.id_of(row)


def test_pass_rates_are_numbers_or_means_of_rewards():
    columns = TaskColumns(id_from="row", references=["rate"])
    values = [0.25, 1, None, float("nan"), np.float32(0.5), Decimal("0.5"), [1, 0, 0, True], [], [None, 1]]
    assert [list(task.reference_pass_rates) for task in columns.tasks({"rate": value} for value in values)] == [
        [0.25], [1], [None], [None], [0.5], [0.5], [2 / 4], [None], [1],
    ]  # fmt: skip


def test_a_tag_says_its_column_unless_the_column_is_called_tags():
    columns = TaskColumns(id_from="row", tags=["level", "extra_info.hard", "tags"])
    rows: list[dict[str, Any]] = [
        {"level": 1, "extra_info": {"hard": True}, "tags": ["math", "easy", "math"]},
        {"level": 1.0, "extra_info": {"hard": None}, "tags": None},
        {"level": "", "extra_info": None, "tags": "math"},
    ]
    assert [task.tags for task in columns.tasks(rows)] == [
        ["level=1", "extra_info.hard=true", "math", "easy"],
        ["level=1"],
        ["math"],
    ]


@pytest.mark.parametrize(
    ("columns", "row", "named"),
    [
        (TaskColumns(), {"name": "x"}, "id"),
        (TaskColumns("a.b"), {"a": {"c": 1}}, "a.b"),
        (TaskColumns("a.b"), {"a": 1}, "a.b"),
        (TaskColumns(), {"id": ""}, "id"),
        (TaskColumns(), {"id": 1.5}, "1.5"),
        (TaskColumns(), {"id": True}, "True"),
        (TaskColumns("a", "content"), {"b": 1}, "a"),
        (TaskColumns("a", "content"), {"a": b"x"}, "b'x'"),
        (TaskColumns(id_from="row", references=["r"]), {"r": "half"}, "'half'"),
        (TaskColumns(id_from="row", references=["r"]), {"r": True}, "True"),
        (TaskColumns(id_from="row", references=["r"]), {"r": float("inf")}, "inf"),
        (TaskColumns(id_from="row", references=["r"]), {"r": Decimal("-Infinity")}, "-inf"),
        (TaskColumns(id_from="row", references=["r"]), {"r": 10**400}, "1000"),
        (TaskColumns(id_from="row", references=["r"]), {"r": [0, 2]}, "[0, 2]"),
        (TaskColumns(id_from="row", tags=["t"]), {"t": {"a": "x" * 99}}, "..."),
    ],
)
def test_a_row_that_makes_no_task_is_named(columns, row, named):
    with pytest.raises(InvalidRequestError, match=rf"^row 3: .*{re.escape(named)}"):
        list(columns.tasks([row], first=3))


@pytest.mark.parametrize("arguments", [{"id_from": "rows"}, {"tags": "level"}, {"references": "weak"}, {"id": []}])
def test_columns_that_can_not_be_meant_are_refused(arguments):
    with pytest.raises(InvalidRequestError):
        TaskColumns(**arguments)
