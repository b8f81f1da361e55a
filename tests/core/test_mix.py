"""The mix of a run: what its settings say, what each tag is owed, and how reports move its account."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core import mix_account
from bots_service.core.codec import decode_state, encode_state
from bots_service.core.entries import SettingsChange
from bots_service.core.mix import BALANCES, LARGEST_STEP, MOST_POINTS, MOST_TAGS_MIXED, shares_at, weight_at
from bots_service.core.mix_account import MOST_OWED, MixedTag, counts_by_tag, shares_now, sources_of
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings, settings_from
from bots_service.errors import InvalidSettingsError
from tests.core.journals import replay, report_of

TAGS = {"code": [0, 1, 2], "math": [2, 3, 4, 5], "rare": [6]}
POOL = Pool.of_tasks(np.full((8, 1), 0.5), {tag: np.array(tasks, np.int32) for tag, tasks in TAGS.items()})
EVEN = dict.fromkeys(TAGS, 0.5)

weights = st.floats(0.01, 100.0)
mixes = st.dictionaries(st.sampled_from("abcdefgh"), weights, min_size=1)


def mixed(mix, **settings):
    return settings_from({"mix": mix, **settings})


def shares_of(mix, step=0, *, floor=0.0, balance="tasks", teaching=None):
    return shares_at(mixed(mix).mix, step, floor=floor, balance=balance, teaching=teaching or dict.fromkeys(mix, 0.5))


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
        ({"math": [[0, 0], [9, 0]]}, "above 0"),
        ({"math": []}, "points"),
        ({"math": [[step, 1] for step in range(MOST_POINTS + 1)]}, "points"),
        ({"math": [[0, 1], [0, 2]]}, "ascend"),
        ({"math": [[0, 1, 2]]}, "pair"),
        ({"math": [[0.5, 1]]}, "pair"),
        ({"math": [[True, 1]]}, "pair"),
        ({"math": [[LARGEST_STEP + 1, 1]]}, "pair"),
        ({"math": [5]}, "pair"),
        ({f"t{number}": 1 for number in range(MOST_TAGS_MIXED + 1)}, "at most"),
    ],
)
def test_a_mix_that_is_not_possible_is_refused_with_the_reason(mix, word):
    with pytest.raises(InvalidSettingsError) as refused:
        mixed(mix)
    (flaw,) = refused.value.flaws
    assert flaw.where == ("mix",)
    assert word in flaw.what


def test_a_floor_that_the_tags_can_not_all_have_is_refused():
    assert mixed({"a": 1, "b": 1}, mix_floor=0.5).mix_floor == 0.5
    with pytest.raises(InvalidSettingsError) as refused:
        mixed({"a": 1, "b": 1}, mix_floor=0.51)
    assert [flaw.where for flaw in refused.value.flaws] == [("mix_floor",)]


def test_settings_read_from_json_are_those_that_were_written():
    settings = mixed({"math": [[0, 3], [1000, 1]], "code": 1}, mix_floor=0.05, mix_balance="learning")
    assert list(settings.mix) == ["code", "math"]
    assert settings_from(settings.as_dict()) == settings


# --- shares ----------------------------------------------------------------------------------------------------------


@given(mixes, st.integers(0, 10**6))
def test_shares_follow_the_weights(mix, step):
    shares = shares_of(mix, step)
    assert math.fsum(shares.values()) == pytest.approx(1.0)
    assert shares == pytest.approx({tag: weight / math.fsum(mix.values()) for tag, weight in mix.items()})


@given(mixes, st.floats(0.0, 1.0))
def test_no_share_is_below_the_floor_and_the_others_keep_their_ratios(mix, part):
    floor = part / len(mix)
    shares = shares_of(mix, floor=floor)
    assert math.fsum(shares.values()) == pytest.approx(1.0)
    assert all(share >= floor * (1 - 1e-9) for share in shares.values())
    free = [tag for tag, share in shares.items() if share > floor * (1 + 1e-9)]
    ratios = [shares[tag] / mix[tag] for tag in free]
    assert ratios == pytest.approx([max(ratios, default=0.0)] * len(ratios))


def test_tags_below_the_floor_are_raised_and_those_that_fall_below_it_by_that_too():
    assert shares_of({"a": 98, "b": 1, "c": 1}, floor=0.05) == pytest.approx({"a": 0.9, "b": 0.05, "c": 0.05})
    # b has more than the floor until c is raised.
    raised = shares_of({"a": 70, "b": 20.5, "c": 9.5}, floor=0.2)
    assert raised == pytest.approx({"a": 0.6, "b": 0.2, "c": 0.2})


@given(st.integers(0, 2000))
def test_a_schedule_is_linear_between_its_points_and_constant_outside(step):
    schedule = ((100, 3.0), (500, 1.0), (1000, 2.0))
    expected = np.interp(step, [100, 500, 1000], [3.0, 1.0, 2.0])
    assert weight_at(schedule, step) == pytest.approx(expected)
    assert shares_of({"a": schedule, "b": 1}, step)["a"] == pytest.approx(expected / (expected + 1))


def test_a_schedule_holds_its_ends_and_goes_straight_from_point_to_point():
    schedule = ((10, 1.0), (20, 3.0), (40, 0.0))
    at = {0: 1.0, 10: 1.0, 15: 2.0, 20: 3.0, 30: 1.5, 40: 0.0, 99: 0.0}
    assert {step: weight_at(schedule, step) for step in at} == at


def test_where_all_schedules_stand_at_0_shares_are_equal():
    assert shares_of({"a": [[10, 0], [20, 1]], "b": [[10, 0], [20, 3]]}) == {"a": 0.5, "b": 0.5}


def test_balances_weigh_by_how_often_tags_teach():
    teaching = {"a": 0.8, "b": 0.2}
    assert shares_of({"a": 1, "b": 1}, balance="learning", teaching=teaching) == pytest.approx({"a": 0.8, "b": 0.2})
    effective = shares_of({"a": 1, "b": 1}, balance="effective", teaching=teaching)
    # Equal numbers of effective tasks: share times rate is the same for both.
    assert effective["a"] * 0.8 == pytest.approx(effective["b"] * 0.2)
    hopeless = shares_of({"a": 1, "b": 1}, balance="effective", teaching={"a": 0.8, "b": 1e-9})
    assert hopeless["b"] / hopeless["a"] == pytest.approx(8.0)


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


@given(batches, st.sampled_from(BALANCES), st.sampled_from([None, 3]))
def test_the_account_is_what_a_slow_count_says(reports, balance, tasks_per_step):
    settings = mixed({"code": 3, "math": [[0, 1], [4, 5]]}, mix_balance=balance, tasks_per_step=tasks_per_step)
    state = replay(POOL, [], settings)
    owed, given = dict.fromkeys(settings.mix, 0.0), dict.fromkeys(settings.mix, 0)
    for report in reports:
        shares = shares_now(settings, state.mix, state.step)
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
    assert all(0.0 <= one.effective <= one.tried <= one.given for one in state.mix)
    assert decode_state(encode_state(state)).mix == state.mix


@pytest.mark.no_cover
def test_how_often_a_tag_teaches_is_learned_and_forgotten():
    settings = mixed({"code": 1, "math": 1}, mix_balance="learning")
    solved_code = report_of((0, 4.0, 0.0), (1, 4.0, 0.0), (3, 2.0, 2.0), (4, 1.0, 3.0))
    state = replay(POOL, [solved_code] * 50, settings)
    shares = shares_now(settings, state.mix, state.step)
    assert shares["math"] > 0.85
    only_math = report_of((3, 2.0, 2.0), (4, 1.0, 3.0), (5, 1.0, 3.0))
    later = replay(POOL, [only_math] * 2000, settings, state)
    assert shares_now(settings, later.mix, later.step)["code"] > 0.4


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
    assert state.mix == (
        MixedTag("code", 0.5, 1, 1.0, 1.0),
        MixedTag("math", 0.5, 0, 0.0, 0.0),
    )
    state = replay(POOL, [SettingsChange({"mix": {"math": 1, "rare": 1}})], settings, state)
    state = replay(POOL, [report_of((6, 1.0, 1.0))], state.settings, state)
    assert [(one.tag, one.owed, one.given) for one in state.mix] == [("math", 1.0, 0), ("rare", 0.5, 1)]
    state = replay(POOL, [SettingsChange({"mix": {}})], state.settings, state)
    assert replay(POOL, [report_of((6, 1.0, 1.0))], state.settings, state).mix == ()


def test_appended_tasks_change_nothing_in_a_replay():
    settings = mixed({"code": 1, "math": 1}, mix_balance="effective")
    bodies = [report_of((0, 1.0, 1.0), (3, 0.0, 4.0))] * 5
    longer = {tag: np.array([*tasks, 8], np.int32) for tag, tasks in TAGS.items()}
    appended = Pool.of_tasks(np.full((9, 1), 0.5), longer)
    assert replay(POOL, bodies, settings).mix == replay(appended, bodies, settings).mix


@pytest.mark.parametrize(
    "values",
    [[["code", 1, 0, 0.0, 0.0]], [["code", 1.0, -1, 0.0, 0.0]], [[5, 1.0, 0, 0.0, 0.0]], [["code", 1.0]], 5],
)
def test_damaged_accounts_are_refused(values):
    with pytest.raises((TypeError, ValueError)):
        mix_account.decoded(values)


def test_a_run_without_a_mix_has_no_account():
    assert replay(POOL, [report_of((0, 1.0, 1.0))], RunSettings()).mix == ()
