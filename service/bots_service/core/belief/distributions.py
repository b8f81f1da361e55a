"""Independent distributions over [0, 1] of n success probabilities: Beta, and logit-normal.

`sample`, `bound_within` and `sample_within` are of one distribution: the one that Thompson sampling draws from.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, betaln, expit, logit, ndtr, ndtri, xlog1py, xlogy

from bots_service.core.arrays import Counts, Flags, Floats, as_places, frozen
from bots_service.core.portable_math import exp, log, sigmoid, summed

INTERVAL = (0.05, 0.95)
JEFFREYS = 0.5  # alpha and beta of Jeffreys' prior of a probability
TINY = 1e-300  # numbers and distances below this count as 0: smaller ones may underflow
FLAT = 1e-9  # a line that changes less over a window is level


@dataclass(frozen=True, slots=True)
class Betas:
    """Beta(alpha, beta), each [n] > 0. prior: what alpha and beta of each were before any evidence."""

    alpha: Floats
    beta: Floats
    prior: tuple[float, float]

    def __len__(self) -> int:
        return len(self.alpha)

    @property
    def mean(self) -> Floats:
        """[n] alpha / (alpha + beta)."""
        return self.alpha / (self.alpha + self.beta)

    @property
    def rollout_variance(self) -> Floats:
        """[n] E[p (1 - p)] = alpha beta / ((alpha + beta) (alpha + beta + 1))."""
        total = self.alpha + self.beta
        return self.alpha / total * (self.beta / (total + 1))

    def interval(self) -> tuple[Floats, Floats]:
        """Return the 5 % and 95 % quantiles, each [n]."""
        low, high = betaincinv(self.alpha, self.beta, np.array(INTERVAL)[:, None])
        return low, high

    def effective(self, rollouts: float) -> Floats:
        """[n] how likely some of m rollouts succeed and some fail: 1 - E[p^m] - E[(1 - p)^m].

        E[p^m] = B(alpha + m, beta) / B(alpha, beta), B the beta function. The evidence counts on top of Jeffreys'
        prior: by (1, 1), 88 % of unknown tasks would be effective with 16 rollouts; most of real pools are solved
        nearly always or never.
        """
        alpha, beta = self._on_jeffreys()
        whole = betaln(alpha, beta)
        none_fails = np.exp(betaln(alpha + rollouts, beta) - whole)
        all_fail = np.exp(betaln(alpha, beta + rollouts) - whole)
        return np.asarray(np.maximum(1.0 - none_fails - all_fail, 0.0), np.float64)

    def all_fail(self, rollouts: Counts) -> Floats:
        """[n] E[(1 - p)^m], m >= 1 of each, on top of Jeffreys' prior; the same bits on every machine."""
        alpha, beta = self._on_jeffreys()
        whole, found = alpha + beta, np.ones(len(self))
        for failed in range(int(rollouts.max(initial=0))):
            np.multiply(found, beta / whole, out=found, where=failed < rollouts)
            beta += 1
            whole += 1
        return found

    def _on_jeffreys(self) -> NDArray[np.float64]:
        counts = np.array([self.alpha - self.prior[0], self.beta - self.prior[1]])
        return np.asarray(np.maximum(counts, 0.0) + JEFFREYS, np.float64)

    def at(self, places: Counts | Flags) -> "Betas":
        """Return the distributions at the given places, or where a mask says so."""
        places = as_places(places)
        return Betas(self.alpha.take(places), self.beta.take(places), self.prior)

    def mirrored(self) -> "Betas":
        """Return the distributions of 1 - p."""
        return Betas(self.beta, self.alpha, self.prior[::-1])

    def sample(self, rng: np.random.Generator) -> Floats:
        """[n] one draw from each."""
        return rng.beta(self.alpha, self.beta)

    def bound_within(self, low: float, high: float) -> Floats:
        """[n] a bound on P(low <= X <= high), which a narrow window nearly reaches; infinite where there is none."""
        return self._line_above(low, high)[2]

    def sample_within(self, low: float, high: float, rng: np.random.Generator) -> Floats:
        """[n] one draw from each between low and high, or NaN: of so many as the bound says, P(low <= X <= high) stay.

        By rejection from the exponential distribution over the window whose log density is the line above ours. The
        bounds are finite.
        """
        level, slope, _ = self._line_above(low, high)
        steep = np.maximum(np.abs(slope), FLAT / max(high - low, TINY))
        fallen = -np.log1p(rng.random(len(self)) * np.expm1(-steep * (high - low))) / steep  # from its higher end
        values = np.where(slope > 0, high - fallen, low + fallen).clip(low, high)
        over = level + slope * (values - (low + high) / 2) - self._log_density(values)
        return np.where(rng.standard_exponential(len(self)) >= over, values, np.nan)

    def _line_above(self, low: float, high: float) -> tuple[Floats, Floats, Floats]:
        """Return a line nowhere below the log density in a window: its level in the middle, and its slope, each [n].

        And the integral of its exponential. (alpha - 1) log p lies below its tangent, here where the density is
        largest, or where alpha < 1 below its chord; so does (beta - 1) log(1 - p).
        """
        width, powers = high - low, (self.alpha - 1, self.beta - 1)
        rising, falling = (np.maximum(power, 0) for power in powers)
        touched = (rising / np.maximum(rising + falling, TINY)).clip(low, high)
        level, slope = -betaln(self.alpha, self.beta), np.zeros(len(self))
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            for power, at, near, far, sign in (
                (powers[0], touched, low, high, 1),
                (powers[1], 1 - touched, 1 - low, 1 - high, -1),
            ):
                at = np.maximum(at, TINY)  # noqa: PLW2901
                steep, height = sign / at, np.log(at) + ((near + far) / 2 - at) / at
                if power.min(initial=0) < 0:
                    ends, is_convex = np.log([near, far]), power < 0
                    steep = np.where(is_convex, (ends[1] - ends[0]) / width, steep)
                    height = np.where(is_convex, ends.mean(), height)
                level, slope = level + power * height, slope + power * steep
            fall = np.maximum(np.abs(slope) * width, FLAT)
            whole = np.exp(level + fall / 2 + np.log(-np.expm1(-fall) / fall)) * width
        return level, slope, np.where(np.isnan(whole), np.inf, whole)

    def _log_density(self, values: Floats) -> Floats:
        alpha, beta = self.alpha, self.beta
        return np.asarray(xlogy(alpha - 1, values) + xlog1py(beta - 1, -values) - betaln(alpha, beta), np.float64)


# The positive half of 15-point Gauss-Hermite quadrature for N(0, 1). Literals: computed ones differ in the last bits.
HALF = (  # nodes and weights
    (0.79912906832455, 0.23246229360973225),
    (1.60671006902873, 0.08941779539984437),
    (2.43243682700976, 0.01736577449213762),
    (3.28908242439877, 0.00156735750354996),
    (4.19620771126902, 5.642146405189e-05),
    (5.19009359130478, 5.9754195979e-07),
    (6.36394788882984, 8.5896499e-10),
)
NODES = frozen(np.array([*(-x for x, _ in reversed(HALF)), 0.0, *(x for x, _ in HALF)]))
WEIGHTS = frozen(np.array([*(w for _, w in reversed(HALF)), 0.31825951825951815, *(w for _, w in HALF)]))
FOCUS = 0.5  # selection draws with this share of the standard deviation; simulated, any from 0.15 to 0.7 does as well
PROBIT = math.pi / 8  # sigmoid(x) is about Phi(x sqrt(pi / 8)): MacKay, Neural Computation 4, 1992
TAIL = 1.6448536269514722  # the 95 % quantile of N(0, 1)
BLOCK = 1024  # distributions at a time in a quadrature: their numbers stay in the processor's cache


@dataclass(frozen=True, slots=True)
class LogitNormals:
    """p = sigmoid(theta), theta ~ N(location, variance), each [n]; Thompson sampling narrows it, by FOCUS."""

    location: Floats
    variance: Floats

    def __len__(self) -> int:
        return len(self.location)

    @property
    def mean(self) -> Floats:
        """[n] E[p], by the probit approximation: right to 0.02."""
        return np.asarray(expit(self.location / np.sqrt(1 + PROBIT * self.variance)), np.float64)

    @property
    def rollout_variance(self) -> Floats:
        """[n] E[p (1 - p)], by quadrature."""
        return self._expected(lambda p: p * (1 - p))

    def interval(self) -> tuple[Floats, Floats]:
        """Return the 5 % and 95 % quantiles, each [n]."""
        reach = TAIL * np.sqrt(self.variance)
        return np.asarray(expit(self.location - reach)), np.asarray(expit(self.location + reach))

    def effective(self, rollouts: float) -> Floats:
        """[n] E[1 - p^m - (1 - p)^m], by quadrature."""
        return self._expected(lambda p: np.maximum(1 - p**rollouts - (1 - p) ** rollouts, 0.0))

    def all_fail(self, rollouts: Counts) -> Floats:
        """[n] E[(1 - p)^m], m >= 1 of each, by quadrature; the same bits on every machine."""
        failing = sigmoid(-(self.location + np.sqrt(self.variance) * NODES[:, None]))
        return summed(WEIGHTS[:, None] * exp(rollouts * log(failing)))

    def at(self, places: Counts | Flags) -> "LogitNormals":
        """Return the distributions at the given places, or where a mask says so."""
        places = as_places(places)
        return LogitNormals(self.location.take(places), self.variance.take(places))

    def mirrored(self) -> "LogitNormals":
        """Return the distributions of 1 - p."""
        return LogitNormals(-self.location, self.variance)

    def sample(self, rng: np.random.Generator) -> Floats:
        """[n] one draw from each."""
        return np.asarray(expit(self.location + self._width * rng.standard_normal(len(self))), np.float64)

    def bound_within(self, low: float, high: float) -> Floats:
        """[n] P(low <= X <= high)."""
        return np.maximum(self._below(high) - self._below(low), 0.0)  # no rounding below 0

    def sample_within(self, low: float, high: float, rng: np.random.Generator) -> Floats:
        """[n] one draw from each between low and high."""
        levels = self._below(low) + self.bound_within(low, high) * rng.random(len(self))
        values = expit(self.location + self._width * ndtri(np.minimum(levels, 1.0)))
        return np.asarray(values, np.float64).clip(low, high)

    def _below(self, value: float) -> Floats:
        return np.asarray(ndtr((logit(value) - self.location) / self._width), np.float64)

    @property
    def _width(self) -> Floats:
        return FOCUS * np.sqrt(self.variance)

    def _expected(self, value: Callable[[Floats], Floats]) -> Floats:
        # One node after the other: products of matrices may give equal distributions different last bits.
        found = np.zeros(len(self))
        for start in range(0, len(self), BLOCK):
            block = slice(start, start + BLOCK)
            rates = expit(self.location[block] + np.sqrt(self.variance[block]) * NODES[:, None])
            found[block] = summed(WEIGHTS[:, None] * value(np.asarray(rates, np.float64)))
        return found


Distributions = Betas | LogitNormals
