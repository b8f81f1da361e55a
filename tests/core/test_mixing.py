"""The mix of a run: what its settings say, what each tag is owed, and how reports move its account."""

import math
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from bots_service.core import mixing as mix_account
from bots_service.core.codec import decode_state, encode_state
from bots_service.core.draw import NamedTasks, SelectRequest, select_tasks
from bots_service.core.entries import SettingsChange
from bots_service.core.mixing import MOST_OWED, MixAccount, MixedTag, counts_by_tag, deal, shares_of, sources_of
from bots_service.core.pool import Pool
from bots_service.core.run_settings import MOST_TAGS_MIXED, Mix, StrategyName, settings_from
from bots_service.core.state import fresh_state
from bots_service.errors import InvalidSettingsError
from tests.core.journals import replay, report_of
from tests.core.pools import context_of
from tests.sizes import examples

ACCOUNT_TAGS = {"code": [0, 1, 2], "math": [2, 3, 4, 5], "rare": [6]}
ACCOUNT_POOL = Pool.of_tasks(
    np.full((8, 1), 0.5), {tag: np.array(tasks, np.int32) for tag, tasks in ACCOUNT_TAGS.items()}
)


def mixed(mix, **settings):
    return settings_from({"mix": mix, **settings})


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
    assert sources_of(ACCOUNT_POOL, mix, all_tasks).tolist() == [code, code, code, math_, math_, math_, none, none]
    assert counts_by_tag(ACCOUNT_POOL, mix, all_tasks) == {"code": 3, "gone": 0, "math": 3}


pieces = st.tuples(st.integers(0, 7), st.integers(0, 4).map(float), st.integers(0, 4).map(float)).filter(
    lambda piece: piece[1] + piece[2] > 0
)
batches = st.lists(st.lists(pieces, min_size=1, max_size=5, unique_by=lambda piece: piece[0]), max_size=12)


@given(batches, st.sampled_from([None, 3]))
def test_the_account_is_what_a_slow_count_says(reports, tasks_per_step):
    settings = mixed({"code": 3, "math": 1}, tasks_per_step=tasks_per_step)
    state = replay(ACCOUNT_POOL, [], settings)
    owed, given = dict.fromkeys(settings.mix, 0.0), dict.fromkeys(settings.mix, 0)
    for report in reports:
        shares = shares_of(settings.mix)
        by_tag = {
            "code": sum(task in ACCOUNT_TAGS["code"] for task, _, _ in report),
            "math": sum(task in ACCOUNT_TAGS["math"] and task not in ACCOUNT_TAGS["code"] for task, _, _ in report),
        }
        for tag in settings.mix:
            owed[tag] += shares[tag] * sum(by_tag.values())
            given[tag] += by_tag[tag]
        state = replay(ACCOUNT_POOL, [report_of(*report)], settings, state)
    assert {one.tag: one.given for one in state.mix} == {tag: given[tag] for tag in settings.mix if reports}
    assert all(one.owed == pytest.approx(owed[one.tag]) for one in state.mix)
    assert decode_state(encode_state(state)).mix == state.mix


def test_a_difference_is_bounded_and_ratios_stay():
    settings = mixed({"code": 2, "math": 3, "rare": 1})
    state = replay(ACCOUNT_POOL, [report_of((6, 1.0, 1.0))] * 400, settings)
    missing = {one.tag: one.owed - one.given for one in state.mix}
    assert max(map(abs, missing.values())) == pytest.approx(MOST_OWED)
    assert missing["math"] / missing["code"] == pytest.approx(1.5)
    assert math.fsum(missing.values()) == pytest.approx(0.0, abs=1e-9)


def test_other_tags_begin_with_nothing_and_kept_ones_continue():
    settings = mixed({"code": 1, "math": 1})
    state = replay(ACCOUNT_POOL, [report_of((0, 1.0, 1.0))], settings)
    assert state.mix == (MixedTag("code", 0.5, 1), MixedTag("math", 0.5, 0))
    state = replay(ACCOUNT_POOL, [SettingsChange({"mix": {"math": 1, "rare": 1}})], settings, state)
    state = replay(ACCOUNT_POOL, [report_of((6, 1.0, 1.0))], state.settings, state)
    assert [(one.tag, one.owed, one.given) for one in state.mix] == [("math", 1.0, 0), ("rare", 0.5, 1)]
    state = replay(ACCOUNT_POOL, [SettingsChange({"mix": {}})], state.settings, state)
    assert replay(ACCOUNT_POOL, [report_of((6, 1.0, 1.0))], state.settings, state).mix == ()


def test_appended_tasks_change_nothing_in_a_replay():
    settings = mixed({"code": 1, "math": 1})
    bodies = [report_of((0, 1.0, 1.0), (3, 0.0, 4.0))] * 5
    longer = {tag: np.array([*tasks, 8], np.int32) for tag, tasks in ACCOUNT_TAGS.items()}
    appended = Pool.of_tasks(np.full((9, 1), 0.5), longer)
    assert replay(ACCOUNT_POOL, bodies, settings).mix == replay(appended, bodies, settings).mix


# --- mixing by tag: at any count, no tag's tasks differ from its share of all by a whole one -------------------------

PLENTY = 10**6
WEIGHTS = st.lists(st.sampled_from([0.01, 1.0, 1.0, 2.5, 10.0]) | st.floats(0.01, 100.0), min_size=1, max_size=32)
COUNTS = st.lists(st.sampled_from([1, 1, 1, 2, 7, 32, 300]), max_size=60)


def shares_by_weight(weights):
    total = math.fsum(weights)
    return {f"tag {number:02}": weight / total for number, weight in enumerate(weights)}


def dealt(count, shares, *, owed=None, in_flight=None, free=None):
    return deal(
        count,
        shares=shares,
        owed=owed or dict.fromkeys(shares, 0.0),
        in_flight=in_flight or dict.fromkeys(shares, 0),
        free=free or dict.fromkeys(shares, PLENTY),
    )


@settings(deadline=None, max_examples=examples(100))
@given(WEIGHTS, COUNTS, st.randoms(use_true_random=False))
def test_no_tag_ever_differs_from_its_share_by_a_whole_task(weights, counts, random):
    shares = shares_by_weight(weights)
    reported, in_flight, flying = dict.fromkeys(shares, 0), dict.fromkeys(shares, 0), []
    for count in counts:
        total = sum(reported.values())
        owed = {tag: share * total - reported[tag] for tag, share in shares.items()}
        chosen = dealt(count, shares, owed=owed, in_flight=in_flight)
        assert sum(chosen.values()) == count
        flying.append(chosen)
        in_flight = {tag: in_flight[tag] + chosen[tag] for tag in shares}
        every = sum(reported.values()) + sum(in_flight.values())
        # Tijdeman's bound, which is the best possible.
        bound = 1 - 1 / max(2 * len(shares) - 2, 1)
        assert all(abs(share * every - reported[tag] - in_flight[tag]) <= bound + 1e-6 for tag, share in shares.items())
        while flying and random.random() < 0.5:  # selections are reported in any order
            back = flying.pop(random.randrange(len(flying)))
            for tag in shares:
                reported[tag], in_flight[tag] = reported[tag] + back[tag], in_flight[tag] - back[tag]


@given(WEIGHTS, st.integers(1, 400), st.data())
def test_as_many_as_are_wanted_or_free_are_dealt(weights, count, data):
    shares = shares_by_weight(weights)
    free = {tag: data.draw(st.integers(0, 30)) for tag in shares}
    owed = {tag: data.draw(st.floats(-20, 20)) for tag in shares}
    chosen = dealt(count, shares, owed=owed, free=free)
    assert sum(chosen.values()) == min(count, sum(free.values()))
    assert all(0 <= chosen[tag] <= free[tag] for tag in shares)


def test_a_tag_without_free_tasks_leaves_its_turns_and_the_others_keep_their_ratios():
    shares = {"code": 0.5, "lang": 0.1, "math": 0.4}
    given_so_far = dict.fromkeys(shares, 0)
    for _ in range(100):
        owed = {tag: share * sum(given_so_far.values()) - given_so_far[tag] for tag, share in shares.items()}
        chosen = dealt(1, shares, owed=owed, free={"code": 0, "lang": PLENTY, "math": PLENTY})
        given_so_far = {tag: given_so_far[tag] + chosen[tag] for tag in shares}
    assert given_so_far == {"code": 0, "lang": 20, "math": 80}
    # It makes up for them as soon as it has some.
    owed = {tag: share * 100 - given_so_far[tag] for tag, share in shares.items()}
    assert dealt(50, shares, owed=owed)["code"] == 50


def test_a_share_of_nothing_gets_nothing_unless_nothing_else_is_free():
    shares = {"code": 0.0, "math": 1.0}
    assert dealt(40, shares) == {"code": 0, "math": 40}
    assert dealt(40, shares, free={"code": 50, "math": 10}) == {"code": 30, "math": 10}


def test_a_large_selection_takes_what_is_free_and_shares_the_rest():
    shares = {"code": 0.5, "lang": 0.1, "math": 0.4}
    chosen = dealt(1000, shares, free={"code": 20, "lang": PLENTY, "math": PLENTY})
    assert chosen == {"code": 20, "lang": 196, "math": 784}


# --- in a selection --------------------------------------------------------------------------------------------------

TAGS = {"code": range(0, 60), "math": range(50, 150), "lang": range(150, 180), "other": range(180, 200)}
POOL = Pool.of_tasks(
    np.random.default_rng(1).integers(0, 17, (200, 2)) / 16,
    {tag: np.array(tasks, np.int32) for tag, tasks in TAGS.items()},
)
NONE = np.empty(0, np.int32)


def select(count, mix: Mix, account: MixAccount = (), *, leased=NONE, first=NONE, exclude=NONE, pool=POOL, **request):
    run = settings_from({"mix": mix, "strategy": request.pop("strategy", "pass"), **request.pop("settings", {})})
    context = replace(context_of(), settings=run, mix=account)
    asked, named = SelectRequest("pool", count, **request), NamedTasks(np.sort(exclude), first)
    drawn = select_tasks(fresh_state(run, pool).belief, pool, asked, context, named=named, leased=leased)
    return drawn, counts_by_tag(pool, run.mix, drawn.tasks)


@pytest.mark.parametrize("strategy", get_args(StrategyName))
def test_every_strategy_keeps_to_the_mix(strategy: StrategyName):
    drawn, counts = select(20, {"math": 3, "code": 1}, strategy=strategy)
    assert counts == {"code": 5, "math": 15}
    assert len(set(drawn.tasks.tolist())) == 20
    assert drawn.reused == 0


def test_tasks_in_flight_count_and_are_not_selected():
    leased = np.arange(60, 68, dtype=np.int32)  # of math
    drawn, counts = select(8, {"math": 1, "code": 1}, leased=leased)
    assert counts == {"code": 8, "math": 0}
    assert not set(drawn.tasks.tolist()) & set(leased.tolist())


def test_what_was_owed_comes_first():
    account = (MixedTag("code", 6.0, 2), MixedTag("math", 6.0, 10))
    _, counts = select(4, {"math": 1, "code": 1}, account)
    assert counts == {"code": 4, "math": 0}


def test_first_tasks_count_for_the_mix():
    _, counts = select(10, {"math": 1, "code": 1}, first=np.arange(60, 63, dtype=np.int32))
    assert counts == {"code": 5, "math": 5}


def test_the_tags_of_a_request_come_before_the_mix():
    drawn, counts = select(10, {"math": 1, "code": 1}, tags=("math",))
    assert set(drawn.tasks.tolist()) <= set(TAGS["math"])
    # Ten of the tasks with the tag math carry code, too, and count for that.
    assert counts == {"code": 5, "math": 5}
    _, counts = select(10, {"math": 1, "code": 1}, tags=("lang",))
    assert counts == {"code": 0, "math": 0}


def test_excluded_tasks_leave_the_others_and_the_pool_is_used_up_before_tasks_in_flight():
    drawn, counts = select(64, {"lang": 1, "other": 1}, exclude=np.arange(155, 180, dtype=np.int32))
    assert counts == {"lang": 5, "other": 20}
    assert drawn.reused == 0
    leased = np.arange(150, 200, dtype=np.int32)
    drawn, counts = select(64, {"lang": 1, "other": 1}, leased=leased)
    assert (drawn.reused, counts) == (0, {"lang": 0, "other": 0})


def test_a_tag_that_another_replica_has_just_appended_waits():
    older = replace(POOL, tags={tag: tasks for tag, tasks in POOL.tags.items() if tag != "code"})
    _, counts = select(12, {"math": 3, "code": 1}, pool=older)
    assert counts == {"code": 0, "math": 12}


def test_retired_tasks_are_not_dealt():
    retired = replace(POOL, retired=np.arange(150, 178, dtype=np.int32))
    drawn, counts = select(20, {"lang": 1, "math": 1}, pool=retired)
    assert counts == {"lang": 2, "math": 18}
    assert not set(drawn.tasks.tolist()) & set(range(150, 178))
