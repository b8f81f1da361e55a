"""The verifier guard in a run's first pass: a tag is compared with what the pass met of it before."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
import pytest

from bots_service.core.codec import encode_state
from bots_service.core.entries import Body, Report
from bots_service.core.evidence import ClosingStep
from bots_service.core.guard import ALARM, LEAST_CHANCE
from bots_service.core.pool import Pool
from bots_service.core.run_settings import settings_from
from bots_service.core.state import RunState
from bots_service.core.walks import WHOLE, Walk
from tests.core.journals import pool_of, replay, report_of

COUNT, STEP, TRIALS = 400, 40, 8  # tasks, the odd ones with "tag 0"; tasks of a step; rollouts of each
POOL = pool_of(*[()] * COUNT, carried=[task % 2 for task in range(COUNT)])
SUSPICIOUS = 1e-3
BELIEFS = pytest.mark.parametrize("belief", ["bots", "tracker"])


def step(number: int, of_tag: Sequence[float], *, turn: int = 0, parts: Sequence[int] = (WHOLE,)) -> Report:
    """A step of tasks that were never tried; the successes of those with the tag in turn, of all others 3 and 5."""
    rows = []
    for place in range(STEP):
        solved = of_tag[place // 2 % len(of_tag)] if place % 2 else (3.0, 5.0)[place // 2 % 2]
        rows.append((number * STEP + place, solved, TRIALS - solved))
    walks = tuple(Walk(part, turn, STEP * (number + 1), COUNT) for part in parts)
    return replace(report_of(*rows), made_at=number, walks=walks)


def run(bodies: Sequence[Body], *, belief: str = "tracker", pool: Pool = POOL) -> RunState:
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
        state = run([*usual, *broken[:number]], belief=belief)
        tasks = report.evidence.tasks[report.evidence.tasks % 2 == 1]
        said = state.belief.distributions(POOL, tasks)
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
    state = run([*usual, *broken], belief=belief)
    assert chance_of(state) == pytest.approx(plain_chance(usual, broken, belief, outcome), rel=1e-12)
    assert chance_of(state) < (SUSPICIOUS if steps == 1 else ALARM)
    assert chance_of(run([*usual, step(3, (4.0, 0.0, 8.0))])) == 1.0


@pytest.mark.parametrize(("turn", "parts"), [(1, (WHOLE,)), (0, (7,)), (0, (WHOLE, 7)), (0, ())])
def test_tasks_that_the_first_pass_did_not_draw_say_nothing(turn: int, parts: tuple[int, ...]):
    usual = [step(number, (4.0, 6.0), turn=turn) for number in range(3)]
    assert chance_of(run([*usual, *(step(number, (0.0,), turn=turn, parts=parts) for number in (3, 4))])) == 1.0


@BELIEFS
@pytest.mark.parametrize("of_tag", [(0.0,), (0.0, 0.0, 5.0), (0.0, 5.0)])
def test_a_tag_of_which_half_fails_by_its_nature_raises_no_suspicion(belief: str, of_tag: tuple[float, ...]):
    usual = [step(number, of_tag) for number in range(5)]
    found = chance_of(run([*usual, *(step(number, (0.0,)) for number in (5, 6, 7))], belief=belief))
    assert found > SUSPICIOUS


def test_a_tag_that_was_hardly_met_raises_no_suspicion():
    few = report_of((1, 4.0, 4.0), (3, 4.0, 4.0), *((task, 4.0, 4.0) for task in range(0, 40, 2)))
    begun = replace(few, made_at=0, walks=(Walk(WHOLE, 0, STEP, COUNT),))
    assert chance_of(run([begun, *(step(number, (0.0,)) for number in (1, 2, 3))])) > SUSPICIOUS


def test_what_the_belief_knows_of_the_very_tasks_counts_where_it_is_likelier():
    usual = [step(number, (4.0, 6.0)) for number in range(3)]
    assert chance_of(run([*usual, step(3, (0.0,))])) < SUSPICIOUS
    before = run(usual)
    hopeless = report_of(*((task, 0.0, 1000.0) for task in range(3 * STEP, 4 * STEP))).evidence
    learned = ClosingStep(before.step + 1, ((0, hopeless),), hopeless, float(TRIALS))
    knowing = replace(before, belief=before.belief.fold(POOL, learned, before.settings))
    assert chance_of(replay(POOL, [step(3, (0.0,))], before.settings, knowing)) == 1.0


def test_tasks_that_were_appended_meanwhile_change_nothing():
    bodies = [*(step(number, (4.0, 6.0, 0.0)) for number in range(4)), *(step(number, (0.0,)) for number in (4, 5))]
    grown = pool_of(*[()] * (COUNT + 99), carried=[task % 2 for task in range(COUNT + 99)])
    assert encode_state(run(bodies, pool=grown)) == encode_state(run(bodies))
