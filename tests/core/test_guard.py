"""The verifier guard: what raises an alarm, and when it ends."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

from bots_service.core.codec import decode_state, encode_state
from bots_service.core.entries import Body, Report
from bots_service.core.evidence import ClosingStep
from bots_service.core.guard import ALARM, AT_ONCE, LEAST_CHANCE, Streak
from bots_service.core.pool import MOST_WATCHED, Pool
from bots_service.core.run_settings import settings_from
from bots_service.core.state import RunState
from bots_service.core.walks import WHOLE, Walk
from tests.core.journals import pool_of, replay, report_of

COUNT = 40  # tasks; the odd ones carry "tag 0"
POOL = pool_of(*[()] * COUNT, carried=[task % 2 for task in range(COUNT)])
TRIALS = 8
OUTCOMES = (6, 3, 5, 4)  # successes of usual groups, in turn
ODD, EVEN = range(1, COUNT, 2), range(0, COUNT, 2)
STARTED = 6  # steps


def usual(step: int, tasks: Sequence[int] = range(COUNT)) -> Report:
    return report_of(*((task, float(won := OUTCOMES[(task // 2 + step) % 4]), float(TRIALS - won)) for task in tasks))


def equal(successes: int, tasks: Sequence[int] = range(COUNT), *, others: int | None = None) -> Report:
    """A step whose groups of these tasks are all alike; the others, if any, are as usual in the given step."""
    rows = [(task, float(successes), float(TRIALS - successes)) for task in tasks]
    if others is not None:
        rest = usual(others, [task for task in range(COUNT) if task not in tasks]).evidence
        rows += zip(rest.tasks.tolist(), rest.successes.tolist(), rest.failures.tolist(), strict=True)
    return report_of(*rows)


BEFORE: list[Body] = [usual(step) for step in range(STARTED)]


def run(bodies: Sequence[Body], *, pool: Pool = POOL, **settings: Any) -> RunState:
    return replay(pool, bodies, settings_from({"rollouts_per_task": TRIALS, **settings}))


def of_tag(state: RunState) -> Streak:
    (found,) = [streak for streak in state.guard.streaks if streak.tag]
    return found


# --- what raises an alarm --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("belief", ["bots", "tracker"])
@pytest.mark.parametrize(("successes", "outcome"), [(0, "failed"), (TRIALS, "succeeded")])
def test_groups_that_are_all_alike_at_once_raise_an_alarm(successes, outcome, belief):
    state = run([*BEFORE, equal(successes)], belief=belief)
    whole, tag = state.guard.alarms
    assert (whole.tag, whole.outcome, whole.since_step, whole.last_step) == (None, outcome, 7, 7)
    assert whole.groups == COUNT
    assert (tag.tag, tag.groups) == ("tag 0", COUNT // 2)
    assert LEAST_CHANCE**COUNT <= whole.chance <= ALARM
    assert run(BEFORE).guard.streaks == ()


def test_a_tag_alone_raises_its_own_alarm():
    state = run([*BEFORE, equal(0, ODD, others=6)])
    (found,) = state.guard.alarms
    assert (found.tag, found.groups) == ("tag 0", len(ODD))


def test_few_groups_raise_it_by_and_by():
    few = [list(ODD)[start : start + 2] for start in range(0, 16, 2)]
    steps: list[Body] = [equal(0, tasks) for tasks in few]
    states = [run([*BEFORE, *steps[:count]]) for count in range(1, len(few) + 1)]
    assert [len(state.guard.alarms) for state in states] == sorted(len(state.guard.alarms) for state in states)
    assert (of_tag(states[0]).groups, len(states[0].guard.alarms), len(states[-1].guard.alarms)) == (2, 0, 2)
    assert [streak.groups for streak in states[-1].guard.alarms] == [16, 16]


def test_a_step_without_the_tag_neither_adds_to_its_streak_nor_ends_it():
    few: list[Body] = [equal(0, [1, 3]), equal(0, [5, 7])]
    apart = of_tag(run([*BEFORE, few[0], usual(6, EVEN), few[1]]))
    assert (apart.groups, apart.since_step, apart.last_step) == (4, 7, 9)
    assert of_tag(run([*BEFORE, few[0], usual(6), few[1]])).groups == 2


def test_tasks_that_always_failed_raise_none_however_often_they_fail():
    hopeless: list[Body] = [
        report_of(*((task, 0.0, 8.0) for task in range(start, start + 10))) for start in (0, 10, 20)
    ]
    assert run(hopeless * 10).guard.streaks == ()
    assert run([*BEFORE[:0], *[equal(0, ODD, others=step) for step in range(20)]]).guard.streaks == ()


def test_a_turn_to_tasks_that_were_never_tried_raises_none():
    known = [usual(step, range(20)) for step in range(STARTED)]
    assert run([*known, equal(0, range(20, 40))]).guard.streaks == ()


@pytest.mark.parametrize(("parts", "alarms"), [((WHOLE,), 1), ((7,), 0), ((WHOLE, 7), 0), ((), 0)])
def test_tasks_that_a_pass_over_the_whole_pool_drew_count_though_they_were_never_tried(parts, alarms):
    pool = pool_of(*[()] * 400)
    begun = [drawn(usual(step, range(20 * step, 20 * step + 20)), step, (WHOLE,), pool) for step in range(STARTED)]
    outage = drawn(equal(0, range(200, 240)), STARTED, parts, pool)
    assert len(run([*begun, outage], pool=pool).guard.alarms) == alarms
    assert run([outage], pool=pool).guard.streaks == ()


def drawn(report: Report, step: int, parts: tuple[int, ...], pool: Pool) -> Report:
    walks = tuple(Walk(part, 0, 20 * (step + 1), len(pool)) for part in parts)
    return replace(report, made_at=step, walks=walks)


def test_what_is_likelier_than_not_adds_up_to_nothing():
    rare = [
        report_of(*((task, float(task == step % COUNT), 7.0 + (task != step % COUNT)) for task in range(COUNT)))
        for step in range(COUNT)
    ]
    state = run([*rare, *[equal(0)] * 5])
    assert state.guard.streaks == ()


def test_a_streak_that_raises_no_alarm_at_once_begins_anew():
    slow: list[Body] = [body for _ in range(AT_ONCE + 1) for body in (usual(6, EVEN), equal(0, [1, 3]))]
    states = [run([*BEFORE, *slow[:2]])]
    for count in range(2, AT_ONCE):
        states.append(replay(POOL, slow[2 * count - 2 : 2 * count], states[-1].settings, states[-1]))
    sinces = [of_tag(state).since_step for state in states]
    assert sinces == [8] * (AT_ONCE // 2) + [8 + AT_ONCE] * (AT_ONCE - 1 - AT_ONCE // 2)


def test_a_task_that_changed_counts_once_however_often_it_comes_again():
    states = [run([*BEFORE, *[equal(0, [1], others=6)] * count]) for count in (1, 12)]
    assert states[0].guard.streaks == states[1].guard.streaks == ()  # the tag's other tasks are as usual
    alone = run([*BEFORE, *[equal(0, [1, 3])] * 9])
    assert {streak.chance for streak in alone.guard.streaks} == {LEAST_CHANCE**2}
    assert {streak.groups for streak in alone.guard.streaks} == {18}


def test_a_streak_begins_with_two_groups_and_goes_on_with_one():
    assert run([*BEFORE, equal(0, [1])]).guard.streaks == ()
    assert of_tag(run([*BEFORE, equal(0, [1, 3]), equal(0, [5])])).groups == 3


def test_groups_whose_rewards_differ_are_no_failure():
    told = [True] * COUNT
    outcome = report_of(*((task, 0.0, 8.0) for task in range(COUNT)), effective=told)
    assert run([*BEFORE, outcome]).guard.streaks == ()
    partly = report_of(*((task, 2.0, 6.0) for task in range(COUNT)), effective=[False] * COUNT)
    assert run([*BEFORE, partly]).guard.streaks == ()


def test_an_empty_step_changes_nothing():
    state = run([*BEFORE, equal(0)])
    closed = replay(POOL, [report_of(close=True)], state.settings, state)
    assert (closed.step, closed.guard) == (8, state.guard)


def test_the_other_outcome_ends_a_streak_and_begins_another():
    state = run([*BEFORE, equal(0, ODD, others=6), equal(TRIALS, ODD, others=7)])
    found = [(streak.tag, streak.outcome, streak.since_step) for streak in state.guard.streaks]
    assert found == [("tag 0", "succeeded", 8)]


def test_an_alarm_ends_with_its_streak():
    assert len(run([*BEFORE, equal(0)]).guard.alarms) == 2
    assert run([*BEFORE, equal(0), usual(7)]).guard.streaks == ()


def test_a_report_without_outcomes_leaves_the_account_of_the_mix():
    mixed = run(BEFORE, mix={"tag 0": 1.0})
    assert replay(POOL, [report_of(close=True)], mixed.settings, mixed).mix == mixed.mix


def test_offset_tags_are_watched_first_and_then_those_that_tasks_carried_first():
    tags = {f"tag {number:03}": np.array([200 - number], np.int32) for number in range(150)}
    tags["nobody's"] = np.empty(0, np.int32)
    watched = Pool(np.empty((1, 0)), np.zeros(201, np.int32), tags, offset_tags=("tag 007",)).watched_tags
    assert len(watched.names) == MOST_WATCHED
    assert watched.names[:2] == ("tag 007", "tag 149")
    carried = watched.carried_by(np.arange(201, dtype=np.int32))
    for row, tag in enumerate(watched.names):
        assert np.flatnonzero(carried[row]).tolist() == tags[tag].tolist()


def test_a_state_with_an_alarm_comes_back_bit_for_bit():
    state = run([*BEFORE, equal(0, ODD, others=6)])
    again = decode_state(encode_state(state))
    assert again.guard.streaks == state.guard.streaks
    assert encode_state(again) == encode_state(state)
    assert state.fold_numbers > 0
    assert state.fits(POOL)


# --- the verifier guard in a run's first pass: a tag is compared with what the pass met of it before -----------------

MANY, STEP, TRIALS = 400, 40, 8  # tasks, the odd ones with "tag 0"; tasks of a step; rollouts of each
LARGE_POOL = pool_of(*[()] * MANY, carried=[task % 2 for task in range(MANY)])
SUSPICIOUS = 1e-3
BELIEFS = pytest.mark.parametrize("belief", ["bots", "tracker"])


def step(number: int, of_tag: Sequence[float], *, turn: int = 0, parts: Sequence[int] = (WHOLE,)) -> Report:
    """A step of tasks that were never tried; the successes of those with the tag in turn, of all others 3 and 5."""
    rows = []
    for place in range(STEP):
        solved = of_tag[place // 2 % len(of_tag)] if place % 2 else (3.0, 5.0)[place // 2 % 2]
        rows.append((number * STEP + place, solved, TRIALS - solved))
    walks = tuple(Walk(part, turn, STEP * (number + 1), MANY) for part in parts)
    return replace(report_of(*rows), made_at=number, walks=walks)


def run_pass(bodies: Sequence[Body], *, belief: str = "tracker", pool: Pool = LARGE_POOL) -> RunState:
    return replay(pool, bodies, settings_from({"belief": belief, "rollouts_per_task": TRIALS}))


def chance_of(state: RunState) -> float:
    """Return how likely the tag's streak is, 1 without one."""
    return next((streak.chance for streak in state.guard.streaks if streak.tag), 1.0)


def plain_chance(usual: Sequence[Report], broken: Sequence[Report], belief: str, outcome: int) -> float:
    """Return the chance of a streak, one group after the other. outcome: successes of a group that has it."""
    alike = others = 0
    for report in usual:
        for task, solved in zip(report.evidence.tasks.tolist(), report.evidence.successes.tolist(), strict=True):
            if task % 2:
                alike, others = alike + (solved == outcome), others + (solved != outcome)
    factors = []
    for number, report in enumerate(broken):
        state = run_pass([*usual, *broken[:number]], belief=belief)
        tasks = report.evidence.tasks[report.evidence.tasks % 2 == 1]
        said = state.belief.distributions(LARGE_POOL, tasks)
        likely = (said if outcome == 0 else said.mirrored()).all_fail(np.full(len(tasks), TRIALS))
        for own in likely.tolist():
            chance = max((alike + 1) / (alike + others + 2), own)
            factors.append(1.0 if chance > 0.5 else max(chance, LEAST_CHANCE))
            alike += 1
    return prod(factors)


@BELIEFS
@pytest.mark.parametrize("outcome", [0, TRIALS])
@pytest.mark.parametrize("steps", [1, 2])
def test_an_outage_of_a_tag_is_seen_by_what_the_pass_met_of_it_before(belief: str, outcome: int, steps: int):
    usual = [step(number, (4.0, 6.0, 2.0, 3.0, float(outcome))) for number in range(3)]
    broken = [step(3 + number, (float(outcome),)) for number in range(steps)]
    state = run_pass([*usual, *broken], belief=belief)
    assert chance_of(state) == pytest.approx(plain_chance(usual, broken, belief, outcome), rel=1e-12)
    assert chance_of(state) < (SUSPICIOUS if steps == 1 else ALARM)
    assert chance_of(run_pass([*usual, step(3, (4.0, 0.0, 8.0))])) == 1.0


@pytest.mark.parametrize(("turn", "parts"), [(1, (WHOLE,)), (0, (7,)), (0, (WHOLE, 7)), (0, ())])
def test_tasks_that_the_first_pass_did_not_draw_say_nothing(turn: int, parts: tuple[int, ...]):
    usual = [step(number, (4.0, 6.0), turn=turn) for number in range(3)]
    assert chance_of(run_pass([*usual, *(step(number, (0.0,), turn=turn, parts=parts) for number in (3, 4))])) == 1.0


@BELIEFS
@pytest.mark.parametrize("of_tag", [(0.0,), (0.0, 0.0, 5.0), (0.0, 5.0)])
def test_a_tag_of_which_half_fails_by_its_nature_raises_no_suspicion(belief: str, of_tag: tuple[float, ...]):
    usual = [step(number, of_tag) for number in range(5)]
    found = chance_of(run_pass([*usual, *(step(number, (0.0,)) for number in (5, 6, 7))], belief=belief))
    assert found > SUSPICIOUS


def test_a_tag_that_was_hardly_met_raises_no_suspicion():
    few = report_of((1, 4.0, 4.0), (3, 4.0, 4.0), *((task, 4.0, 4.0) for task in range(0, 40, 2)))
    begun = replace(few, made_at=0, walks=(Walk(WHOLE, 0, STEP, MANY),))
    assert chance_of(run_pass([begun, *(step(number, (0.0,)) for number in (1, 2, 3))])) > SUSPICIOUS


def test_what_the_belief_knows_of_the_very_tasks_counts_where_it_is_likelier():
    usual = [step(number, (4.0, 6.0)) for number in range(3)]
    assert chance_of(run_pass([*usual, step(3, (0.0,))])) < SUSPICIOUS
    before = run_pass(usual)
    hopeless = report_of(*((task, 0.0, 1000.0) for task in range(3 * STEP, 4 * STEP))).evidence
    learned = ClosingStep(before.step + 1, ((0, hopeless),), hopeless, float(TRIALS))
    knowing = replace(before, belief=before.belief.fold(LARGE_POOL, learned, before.settings)[0])
    assert chance_of(replay(LARGE_POOL, [step(3, (0.0,))], before.settings, knowing)) == 1.0


def test_tasks_that_were_appended_meanwhile_change_nothing():
    bodies = [*(step(number, (4.0, 6.0, 0.0)) for number in range(4)), *(step(number, (0.0,)) for number in (4, 5))]
    grown = pool_of(*[()] * (MANY + 99), carried=[task % 2 for task in range(MANY + 99)])
    assert encode_state(run_pass(bodies, pool=grown)) == encode_state(run_pass(bodies))
