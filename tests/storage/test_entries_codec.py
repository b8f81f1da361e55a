"""Journal entries as text: a format that databases hold for years."""

import base64
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.entries import Body, Fork, Report, Rewind, SettingsChange
from bots_service.core.evidence import Costs, Evidence
from bots_service.errors import DamagedStateError
from bots_service.storage.sql.codecs import decode_body, encode_body


def report_of(tasks: list[int], successes: list[float], failures: list[float], effective: list[bool]) -> Report:
    columns = np.array(tasks, np.int32), np.array(successes), np.array(failures), np.array(effective, bool)
    return Report(Evidence(*columns), 12, None)


counts = [7.0, 0.1 + 0.2, 1 / 3, 5e-324]
flags = [True, False, False, True]
GOLDEN: list[tuple[Body, dict[str, object]]] = [
    (
        report_of([3, 1, 3, 0], counts, counts[::-1], flags),
        {"kind": "report", "tasks": [3, 1, 3, 0], "successes": counts, "failures": counts[::-1], "effective": flags}
        | {"made_at": 12, "close": None},
    ),
    (
        replace(report_of([3], [1.0], [3.0], [True]), costs=Costs(70.5)),
        {"kind": "report", "tasks": [3], "successes": [1.0], "failures": [3.0], "effective": [True], "made_at": 12}
        | {"close": None, "tokens": 70.5},
    ),
    (SettingsChange({"target": 1 / 3}), {"kind": "settings", "settings": {"target": 1 / 3}}),
    (Rewind(17, 9), {"kind": "rewind", "to_seq": 17, "to_step": 9}),
    (
        Fork("ü", 4, bytes(range(256))),
        {"kind": "fork", "parent": "ü", "parent_seq": 4, "state": base64.b64encode(bytes(range(256))).decode()},
    ),
]


@pytest.mark.parametrize(("body", "values"), GOLDEN)
def test_the_format_of_each_kind_stays(body: Body, values: dict[str, object]):
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False)
    assert encode_body(body) == text
    assert encode_body(decode_body(text)) == text


@given(st.lists(st.tuples(st.floats(0, allow_nan=False, allow_infinity=False), st.booleans())))
def test_every_count_and_flag_reads_back_exactly(rows: list[tuple[float, bool]]):
    numbers, told = [row[0] for row in rows], [row[1] for row in rows]
    read = decode_body(encode_body(report_of(list(range(len(numbers))), numbers, numbers, told)))
    assert isinstance(read, Report)
    assert (read.evidence.effective.tolist(), read.evidence.effective.dtype.name) == (told, "bool")
    assert read.evidence.successes.tobytes() == np.array(numbers, np.float64).tobytes()
    assert (read.evidence.tasks.dtype.name, read.evidence.failures.dtype.name) == ("int32", "float64")


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_count_that_json_can_not_hold_is_refused(number: float):
    with pytest.raises(ValueError, match="not finite"):
        encode_body(report_of([1], [1.0], [number], [True]))


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"kind":"report","tasks":[1]',
        '{"kind":"unheard"}',
        '{"kind":"rewind","to_seq":1}',
        '{"kind":"settings","settings":{"target":7}}',
        encode_body(report_of([1], [1.0], [1.0], [True])).replace("[1]", "[99999999999]"),
    ],
)
def test_damaged_text_is_reported(text: str):
    with pytest.raises(DamagedStateError):
        decode_body(text)
