"""How the finetuning run judges a belief against exact success probabilities."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit
from scipy.stats import bernoulli

from examples.finetune.calibration import calibration_of

TRUTH = expit(np.random.default_rng(1).normal(0, 2, 300))


def test_the_truth_is_calibrated() -> None:
    found = calibration_of(TRUTH, TRUTH)
    assert found.slope == pytest.approx(1)
    assert found.log_loss == pytest.approx(found.least)
    assert found.least == pytest.approx(np.mean([bernoulli(p).entropy() for p in TRUTH]))


@pytest.mark.parametrize(("factor", "slope"), [(2.0, 0.5), (0.5, 2.0)])
def test_a_belief_that_is_too_sure_has_a_slope_below_one(factor: float, slope: float) -> None:
    believed = expit(factor * logit(TRUTH) + 0.3)
    found = calibration_of(believed, TRUTH)
    assert found.slope == pytest.approx(slope)
    expected = -np.mean(TRUTH * np.log(believed) + (1 - TRUTH) * np.log(1 - believed))
    assert found.log_loss == pytest.approx(expected)
    assert found.log_loss > found.least


def test_the_slope_is_that_of_the_least_log_loss() -> None:
    rng = np.random.default_rng(2)
    believed = expit(0.6 * logit(TRUTH) + rng.normal(0, 1, len(TRUTH)))

    def loss(weights: np.ndarray) -> float:
        fitted = expit(weights[0] + weights[1] * logit(believed))
        return float(-np.mean(TRUTH * np.log(fitted) + (1 - TRUTH) * np.log(1 - fitted)))

    assert calibration_of(believed, TRUTH).slope == pytest.approx(minimize(loss, [0.0, 1.0]).x[1], abs=1e-3)


def test_beliefs_that_are_all_the_same_have_no_slope() -> None:
    assert math.isnan(calibration_of(np.full(len(TRUTH), 0.5), TRUTH).slope)


def test_certainty_costs_much_but_not_all() -> None:
    found = calibration_of(np.array([1.0, 0.0]), np.array([0.5, 0.5]))
    assert found.log_loss == pytest.approx(-0.5 * math.log(1e-6), rel=1e-3)
    assert found.least == pytest.approx(math.log(2))
