"""Rows become tasks: ids that the importer and a trainer agree on, pass rates, tags."""

import hashlib
import json
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_client import InvalidRequestError, TaskColumns

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
        (TaskColumns(id_from="row", references=["r"]), {"r": "0.5"}, "'0.5'"),
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
