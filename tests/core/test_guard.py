"""The verifier guard: what raises an alarm, what waits outside the belief, and what a decision does with it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bots_service.core.codec import decode_state, encode_state
from bots_service.core.entries import Body, Entry, GuardDecision, Report, SettingsChange
from bots_service.core.guard import Decision
from bots_service.core.guard import held as held_groups
from bots_service.core.guard.streaks import ALARM, AT_ONCE, LEAST_CHANCE, Streak, decoded
from bots_service.core.pool import WHOLE, Pool
from bots_service.core.run_settings import settings_from
from bots_service.core.state import Lesson, RunState, lesson_of
from bots_service.core.walks import Walk
from bots_service.errors import InvalidSettingsError
from tests.core.journals import past_of, pool_of, replay, report_of

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


def run(bodies: Sequence[Body], *, guard: bool = True, pool: Pool = POOL, **settings: Any) -> RunState:
    values = {"verifier_guard": guard, "rollouts_per_task": TRIALS, **settings}
    return replay(pool, bodies, settings_from(values))


def of_tag(state: RunState) -> Streak:
    """Return the one streak of the tag."""
    (found,) = [streak for streak in state.guard.streaks if streak.tag]
    return found


def beliefs(state: RunState) -> np.ndarray:
    return state.belief.distributions(POOL, np.arange(COUNT, dtype=np.int32)).mean


# --- what raises an alarm --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("belief", ["bots", "tracker"])
@pytest.mark.parametrize(("successes", "outcome"), [(0, "failed"), (TRIALS, "succeeded")])
def test_groups_that_are_all_alike_at_once_raise_an_alarm(successes, outcome, belief):
    state = run([*BEFORE, equal(successes)], guard=False, belief=belief)
    whole, tag = state.guard.described(POOL)
    assert (whole.tag, whole.outcome, whole.since_step, whole.last_step) == (None, outcome, 7, 7)
    assert (whole.groups, whole.ongoing, whole.held) == (COUNT, True, 0)
    assert (tag.tag, tag.groups) == ("tag 0", COUNT // 2)
    assert LEAST_CHANCE**COUNT <= whole.chance <= ALARM
    assert run(BEFORE).guard.streaks == ()


def test_a_tag_alone_raises_its_own_alarm_and_only_its_groups_wait():
    state = run([*BEFORE, equal(0, ODD, others=6)])
    (found,) = state.guard.described(POOL)
    assert (found.tag, found.held) == ("tag 0", len(ODD))
    assert state.guard.held.evidence.tasks.tolist() == list(ODD)


def test_few_groups_raise_it_by_and_by():
    few = [list(ODD)[start : start + 2] for start in range(0, 16, 2)]
    steps: list[Body] = [equal(0, tasks) for tasks in few]
    states = [run([*BEFORE, *steps[:count]], guard=False) for count in range(1, len(few) + 1)]
    assert [len(state.guard.alarms) for state in states] == sorted(len(state.guard.alarms) for state in states)
    assert (of_tag(states[0]).groups, len(states[0].guard.alarms), len(states[-1].guard.alarms)) == (2, 0, 2)
    assert [streak.groups for streak in states[-1].guard.alarms] == [16, 16]


def test_a_step_without_the_tag_neither_adds_to_its_streak_nor_ends_it():
    few: list[Body] = [equal(0, [1, 3]), equal(0, [5, 7])]
    apart = of_tag(run([*BEFORE, few[0], usual(6, EVEN), few[1]]))
    assert (apart.groups, apart.since, apart.last) == (4, 7, 9)
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
    assert of_tag(run([*BEFORE, *slow[:2]], guard=False)).since == 8
    states = [run([*BEFORE, *slow[: 2 * count]], guard=False) for count in range(1, AT_ONCE)]
    sinces = [of_tag(state).since for state in states]
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
    state = run([*BEFORE, equal(0, ODD, others=6), equal(TRIALS, ODD, others=7)], guard=False)
    assert [(streak.tag, streak.outcome, streak.since) for streak in state.guard.streaks] == [("tag 0", "succeeded", 8)]


# --- what waits, and what becomes of it ------------------------------------------------------------------------------


def test_without_the_setting_nothing_waits_and_the_alarm_ends_with_the_streak():
    state = run([*BEFORE, equal(0)], guard=False)
    assert (len(state.guard.alarms), len(state.guard.held)) == (2, 0)
    assert run([*BEFORE, equal(0), usual(7)], guard=False).guard.streaks == ()


@pytest.mark.parametrize("belief", ["bots", "tracker"])
def test_dropped_groups_leave_the_belief_as_if_they_had_never_been_reported(belief):
    outage: list[Body] = [equal(0, ODD, others=step) for step in (6, 7)]
    even = [usual(step, EVEN) for step in (6, 7)]
    dropped = run([*BEFORE, *outage, GuardDecision("drop"), usual(8)], belief=belief)
    never = run([*BEFORE, *even, usual(8)], belief=belief)
    np.testing.assert_array_equal(beliefs(dropped), beliefs(never))
    assert dropped.guard == never.guard


@pytest.mark.parametrize("belief", ["bots", "tracker"])
def test_released_groups_enter_the_belief_as_evidence_of_their_age(belief):
    bodies: list[Body] = [*BEFORE, equal(0, ODD, others=6), usual(7, EVEN)]
    waiting = run(bodies, belief=belief)
    aged = waiting.guard.held.aged(waiting.step)
    assert aged.ages.tolist() == [1.0] * len(ODD)
    wanted = waiting.belief.with_past(POOL, aged, waiting.settings, step=waiting.step)
    released = run([*bodies, GuardDecision("release")], belief=belief)
    tasks = np.arange(COUNT, dtype=np.int32)
    np.testing.assert_array_equal(beliefs(released), wanted.distributions(POOL, tasks).mean)
    assert (released.guard.alarms, len(released.guard.held)) == ((), 0)


@pytest.mark.parametrize(("decision", "waits"), [("release", 0), ("drop", COUNT)])
def test_after_a_release_the_same_rewards_enter_and_after_a_drop_they_wait(decision: Decision, waits: int):
    state = run([*BEFORE, equal(0), GuardDecision(decision), equal(0)])
    assert (len(state.guard.held), len(state.guard.alarms)) == (waits, 2 if waits else 0)


def test_a_drop_while_the_outage_goes_on_counts_from_the_next_step():
    dropped = run([*BEFORE, equal(0), GuardDecision("drop")])
    assert (dropped.guard.alarms, len(dropped.guard.held)) == ((), 0)
    (whole, _) = run([*BEFORE, equal(0), GuardDecision("drop"), equal(0)]).guard.described(POOL)
    assert (whole.since_step, whole.last_step, whole.groups, whole.held) == (8, 8, COUNT, COUNT)
    over = run([*BEFORE, equal(0), GuardDecision("drop"), usual(7)])
    assert over.guard.streaks == ()


def test_after_a_release_the_same_rewards_raise_an_alarm_again_once_they_had_varied():
    bodies: list[Body] = [*BEFORE, equal(0), GuardDecision("release"), equal(0)]
    bodies += [usual(step) for step in range(8, 20)]
    assert run(bodies).guard.streaks == ()
    assert len(run([*bodies, equal(0)]).guard.alarms) == 2


def test_an_alarm_that_is_over_stands_until_somebody_decides():
    bodies: list[Body] = [*BEFORE, equal(0), usual(7)]
    found = run(bodies).guard.described(POOL)[0]
    assert (found.ongoing, found.groups, found.held, found.since_step, found.last_step) == (False, COUNT, COUNT, 7, 7)
    for decision in ("release", "drop"):
        decided = run([*bodies, GuardDecision(decision)])
        assert (decided.guard.streaks, len(decided.guard.held)) == ((), 0)


def test_two_outages_of_one_tag_are_one_alarm_once_both_are_over():
    bodies: list[Body] = [*BEFORE, equal(0, ODD, others=6), usual(7), equal(0, ODD, others=8)]
    assert [(one.since_step, one.ongoing) for one in run(bodies).guard.described(POOL)] == [(7, False), (9, True)]
    (both,) = run([*bodies, usual(9)]).guard.described(POOL)
    assert (both.since_step, both.last_step, both.groups, both.held) == (7, 9, 2 * len(ODD), 2 * len(ODD))


def test_a_decision_about_a_tag_leaves_other_groups_waiting():
    bodies: list[Body] = [*BEFORE, equal(0), usual(7)]
    state = run([*bodies, GuardDecision("drop", "tag 0")])
    assert [(one.tag, one.held) for one in state.guard.described(POOL)] == [(None, len(EVEN))]
    assert state.guard.held.evidence.tasks.tolist() == list(EVEN)
    nothing = run([*bodies, GuardDecision("drop", "tag 7")])
    assert nothing.guard.described(POOL) == run(bodies).guard.described(POOL)


def test_groups_that_were_only_suspicious_enter_by_themselves():
    few = [1, 3, 5, 7]
    suspicious = run([*BEFORE, equal(0, few)])
    assert (suspicious.guard.alarms, len(suspicious.guard.held)) == ((), len(few))
    after = run([*BEFORE, equal(0, few), usual(7)])
    assert (after.guard.streaks, len(after.guard.held)) == ((), 0)
    never = run([*BEFORE, report_of(close=True), usual(7)])
    assert not np.array_equal(beliefs(after), beliefs(never))


def test_what_a_report_teaches_is_without_what_waits_and_with_what_need_not_wait_any_longer():
    few = [1, 3, 5, 7]
    state = run([*BEFORE, equal(0, few, others=6)], guard=False)
    guarded = replace(run(BEFORE), settings=replace(state.settings, verifier_guard=True))
    lesson = lesson_of(guarded, Entry(guarded.seq + 1, 0, POOL.profiles, equal(0, ODD, others=6)), POOL)
    assert lesson.step is not None
    assert lesson.step.whole.tasks.tolist() == lesson.step.groups.tasks.tolist() == list(EVEN)
    waiting = run([*BEFORE, equal(0, few)])
    freed = lesson_of(waiting, Entry(waiting.seq + 1, 0, POOL.profiles, usual(7)), POOL)
    assert freed.past.evidence.tasks.tolist() == few


def test_each_kind_of_entry_teaches_what_it_holds():
    waiting = run([*BEFORE, equal(0)])
    old = past_of(((1, 2.0, 3.0), 4.0))

    def taught(body: Body) -> Lesson:
        return lesson_of(waiting, Entry(waiting.seq + 1, 0, POOL.profiles, body), POOL)

    assert taught(old).past is old.aged
    assert len(taught(GuardDecision("release")).past) == COUNT
    for body in (GuardDecision("drop"), SettingsChange({"target": 0.4}), replace(usual(7), close=False)):
        assert (len(taught(body).past), taught(body).step) == (0, None)


def test_a_report_without_outcomes_leaves_the_account_of_the_mix():
    mixed = run(BEFORE, mix={"tag 0": 1.0})
    assert replay(POOL, [report_of(close=True)], mixed.settings, mixed).mix == mixed.mix


def test_no_more_than_so_many_groups_wait_and_the_oldest_make_room(monkeypatch):
    monkeypatch.setattr(held_groups, "MOST_HELD", COUNT + 3)
    state = run([*BEFORE, equal(0), equal(0)])
    assert state.guard.held.steps.tolist() == [7] * 3 + [8] * COUNT


# --- its bytes -------------------------------------------------------------------------------------------------------


def test_a_state_with_held_groups_comes_back_bit_for_bit():
    state = run([*BEFORE, equal(0, ODD, others=6), usual(7)])
    again = decode_state(encode_state(state))
    assert again.guard.streaks == state.guard.streaks
    assert encode_state(again) == encode_state(state)
    assert state.nbytes > run([*BEFORE, usual(6), usual(7)]).nbytes
    assert state.fold_numbers > 0
    assert state.fits(POOL)


@pytest.mark.parametrize(
    "values",
    [
        [7, "failed", 0.5, 1, 1, 1, True, False],
        [None, "failed", 0.5, 1, 1, 1, 1, False],
        [None, "failed", 0.5, 1, 1, 1, True, None],
        [None, "varied", 0.5, 1, 1, 1, True, False],
        [None, "failed", 0.5, 1.0, 1, 1, True, False],
        [None, "failed", 0.5],
    ],
)
def test_values_that_are_no_streak_are_refused(values):
    with pytest.raises((TypeError, ValueError)):
        decoded([values])


def test_a_setting_that_is_no_truth_value_is_refused():
    with pytest.raises(InvalidSettingsError):
        settings_from({"verifier_guard": 1})
    assert settings_from({"verifier_guard": True}).verifier_guard
