"""The bounds of each verdict, on plain numbers, and the order of the verdicts."""

from dataclasses import replace
from math import isclose, pi, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.guard.guard import Suspicion
from bots_service.core.receipt import BINS, Calibration
from bots_service.core.summary.course import StepSums
from bots_service.core.summary.verdict import (
    COLLAPSED,
    EXHAUSTED,
    LARGE_ERROR,
    STARTING,
    RunFacts,
    RunProgress,
    calibration_error,
    verdict_on,
)

NOTHING = Calibration((0.0,) * BINS, (0.0,) * BINS, (0.0,) * BINS)
FACTS = RunFacts(
    step=80,
    suspicions=(),
    narrow=None,
    calibration=NOTHING,
    group_size=8.0,
    expected=0.5,
    easy=0.1,
    hard=0.1,
    hints=(),
)
PROGRESS = RunProgress(steps=80, stalled_s=None, usual_gap_s=10.0, recent=StepSums(1600, 960, 12_800.0), uniform=0.4)


def in_bin(place: int, rollouts: float, predicted: float, solved: float) -> Calibration:
    columns = np.zeros((3, BINS))
    columns[:, place] = rollouts, rollouts * predicted, rollouts * solved
    return Calibration(*(tuple(column) for column in columns.tolist()))


FALLEN = Suspicion(tag=None, outcome="failed", since_step=78, groups=24, usual=0.25, ongoing=True, held=0)
URGENT: list[
    tuple[str, dict[str, Any], dict[str, Any]]
] = [  # by urgency: each fits together with all that come after it
    ("verifier_suspect", {}, {"suspicions": (FALLEN,)}),
    ("stalled", {"stalled_s": 1000.0}, {}),
    ("narrow", {}, {"narrow": ("Few tasks take most visits.", "Use pass.")}),
    ("miscalibrated", {}, {"calibration": in_bin(8, 80_000, 0.85, 0.4)}),
    ("pool_exhausted", {}, {"expected": 0.05, "easy": 0.9}),
    ("learning_slowly", {"recent": StepSums(1600, 160, 12_800.0)}, {}),
]


@pytest.mark.parametrize("place", range(len(URGENT) + 1))
def test_the_most_urgent_of_the_verdicts_that_fit_is_given(place):
    progress, facts = PROGRESS, FACTS
    for _, going, known in URGENT[place:]:
        progress, facts = replace(progress, **going), replace(facts, **known)
    wanted = URGENT[place][0] if place < len(URGENT) else "healthy"
    assert verdict_on(progress, facts).kind == wanted


def test_a_run_of_few_steps_is_starting_whatever_else_its_numbers_say_except_what_is_certain():
    early = replace(PROGRESS, steps=STARTING - 1)
    for kind, going, known in URGENT:
        found = verdict_on(replace(early, **going), replace(FACTS, **known)).kind
        assert found == (kind if kind in ("verifier_suspect", "stalled") else "starting")
    assert verdict_on(replace(early, steps=STARTING), FACTS).kind == "healthy"


# --- the verifier ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["failed", "succeeded"])
def test_a_suspect_verifier_is_named_with_its_tag_and_the_step_to_go_back_to(outcome):
    found = verdict_on(PROGRESS, replace(FACTS, suspicions=(replace(FALLEN, tag="code", outcome=outcome),)))
    assert found.kind == "verifier_suspect"
    assert found.reason == (
        f"All rollouts of tasks with the tag 'code' in the last 3 steps {outcome}: 24 groups; before, 25% of the groups"
        " did."
    )
    assert "the verifier of these tasks" in found.advice
    assert "rewind the run to step 77" in found.advice


def test_what_the_guard_holds_is_to_be_released_or_dropped():
    held = replace(FALLEN, held=24)
    found = verdict_on(PROGRESS, replace(FACTS, suspicions=(held, replace(held, tag="code", held=9))))
    assert found.reason.startswith("All rollouts in the last 3 steps failed: 24 groups")
    assert "Groups are held out of the belief: release them" in found.advice
    over = replace(held, groups=0, ongoing=False)
    found = verdict_on(PROGRESS, replace(FACTS, suspicions=(over,)))
    assert found.reason.startswith("All rollouts failed from step 78 on; by now they vary again; before, 25%")


# --- the others ------------------------------------------------------------------------------------------------------


def test_a_stalled_run_says_for_how_long():
    found = verdict_on(replace(PROGRESS, stalled_s=1000.0), FACTS)
    assert found.reason == "The last step closed 17 min ago; usually one closes every 10 s."
    later = verdict_on(replace(PROGRESS, stalled_s=3 * 3600.0, usual_gap_s=1200.0), FACTS)
    assert later.reason == "The last step closed 3 h ago; usually one closes every 20 min."


@given(st.floats(0.55, 0.95), st.integers(1, 10_000), st.integers(1, 32))
def test_an_error_of_one_bin_is_compared_with_that_of_a_coin_for_each_group(rate, count, size):
    error, chance = calibration_error(in_bin(5, count * size, rate, 0.5), size)
    assert error is not None
    assert isclose(error, rate - 0.5, rel_tol=1e-6)
    assert isclose(chance, sqrt(2 / pi * rate * (1 - rate) / count), rel_tol=1e-6)


def test_the_chance_error_is_that_of_simulated_predictions_that_are_right():
    rng, size, rates = np.random.default_rng(3), 8, np.array([0.15, 0.45, 0.75])
    found = []
    for _ in range(400):
        solved = rng.binomial(40, rates) * size  # the rollouts of a group are equal: the most that chance does
        columns = np.zeros((3, BINS))
        columns[:, [1, 4, 7]] = np.stack([np.full(3, 40.0 * size), 40 * size * rates, solved])
        found.append(calibration_error(Calibration(*(tuple(each) for each in columns.tolist())), size))
    errors = [error for error, _ in found if error is not None]
    assert isclose(sum(errors) / len(found), found[0][1], rel_tol=0.1)


def test_predictions_are_called_wrong_if_they_are_off_by_much_and_not_by_chance():
    few = in_bin(5, 8 * 4, 0.55, 0.3)  # 4 groups: chance explains it
    assert verdict_on(PROGRESS, replace(FACTS, calibration=few)).kind == "healthy"
    slightly = in_bin(5, 80_000, 0.55, 0.55 - LARGE_ERROR + 0.01)
    assert verdict_on(PROGRESS, replace(FACTS, calibration=slightly)).kind == "healthy"
    much = in_bin(5, 80_000, 0.55, 0.55 - LARGE_ERROR - 0.01)
    assert verdict_on(PROGRESS, replace(FACTS, calibration=much)).kind == "miscalibrated"
    assert calibration_error(NOTHING, 8.0) == (None, 0.0)


def test_an_exhausted_pool_says_on_which_side():
    for easy, hard, advice in ((0.9, 0.05, "harder"), (0.05, 0.9, "easier")):
        facts = replace(FACTS, expected=EXHAUSTED, easy=easy, hard=hard)
        found = verdict_on(PROGRESS, facts)
        assert (found.kind, found.reason) == (
            "pool_exhausted",
            f"About 10% of the pool's tasks would be effective: {easy:.0%} are solved nearly always, {hard:.0%} nearly"
            " never.",
        )
        assert advice in found.advice
    assert verdict_on(PROGRESS, replace(FACTS, expected=EXHAUSTED + 0.01)).kind == "healthy"
    assert verdict_on(PROGRESS, replace(FACTS, expected=None)).kind == "healthy"


def test_few_effective_tasks_or_clearly_fewer_than_uniform_sampling_are_slow_learning():
    collapsed = replace(PROGRESS, recent=StepSums(1600, int(1600 * COLLAPSED) - 1, 12_800.0))
    assert verdict_on(collapsed, FACTS).kind == "learning_slowly"
    assert verdict_on(replace(collapsed, steps=49), FACTS).kind == "healthy"
    slack = 3 * sqrt((0.5 * 0.5 + 0.6 * 0.6) / 1600)
    for ratio, kind in ((0.6 - slack - 0.02, "learning_slowly"), (0.6 - slack + 0.02, "healthy")):
        progress = replace(PROGRESS, recent=StepSums(1600, round(1600 * ratio), 12_800.0), uniform=0.6)
        assert verdict_on(progress, FACTS).kind == kind
    assert verdict_on(collapsed, replace(FACTS, hints=("Use the tracker.",))).advice == "Use the tracker."


def test_a_healthy_run_says_what_it_has_and_what_uniform_sampling_has():
    found = verdict_on(PROGRESS, FACTS)
    assert found.reason == "60% of the tasks of the last 50 steps were effective; uniform sampling has 40%."
    alone = verdict_on(replace(PROGRESS, uniform=None, steps=20), replace(FACTS, hints=("Use pass.",)))
    assert (alone.reason, alone.advice) == ("60% of the tasks of the last 20 steps were effective.", "Use pass.")
    nothing = verdict_on(replace(PROGRESS, recent=StepSums()), FACTS)
    assert (nothing.kind, nothing.reason) == ("healthy", "The last steps reported no task.")
