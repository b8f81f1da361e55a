"""The verifier guard: what raises an alarm, what waits outside the belief, and what a decision does with it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from bots_service.core.codec import decode_state, encode_state
from bots_service.core.entries import Body, GuardDecision, Report
from bots_service.core.guard import Decision
from bots_service.core.guard.watches import ALARM, Watch
from bots_service.core.pool import Pool
from bots_service.core.run_settings import settings_from
from bots_service.core.state import RunState
from tests.core.journals import pool_of, replay, report_of

COUNT = 40  # tasks; the odd ones carry the tag
POOL = pool_of(*[()] * COUNT, carried=[task % 2 for task in range(COUNT)])
TRIALS = 8
OUTCOMES = (TRIALS, 0, 3, 5)  # successes of usual groups, in turn


def usual(step: int, tasks: Sequence[int] = range(COUNT)) -> Report:
    return report_of(*((task, float(won := OUTCOMES[(task // 2 + step) % 4]), float(TRIALS - won)) for task in tasks))


def equal(successes: int, tasks: Sequence[int] = range(COUNT), *, others: int | None = None) -> Report:
    """A step whose groups of these tasks are all alike; the others are as usual in the given step."""
    rows = [(task, float(successes), float(TRIALS - successes)) for task in tasks]
    if others is None:
        return report_of(*rows)
    rest = usual(others, [task for task in range(COUNT) if task not in tasks]).evidence
    return report_of(*rows, *zip(rest.tasks.tolist(), rest.successes.tolist(), rest.failures.tolist(), strict=True))


ODD = range(1, COUNT, 2)
BEFORE: list[Body] = [usual(step) for step in range(6)]


def run(bodies: Sequence[Body], *, belief: str = "tracker", guard: bool = True, pool: Pool = POOL) -> RunState:
    return replay(pool, bodies, settings_from({"belief": belief, "verifier_guard": guard, "rollouts_per_task": TRIALS}))


def beliefs(state: RunState) -> np.ndarray:
    return state.belief.distributions(POOL, np.arange(COUNT, dtype=np.int32)).mean


@pytest.mark.parametrize(("successes", "outcome"), [(0, "failed"), (TRIALS, "succeeded")])
def test_groups_that_are_all_alike_at_once_raise_an_alarm(successes, outcome):
    state = run([*BEFORE, equal(successes)], guard=False)
    found = state.guard.suspicions(POOL)
    assert [one.tag for one in found] == [None, "tag 0"]
    assert found[0].outcome == outcome
    assert (found[0].since_step, found[0].groups, found[0].ongoing, found[0].held) == (7, COUNT, True, 0)
    assert found[0].usual == pytest.approx(1 / 4)
    assert run(BEFORE).guard.suspicions(POOL) == ()


def test_a_tag_alone_raises_its_own_alarm_and_only_its_groups_wait():
    state = run([*BEFORE, equal(0, ODD, others=6)])
    (found,) = state.guard.suspicions(POOL)
    assert (found.tag, found.held) == ("tag 0", len(ODD))
    assert state.guard.held.evidence.tasks.tolist() == list(ODD)


def test_without_the_setting_nothing_waits_and_the_alarm_ends_with_the_streak():
    state = run([*BEFORE, equal(0)], guard=False)
    assert (state.guard.alarms, len(state.guard.held)) == (2, 0)
    assert run([*BEFORE, equal(0), usual(7)], guard=False).guard.alarms == 0


@pytest.mark.parametrize("belief", ["bots", "tracker"])
def test_dropped_groups_leave_the_belief_as_if_they_had_never_been_reported(belief):
    outage: list[Body] = [equal(0, ODD, others=step) for step in (6, 7)]
    even = [usual(step, range(0, COUNT, 2)) for step in (6, 7)]
    dropped = run([*BEFORE, *outage, GuardDecision("drop"), usual(8)], belief=belief)
    never = run([*BEFORE, *even, usual(8)], belief=belief)
    np.testing.assert_array_equal(beliefs(dropped), beliefs(never))
    assert (len(dropped.guard.held), dropped.guard.alarms) == (0, 0)


@pytest.mark.parametrize("belief", ["bots", "tracker"])
def test_released_groups_enter_the_belief_as_evidence_of_their_age(belief):
    bodies: list[Body] = [*BEFORE, equal(0, ODD, others=6), usual(7, range(0, COUNT, 2))]
    waiting = run(bodies, belief=belief)
    aged = waiting.guard.held.aged(waiting.step)
    assert aged.ages.tolist() == [1.0] * len(ODD)
    wanted = waiting.belief.with_past(POOL, aged, waiting.settings, step=waiting.step)
    released = run([*bodies, GuardDecision("release")], belief=belief)
    assert released.belief.encoded()[0] == wanted.encoded()[0]
    tasks = np.arange(COUNT, dtype=np.int32)
    np.testing.assert_array_equal(beliefs(released), wanted.distributions(POOL, tasks).mean)
    assert (released.guard.alarms, len(released.guard.held)) == (0, 0)


@pytest.mark.parametrize(("decision", "waits"), [("release", 0), ("drop", COUNT)])
def test_after_a_release_the_same_rewards_are_usual_and_after_a_drop_they_wait(decision: Decision, waits: int):
    state = run([*BEFORE, equal(0), GuardDecision(decision), equal(0)])
    assert len(state.guard.held) == waits


def test_an_alarm_that_is_over_stands_until_somebody_decides():
    state = run([*BEFORE, equal(0), usual(7)])
    found = state.guard.suspicions(POOL)[0]
    assert (found.ongoing, found.groups, found.held, found.since_step) == (False, 0, COUNT, 7)
    decided = run([*BEFORE, equal(0), usual(7), GuardDecision("release")])
    assert (decided.guard.alarms, len(decided.guard.held)) == (0, 0)


def test_groups_that_were_only_suspicious_enter_by_themselves():
    few = list(range(1, 9, 2))  # 4 groups: by chance in 1 of 256 steps
    suspicious = run([*BEFORE, equal(0, few)])
    assert (suspicious.guard.alarms, len(suspicious.guard.held)) == (0, len(few))
    after = run([*BEFORE, equal(0, few), usual(7)])
    assert (after.guard.alarms, len(after.guard.held)) == (0, 0)
    dropped = run([*BEFORE, report_of(close=True), usual(7)])
    assert not np.array_equal(beliefs(after), beliefs(dropped))


def test_a_state_with_held_groups_comes_back_bit_for_bit_and_is_possible():
    state = run([*BEFORE, equal(0, ODD, others=6), usual(7)])
    again = decode_state(encode_state(state))
    assert again.guard.watches == state.guard.watches
    assert encode_state(again) == encode_state(state)
    assert all(watch.is_possible(state.step) for watch in again.guard.watches)
    assert state.guard.nbytes > run(BEFORE).guard.nbytes
    more = Watch(groups=1.0, failed=2.0)
    assert not replace(state.guard, watches=(more, more)).is_possible(state.step, COUNT, 1)
    assert not state.guard.is_possible(state.step, COUNT, 2)


def test_a_watch_of_fractions_is_refused():
    assert Watch.of_numbers([9.0, 1.0, 2.0, ALARM, -1.0, 30.0, 4.0, -1.0]).streak == 30
    with pytest.raises(ValueError, match="fractions"):
        Watch.of_numbers([9.0, 1.0, 2.0, 1.0, 0.0, 0.5, 0.0, 0.0])
