"""The mix of a run: what its settings say, what each tag is owed, and how reports move its account."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from bots_service.core import mixing as mix_account
from bots_service.core.codec import decode_state, encode_state
from bots_service.core.entries import SettingsChange
from bots_service.core.mixing import MOST_OWED, MixedTag, counts_by_tag, shares_of, sources_of
from bots_service.core.pool import Pool
from bots_service.core.run_settings import MOST_TAGS_MIXED, settings_from
from bots_service.errors import InvalidSettingsError
from tests.core.journals import replay, report_of

TAGS = {"code": [0, 1, 2], "math": [2, 3, 4, 5], "rare": [6]}
POOL = Pool.of_tasks(np.full((8, 1), 0.5), {tag: np.array(tasks, np.int32) for tag, tasks in TAGS.items()})


def mixed(mix, **settings):
    return settings_from({"mix": mix, **settings})


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mix", "word"),
    [
        ([], "object"),
        ({"math": -1}, "weight"),
        ({"math": "3"}, "weight"),
        ({"math": True}, "weight"),
        ({"math": math.nan}, "weight"),
        ({"math": 1e7}, "weight"),
        ({"math": 0, "code": 0.0}, "above 0"),
        ({"math": [[0, 1]]}, "weight"),
        ({f"t{number}": 1 for number in range(MOST_TAGS_MIXED + 1)}, "at most"),
    ],
)
def test_a_mix_that_is_not_possible_is_refused_with_the_reason(mix, word):
    with pytest.raises(InvalidSettingsError) as refused:
        mixed(mix)
    (flaw,) = refused.value.flaws
    assert flaw.where == ("mix",)
    assert word in flaw.what


def test_settings_read_from_json_are_those_that_were_written():
    settings = mixed({"math": 3, "code": 1})
    assert list(settings.mix) == ["code", "math"]
    assert settings_from(structs.asdict(settings)) == settings


# --- the account -----------------------------------------------------------------------------------------------------


def test_a_task_counts_for_the_first_of_its_tags():
    mix = mixed({"math": 1, "code": 1, "gone": 1}).mix
    all_tasks = np.arange(8, dtype=np.int32)
    code, math_, none = list(mix).index("code"), list(mix).index("math"), mix_account.NONE
    assert sources_of(POOL, mix, all_tasks).tolist() == [code, code, code, math_, math_, math_, none, none]
    assert counts_by_tag(POOL, mix, all_tasks) == {"code": 3, "gone": 0, "math": 3}


pieces = st.tuples(st.integers(0, 7), st.integers(0, 4).map(float), st.integers(0, 4).map(float)).filter(
    lambda piece: piece[1] + piece[2] > 0
)
batches = st.lists(st.lists(pieces, min_size=1, max_size=5, unique_by=lambda piece: piece[0]), max_size=12)


@given(batches, st.sampled_from([None, 3]))
def test_the_account_is_what_a_slow_count_says(reports, tasks_per_step):
    settings = mixed({"code": 3, "math": 1}, tasks_per_step=tasks_per_step)
    state = replay(POOL, [], settings)
    owed, given = dict.fromkeys(settings.mix, 0.0), dict.fromkeys(settings.mix, 0)
    for report in reports:
        shares = shares_of(settings.mix)
        by_tag = {
            "code": sum(task in TAGS["code"] for task, _, _ in report),
            "math": sum(task in TAGS["math"] and task not in TAGS["code"] for task, _, _ in report),
        }
        for tag in settings.mix:
            owed[tag] += shares[tag] * sum(by_tag.values())
            given[tag] += by_tag[tag]
        state = replay(POOL, [report_of(*report)], settings, state)
    assert {one.tag: one.given for one in state.mix} == {tag: given[tag] for tag in settings.mix if reports}
    assert all(one.owed == pytest.approx(owed[one.tag]) for one in state.mix)
    assert decode_state(encode_state(state)).mix == state.mix


def test_a_difference_is_bounded_and_ratios_stay():
    settings = mixed({"code": 2, "math": 3, "rare": 1})
    state = replay(POOL, [report_of((6, 1.0, 1.0))] * 400, settings)
    missing = {one.tag: one.owed - one.given for one in state.mix}
    assert max(map(abs, missing.values())) == pytest.approx(MOST_OWED)
    assert missing["math"] / missing["code"] == pytest.approx(1.5)
    assert math.fsum(missing.values()) == pytest.approx(0.0, abs=1e-9)


def test_other_tags_begin_with_nothing_and_kept_ones_continue():
    settings = mixed({"code": 1, "math": 1})
    state = replay(POOL, [report_of((0, 1.0, 1.0))], settings)
    assert state.mix == (MixedTag("code", 0.5, 1), MixedTag("math", 0.5, 0))
    state = replay(POOL, [SettingsChange({"mix": {"math": 1, "rare": 1}})], settings, state)
    state = replay(POOL, [report_of((6, 1.0, 1.0))], state.settings, state)
    assert [(one.tag, one.owed, one.given) for one in state.mix] == [("math", 1.0, 0), ("rare", 0.5, 1)]
    state = replay(POOL, [SettingsChange({"mix": {}})], state.settings, state)
    assert replay(POOL, [report_of((6, 1.0, 1.0))], state.settings, state).mix == ()


def test_appended_tasks_change_nothing_in_a_replay():
    settings = mixed({"code": 1, "math": 1})
    bodies = [report_of((0, 1.0, 1.0), (3, 0.0, 4.0))] * 5
    longer = {tag: np.array([*tasks, 8], np.int32) for tag, tasks in TAGS.items()}
    appended = Pool.of_tasks(np.full((9, 1), 0.5), longer)
    assert replay(POOL, bodies, settings).mix == replay(appended, bodies, settings).mix
