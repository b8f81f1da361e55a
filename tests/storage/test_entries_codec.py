"""Journal entries as text: a format that databases hold for years."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.entries import Body, Probe, Report, Rewind, SettingsChange
from bots_service.core.evidence import Costs, Evidence
from bots_service.errors import DamagedStateError
from bots_service.records import EntryKind
from bots_service.storage.sql.journal import KINDS, MOST_BYTES, decode_body, encode_body


def report_of(tasks: list[int], successes: list[float], failures: list[float], effective: list[bool]) -> Report:
    columns = np.array(tasks, np.int32), np.array(successes), np.array(failures), np.array(effective, bool)
    return Report(Evidence(*columns), 12, None)


counts = [7.0, 0.1 + 0.2, 1 / 3, 5e-324]
flags = [True, False, False, True]
EVIDENCE = {"tasks": [3, 1, 3, 0], "successes": counts, "failures": counts[::-1], "effective": flags}
GOLDEN: list[tuple[EntryKind, Body, dict[str, object]]] = [
    (
        "report",
        report_of([3, 1, 3, 0], counts, counts[::-1], flags),
        {"evidence": EVIDENCE, "made_at": 12, "close": None},
    ),
    (
        "report",
        replace(report_of([3, 1, 3, 0], counts, counts[::-1], flags), costs=Costs(70.5), selection=(4, 1)),
        {"evidence": EVIDENCE, "made_at": 12, "close": None, "costs": [70.5, 0.0], "selection": [4, 1]},
    ),
    ("settings", SettingsChange({"target": 1 / 3}), {"values": {"target": 1 / 3}}),
    ("rewind", Rewind(17, 9), {"to_seq": 17, "to_step": 9}),
]


@pytest.mark.parametrize(("kind", "body", "values"), GOLDEN)
def test_the_format_of_each_kind_stays(kind: EntryKind, body: Body, values: dict[str, object]):
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False)
    assert KINDS[type(body)] == kind
    assert encode_body(body) == text
    assert encode_body(decode_body(kind, text)) == text


@given(st.lists(st.tuples(st.floats(0, allow_nan=False, allow_infinity=False), st.booleans())))
def test_every_count_and_flag_reads_back_exactly(rows: list[tuple[float, bool]]):
    numbers, told = [row[0] for row in rows], [row[1] for row in rows]
    read = decode_body("report", encode_body(report_of(list(range(len(numbers))), numbers, numbers, told)))
    assert isinstance(read, Report)
    assert (read.evidence.effective.tolist(), read.evidence.effective.dtype.name) == (told, "bool")
    assert read.evidence.successes.tobytes() == np.array(numbers, np.float64).tobytes()
    assert (read.evidence.tasks.dtype.name, read.evidence.failures.dtype.name) == ("int32", "float64")


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_count_that_json_can_not_hold_is_refused(number: float):
    with pytest.raises(ValueError, match="not finite"):
        encode_body(report_of([1], [1.0], [number], [True]))


def test_the_format_of_a_probe_stays():
    read = decode_body("probe", '{"scores":"eAFrZFAAAAGmAKI="}')  # zlib's own bytes differ from one to the next
    assert isinstance(read, Probe)
    assert read.scores.tolist() == [-127, 0, 32]


@given(st.binary())
def test_every_score_reads_back_exactly(scores: bytes):
    read = decode_body("probe", encode_body(Probe(np.frombuffer(scores, np.int8))))
    assert isinstance(read, Probe)
    assert (read.scores.tobytes(), read.scores.flags.writeable) == (scores, False)


def test_scores_of_many_tasks_take_little_more_than_a_byte_each():
    scores = np.random.default_rng(0).normal(0, 32, 100_000).clip(-127, 127).astype(np.int8)
    assert len(encode_body(Probe(scores))) < 1.4 * len(scores)
    assert len(encode_body(Probe(np.where(np.arange(100_000) < 500, scores, np.int8(0))))) < 1500


REPORT = encode_body(report_of([1], [1.0], [1.0], [True]))
PACKED = encode_body(Probe(np.ones(100, np.int8)))
BOMB = encode_body(Probe(np.zeros(MOST_BYTES + 1, np.int8)))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("report", ""),
        ("report", REPORT[:-1]),
        ("rewind", '{"to_seq":1}'),
        ("settings", '{"values":{"target":7}}'),
        ("probe", "{}"),
        *(("probe", json.dumps({"scores": scores})) for scores in ([1, 2], "é", "AAAA", 7)),
        ("probe", PACKED[:-8] + '"}'),
        ("probe", BOMB),
        *(("report", REPORT.replace("[1]", tasks)) for tasks in ("[99999999999]", "[1.5]", "[[1]]", "[null]", "7")),
        *(("report", REPORT.replace("[1.0]", counts)) for counts in ("[true]", '["1"]', "[1.0,2.0]")),
    ],
)
def test_damaged_text_is_reported(kind: EntryKind, text: str):
    with pytest.raises(DamagedStateError):
        decode_body(kind, text)
