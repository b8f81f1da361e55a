"""How well a belief fits success probabilities that are known exactly."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit, logit

LEAST = 1e-6  # a belief this sure is taken to be no surer: its logit stays finite
ROUNDS = 50  # of Newton's method; some ten are needed
SETTLED = 1e-9


@dataclass(frozen=True, slots=True)
class Calibration:
    """A belief against the truth.

    slope: of the true log odds on the believed ones, fitted to expected outcomes: 1 is right, less is too sure.
    log_loss: the mean of an outcome to expect, in nats; least: the same of one who knows the truth.
    """

    slope: float
    log_loss: float
    least: float


def calibration_of(believed: NDArray[np.float64], truth: NDArray[np.float64]) -> Calibration:
    """Compare believed success probabilities with true ones, [tasks] each."""
    believed = np.clip(believed, LEAST, 1 - LEAST)
    losses = -(truth * np.log(believed) + (1 - truth) * np.log1p(-believed))
    least = entr(truth) + entr(1 - truth)
    return Calibration(slope_of(logit(believed), truth), float(losses.mean()), float(least.mean()))


def slope_of(logits: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """Return b of the a + b logit(belief) with the least expected log loss (logistic regression on shares).

    NaN where all beliefs are the same: they have no slope.
    """
    if np.ptp(logits) < SETTLED:
        return float("nan")
    inputs = np.stack([np.ones_like(logits), logits], axis=1)
    weights = np.zeros(2)
    for _ in range(ROUNDS):
        fitted = expit(inputs @ weights)
        curvature = (inputs * (fitted * (1 - fitted))[:, None]).T @ inputs
        step = np.linalg.solve(curvature, inputs.T @ (truth - fitted))
        weights += step
        if np.abs(step).max() < SETTLED:
            break
    return float(weights[1])
