"""The bounds of each verdict, on plain numbers, and the order of the verdicts."""

from dataclasses import replace
from fractions import Fraction
from math import floor, isclose, pi, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.guard import VerifierAlarm
from bots_service.core.receipt import BINS, Calibration
from bots_service.core.rounding import half_up
from bots_service.core.summary import (
    ATTENTION_S,
    COLLAPSED,
    EXHAUSTED,
    LARGE_ERROR,
    STARTING,
    Outlook,
    RunCourse,
    RunFacts,
    RunVerdict,
    Sums,
    calibration_error,
    findings_of,
    needs_attention,
    verdict_on,
)
from bots_service.core.summary import BINS as SHARES

NOTHING = Calibration((0.0,) * BINS, (0.0,) * BINS, (0.0,) * BINS)


def expecting(ratio: float, *, easy: float = 0.0, hard: float = 0.0) -> Outlook:
    """An outlook in which so many tasks are solved nearly always, and nearly never."""
    shares = [hard / 2] * 2 + [(1 - easy - hard) / (SHARES - 4)] * (SHARES - 4) + [easy / 2] * 2
    return Outlook(ratio, tuple(shares))


FACTS = RunFacts(
    alarms=(),
    narrow=None,
    calibration=NOTHING,
    group_size=8.0,
    expected=expecting(0.5, easy=0.1, hard=0.1),
    aborting=0,
    met=800,
    has_references=True,
    hints=(),
)
COURSE = RunCourse(steps=80, usual_gap_s=10.0, recent=Sums(1600, 960, 12_800.0))
NOW: dict[str, Any] = {"uniform": 0.4}
REFUSED = (12, "reward -1.0 is outside [0, 1]")


def judged(facts: RunFacts, course: RunCourse = COURSE, **now: Any) -> RunVerdict:
    return verdict_on(course, findings_of(facts), **(NOW | now))


def in_bin(place: int, rollouts: float, predicted: float, solved: float) -> Calibration:
    columns = np.zeros((3, BINS))
    columns[:, place] = rollouts, rollouts * predicted, rollouts * solved
    return Calibration(*(tuple(column) for column in columns.tolist()))


ALARM = VerifierAlarm(None, "failed", 71, 80, 24, 1e-12)
# By urgency: each fits together with all that come after it. What the clock says, the course, the facts.
URGENT: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("reports_refused", {"refused": REFUSED}, {}, {}),
    ("verifier_suspect", {}, {}, {"alarms": (ALARM,)}),
    ("stalled", {"stalled_s": 1000.0}, {}, {}),
    ("aborting", {}, {}, {"aborting": 9, "met": 800}),
    ("narrow", {}, {}, {"narrow": ("Few tasks take most visits.", "Use pass.")}),
    ("miscalibrated", {}, {}, {"calibration": in_bin(8, 80_000, 0.85, 0.4)}),
    ("pool_exhausted", {}, {}, {"expected": expecting(0.05, easy=0.9)}),
    ("learning_slowly", {}, {"recent": Sums(1600, 160, 12_800.0)}, {}),
]


@pytest.mark.parametrize("place", range(len(URGENT) + 1))
def test_the_most_urgent_of_the_verdicts_that_fit_is_given(place):
    now, course, facts = dict[str, Any](), COURSE, FACTS
    for _, own, going, known in URGENT[place:]:
        now, course, facts = now | own, replace(course, **going), replace(facts, **known)
    wanted = URGENT[place][0] if place < len(URGENT) else "healthy"
    assert judged(facts, course, **now).kind == wanted


def test_a_run_of_few_steps_is_starting_whatever_else_its_numbers_say_except_what_is_certain():
    early = replace(COURSE, steps=STARTING - 1)
    for kind, now, going, known in URGENT:
        found = judged(replace(FACTS, **known), replace(early, **going), **now).kind
        assert found == (kind if kind in ("reports_refused", "verifier_suspect", "stalled") else "starting")
    assert judged(FACTS, replace(early, steps=STARTING)).kind == "healthy"


@pytest.mark.parametrize(
    ("kind", "wanted"), [("reports_refused", True), ("narrow", True), ("healthy", False), ("starting", False)]
)
def test_a_run_needs_attention_where_something_is_wrong_and_it_moved_lately(kind, wanted):
    verdict = RunVerdict(kind, "Why.", "What to do.")
    assert needs_attention(verdict, 60.0) is needs_attention(verdict, ATTENTION_S) is wanted
    assert needs_attention(verdict, ATTENTION_S + 1) is needs_attention(verdict, None) is False


@given(st.integers(0, 100_000), st.integers(0, 3))
def test_a_half_is_rounded_up_as_in_a_browser(halves, digits):
    value = (halves + 0.5) / 2**5  # exact in binary, so that some of them are exact halves in decimal
    shown = Fraction(half_up(value, digits)) * 10**digits
    assert shown == floor(Fraction(value) * 10**digits + Fraction(1, 2))


# --- the verifier ----------------------------------------------------------------------------------------------------


def test_an_alarm_comes_first_and_says_how_to_go_back():
    found = judged(replace(FACTS, alarms=(ALARM,)))
    assert found.kind == "verifier_suspect"
    assert found.reason.startswith("All rollouts failed since step 71: 24 groups; by what the belief knew")
    assert found.advice.startswith("Check the verifier, and")
    assert "rewind the run to step 70" in found.advice
    of_tag = judged(replace(FACTS, alarms=(replace(ALARM, tag="code", outcome="succeeded"),)))
    assert of_tag.reason.startswith("All rollouts of tasks with the tag 'code' succeeded since step 71")
    assert "Check the verifier of these tasks" in of_tag.advice


# --- the others ------------------------------------------------------------------------------------------------------


def test_a_stalled_run_says_for_how_long():
    found = judged(FACTS, stalled_s=1000.0)
    assert found.reason == "The last step closed 17 min ago; usually one closes every 10 s."
    later = judged(FACTS, replace(COURSE, usual_gap_s=1200.0), stalled_s=3 * 3600.0)
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
    assert judged(replace(FACTS, calibration=few)).kind == "healthy"
    slightly = in_bin(5, 80_000, 0.55, 0.55 - LARGE_ERROR + 0.01)
    assert judged(replace(FACTS, calibration=slightly)).kind == "healthy"
    much = in_bin(5, 80_000, 0.55, 0.55 - LARGE_ERROR - 0.01)
    assert judged(replace(FACTS, calibration=much)).kind == "miscalibrated"
    assert calibration_error(NOTHING, 8.0) == (None, 0.0)


def test_an_exhausted_pool_says_on_which_side():
    for easy, hard, advice in ((0.9, 0.05, "harder"), (0.05, 0.9, "easier")):
        facts = replace(FACTS, expected=expecting(EXHAUSTED, easy=easy, hard=hard))
        found = judged(facts)
        assert (found.kind, found.reason) == (
            "pool_exhausted",
            f"About 10 % of the pool's tasks would be effective: {100 * easy:.0f} % are solved nearly always,"
            f" {100 * hard:.0f} % nearly never.",
        )
        assert advice in found.advice
    assert judged(replace(FACTS, expected=expecting(EXHAUSTED + 0.01))).kind == "healthy"
    assert judged(replace(FACTS, expected=None)).kind == "healthy"


def test_few_effective_tasks_or_clearly_fewer_than_uniform_sampling_are_slow_learning():
    collapsed = replace(COURSE, recent=Sums(1600, int(1600 * COLLAPSED) - 1, 12_800.0))
    assert judged(FACTS, collapsed).kind == "learning_slowly"
    assert judged(FACTS, replace(collapsed, steps=49)).kind == "healthy"
    slack = 3 * sqrt((0.5 * 0.5 + 0.6 * 0.6) / 1600)
    for ratio, kind in ((0.6 - slack - 0.02, "learning_slowly"), (0.6 - slack + 0.02, "healthy")):
        course = replace(COURSE, recent=Sums(1600, round(1600 * ratio), 12_800.0))
        assert judged(FACTS, course, uniform=0.6).kind == kind
    assert judged(replace(FACTS, hints=("Use the tracker.",)), collapsed).advice == "Use the tracker."


def test_a_healthy_run_says_what_it_has_and_what_uniform_sampling_has():
    found = judged(FACTS)
    assert found.reason == "60.0 % of the tasks of the last 50 steps were effective; uniform sampling has 40.0 %."
    alone = judged(replace(FACTS, hints=("Use pass.",)), replace(COURSE, steps=20), uniform=None)
    assert (alone.reason, alone.advice) == ("60.0 % of the tasks of the last 20 steps were effective.", "Use pass.")
    nothing = judged(FACTS, replace(COURSE, recent=Sums()))
    assert (nothing.kind, nothing.reason) == ("healthy", "The last steps reported no task.")


def test_a_few_tasks_that_always_abort_are_no_verdict_and_many_are():
    few = replace(FACTS, aborting=8, met=800)
    assert judged(few).kind == "healthy"
    found = judged(replace(few, aborting=9))
    assert (found.kind, found.reason) == (
        "aborting",
        "9 tasks always abort, of 800 that were selected: three times in a row or more.",
    )
    assert judged(replace(few, aborting=1, met=20)).reason.startswith("1 task always aborts")


def test_groups_of_one_are_told_what_the_run_does_and_not_that_no_task_is_effective():
    single = replace(COURSE, recent=Sums(1600, 0, 1600.0))
    found = judged(replace(FACTS, group_size=1.0, expected=expecting(0.0)), single)
    assert found.kind == "healthy"
    assert "p (1 - p)" in found.reason


def test_no_advice_about_references_is_given_where_there_are_none():
    wrong = replace(FACTS, calibration=in_bin(8, 80_000, 0.85, 0.4))
    assert "reference" in judged(wrong).advice
    assert "reference" not in judged(replace(wrong, has_references=False)).advice
