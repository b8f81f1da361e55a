"""Which belief fits: intervals that hold, calibration against plain Python, and what is recommended when."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from scipy.stats import ttest_rel

from bots_service.core.comparison.candidates import Candidate, candidates_for
from bots_service.core.comparison.paired import BLOCKS, difference, weighted_mean
from bots_service.core.comparison.refold import SUMS, Scores, collected, refolded
from bots_service.core.comparison.verdict import FEWEST_STEPS, compared
from bots_service.core.entries import Entry
from bots_service.core.receipt import BINS
from bots_service.core.run_settings import settings_from
from bots_service.core.state import fresh_state
from tests.core.journals import pool_of, report_of

OWN = settings_from({"belief": "bots"})
POOL = pool_of((0.25, 0.75), (0.5, 0.875), carried=[0, 1])
CANDIDATES = candidates_for(OWN, POOL)
NAMES = [each.name for each in CANDIDATES]
NOISE = np.random.default_rng(1).normal(0.0, 0.01, 2 * FEWEST_STEPS)
KEEP = "Keep this run's belief: no other predicts certainly better over 200 steps."


def scores(log_loss: Mapping[str, np.ndarray | float], steps: int = len(NOISE)) -> Scores:
    """Return made-up scores: 0.5 for every candidate that is not named."""
    columns = [np.broadcast_to(log_loss.get(name, 0.5), steps) for name in NAMES]
    errors = np.array(columns).T
    sums = np.tile([1.0] * BINS + [0.5] * 2 * BINS + [BINS * 0.3, BINS * 0.3], (len(NAMES), 1))
    return Scores(np.arange(1, steps + 1), np.full(steps, 8.0), errors, errors / 2, sums)


def test_with_equal_weights_the_interval_is_student_s_t_over_the_means_of_blocks():
    rng = np.random.default_rng(3)
    errors, others = rng.normal(1.0, 1.0, (2, 5 * BLOCKS))
    found = difference(errors, others, np.full(5 * BLOCKS, 7.0))
    blocks = ttest_rel(errors.reshape(BLOCKS, 5).mean(axis=1), others.reshape(BLOCKS, 5).mean(axis=1))
    interval = blocks.confidence_interval(0.95)
    assert found.mean == pytest.approx((errors - others).mean())
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))


def test_steps_with_more_rollouts_count_more():
    errors, weights = np.arange(2.0 * BLOCKS), np.arange(1.0, 2 * BLOCKS + 1)
    expected = sum(e * w for e, w in zip(errors, weights, strict=True)) / sum(weights)
    assert difference(errors, np.zeros(2 * BLOCKS), weights).mean == pytest.approx(expected)
    assert weighted_mean(errors, weights) == pytest.approx(expected)


def test_fewer_steps_than_blocks_have_no_interval():
    with pytest.raises(ValueError, match=f"{BLOCKS - 1} steps make no {BLOCKS} blocks"):
        difference(np.zeros(BLOCKS - 1), np.zeros(BLOCKS - 1), np.ones(BLOCKS - 1))


@pytest.mark.parametrize(("steps", "kept"), [(FEWEST_STEPS, 0.5), (400, 0.8)])
def test_intervals_of_correlated_steps_cover_the_truth_about_as_often_as_they_say(steps: int, kept: float):
    """2,000 simulations: the share has a standard deviation of 0.5 %; 93 % allows for what correlation costs."""
    rng = np.random.default_rng(15)
    shocks = rng.normal(0.0, 1.0, (steps + 50, 2000))
    courses = np.zeros_like(shocks)
    for step in range(1, steps + 50):
        courses[step] = kept * courses[step - 1] + shocks[step]
    weights = rng.integers(100, 500, steps).astype(float)
    truth = 0.3
    covered = 0
    for course in courses[50:].T:
        found = difference(truth + course, np.zeros(steps), weights)
        covered += found.low <= truth <= found.high
    assert 0.92 <= covered / 2000 <= 0.97


def test_a_belief_that_is_certainly_better_is_recommended():
    found = compared(CANDIDATES, scores({"tracker": 0.47 + NOISE}))
    assert found.recommended == "tracker"
    tracker = found.scores[NAMES.index("tracker")]
    assert tracker.log_loss_difference is not None
    low, high = -tracker.log_loss_difference.high, -tracker.log_loss_difference.low
    gain = -(tracker.log_loss - 0.5)
    assert found.advice == (
        f"Use the tracker: its log loss is {gain:.3f} lower ({low:.3f} to {high:.3f}) over 200 steps."
    )
    assert (found.steps, found.first_step, found.last_step, found.rollouts) == (200, 1, 200, 1600.0)


def test_without_certainty_the_run_s_belief_is_kept():
    found = compared(CANDIDATES, scores({"tracker": 0.4995 + 10 * NOISE, "BOTS": 0.51}))
    assert (found.recommended, found.advice) == (None, KEEP)


def test_a_point_of_the_grid_that_only_won_the_half_that_chose_it_is_not_recommended():
    halves = np.repeat([0.3, 0.5], FEWEST_STEPS) + NOISE / 100
    found = compared(CANDIDATES, scores({"BOTS, forgetting 0.02, implicit weight 0.05": halves}))
    assert (found.recommended, found.advice) == (None, KEEP)


def test_a_point_of_the_grid_that_wins_on_the_other_half_too_is_recommended_by_that_half():
    name = "BOTS, forgetting 0.02, implicit weight 0.05"
    halves = np.repeat([0.3, 0.45], FEWEST_STEPS) + NOISE
    found = compared(CANDIDATES, scores({name: halves}))
    assert found.recommended == name
    gain = 0.05 - NOISE[FEWEST_STEPS:].mean()
    assert found.advice.startswith(f"Use {name}: its log loss is {gain:.3f} lower (")
    assert found.advice.endswith(") over the last 100 of 200 steps (the first half chose it).")


def test_of_several_better_ones_the_best_on_the_second_half_is_recommended():
    better = {"tracker": 0.45 + NOISE, "BOTS as in the paper": np.repeat([0.3, 0.46], FEWEST_STEPS) + NOISE}
    assert compared(CANDIDATES, scores(better)).recommended == "tracker"


def test_a_belief_that_hides_what_the_dataset_has_is_never_recommended_but_remarked():
    found = compared(CANDIDATES, scores({"tracker without references": 0.4 + NOISE, "tracker without tags": 0.6}))
    assert found.recommended is None
    misled, helped = found.remarks
    assert misled.startswith("The dataset's references mislead the tracker: without them its log loss is 0.1")
    assert helped == ("The dataset's tags help the tracker: with them its log loss is 0.100 lower (0.100 to 0.100).")


@pytest.mark.parametrize(("steps", "said"), [(1, "1 step has"), (FEWEST_STEPS - 1, f"{FEWEST_STEPS - 1} steps have")])
def test_too_few_steps_are_said_and_give_no_interval(steps: int, said: str):
    found = compared(CANDIDATES, scores({"tracker": 0.1}, steps))
    assert found.recommended is None
    assert found.advice == (
        f"Too few steps: {said} outcomes, {FEWEST_STEPS} are needed. Keep this run's belief until then."
    )
    assert {each.log_loss_difference for each in found.scores} == {None}
    assert found.remarks == ()


def test_no_step_at_all_is_said():
    found = compared(CANDIDATES, collected([], len(CANDIDATES)))
    assert (found.steps, found.scores, found.recommended) == (0, (), None)
    assert found.advice == f"Too few steps: none has outcomes, {FEWEST_STEPS} are needed."


def test_the_run_itself_has_no_difference_to_itself():
    own, *others = compared(CANDIDATES, scores({})).scores
    assert (own.log_loss_difference, own.brier_difference) == (None, None)
    assert all(each.log_loss_difference is not None for each in others)


Row = tuple[float, float, float]  # prediction, successes, failures


def sums_of(rows: Sequence[Row]) -> np.ndarray:
    sums = np.zeros((3, BINS))
    for p, s, f in rows:
        sums[:, min(int(p * BINS), BINS - 1)] += [s + f, p * (s + f), s]
    squares, solved = sum(p * p * (s + f) for p, s, f in rows), sum(p * s for p, s, _ in rows)
    return np.array([*sums.ravel(), squares, solved])


def calibrated(rows: Sequence[Row]) -> tuple[float, float | None]:
    one = (Candidate("run", OWN),)
    rollouts = np.array([sum(s + f for _, s, f in rows)])
    errors = np.full((1, 1), 0.5)
    found = compared(one, Scores(np.array([1]), rollouts, errors, errors, sums_of(rows).reshape(1, SUMS))).scores[0]
    return found.calibration_error, found.calibration_slope


def test_the_calibration_error_is_the_mean_gap_of_the_bins():
    # Two bins: predicted 0.25 on average and observed 0.5 in 8 rollouts, predicted 0.9 and observed 1 in 2.
    error, _ = calibrated([(0.22, 2.0, 2.0), (0.28, 2.0, 2.0), (0.9, 2.0, 0.0)])
    assert error == pytest.approx((8 * 0.25 + 2 * 0.1) / 10)


def test_the_calibration_slope_is_that_of_least_squares_over_rollouts():
    rows = [(0.1, 1.0, 5.0), (0.35, 4.0, 4.0), (0.8, 3.0, 1.0), (0.95, 9.0, 0.0)]
    each = [(p, outcome) for p, s, f in rows for outcome in [1.0] * int(s) + [0.0] * int(f)]
    predictions, outcomes = np.array(each).T
    _, slope = calibrated(rows)
    assert slope == pytest.approx(np.polyfit(predictions, outcomes, 1)[0])


def test_equal_predictions_have_no_slope():
    assert calibrated([(0.3, 1.0, 5.0), (0.3, 2.0, 2.0)])[1] is None


def test_a_belief_that_forgets_too_quickly_is_found_out():
    """Rates stay as they are: what forgets nothing predicts best."""
    rng = np.random.default_rng(8)
    pool = pool_of(*[()] * 12)
    rates, entries = rng.uniform(0.05, 0.95, len(pool)), []
    for seq in range(1, 2 * FEWEST_STEPS + 1):
        chosen = np.sort(rng.choice(len(pool), 4, replace=False)).tolist()
        solved = [float(rng.binomial(8, rates[task])) for task in chosen]
        pieces = [(task, s, 8.0 - s) for task, s in zip(chosen, solved, strict=True)]
        entries.append(Entry(seq, 0, pool.profiles, report_of(*pieces)))
    own = settings_from({"belief": "bots", "forgetting": 0.9})
    candidates = candidates_for(own, pool)
    found = compared(
        candidates, collected(refolded(fresh_state(own, pool), entries, candidates, pool), len(candidates))
    )
    by_name = {each.candidate.name: each for each in found.scores}
    best = by_name["BOTS, forgetting 0, implicit weight 0.1"]
    assert math.isclose(best.log_loss, min(each.log_loss for each in found.scores if each.candidate.role != "tracker"))
    assert best.log_loss_difference is not None
    assert best.log_loss_difference.is_lower
    assert found.recommended in (best.candidate.name, "tracker")
