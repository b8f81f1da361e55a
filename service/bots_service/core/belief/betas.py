"""Beta distributions of success probabilities."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv, betaln, digamma, xlog1py, xlogy

from bots_service.core.arrays import Counts, Flags, Floats, as_places
from bots_service.core.portable_math import running

INTERVAL = (0.05, 0.95)
JEFFREYS = 0.5  # alpha and beta of Jeffreys' prior of a probability
MOST_EVIDENCE = 1e6  # alpha + beta of a distribution with a bound
BLOCK = 16_384  # distributions at a time: their numbers stay in the processor's cache


@dataclass(frozen=True, slots=True)
class Betas:
    """Beta(alpha, beta), one for each of n tasks or profiles.

    alpha, beta: [n] > 0.
    prior: what alpha and beta of each were before any evidence.
    """

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
        """[n] how likely some of m rollouts succeed and some fail, counting the evidence on top of Jeffreys' prior.

        With p ~ Beta(alpha, beta), all of m rollouts succeed with probability E[p^m] = B(alpha + m, beta) / B(alpha,
        beta), and all fail with E[(1 - p)^m]; B is the beta function.

        By a run's own prior nearly every task would be effective: with (1, 1) and 16 rollouts, 88 % of those that
        nothing is known of. Most tasks of real pools are solved nearly always or never, as Jeffreys' prior expects.
        """
        alpha, beta = self._on_jeffreys()
        whole = betaln(alpha, beta)
        none_fails = np.exp(betaln(alpha + rollouts, beta) - whole)
        all_fail = np.exp(betaln(alpha, beta + rollouts) - whole)
        return np.asarray(np.maximum(1.0 - none_fails - all_fail, 0.0), np.float64)

    def gains(self, most: int) -> Floats:
        """[n, most - 1] by how much each rollout from the second on makes a group likelier effective.

        By E[p^m (1 - p)] + E[(1 - p)^m p], on top of Jeffreys' prior as `effective`.
        """
        counts = self._on_jeffreys()
        whole = np.empty((most, len(self)))
        whole[0], whole[1:] = counts[0] + counts[1], 1.0
        running(whole, np.add)
        alike = counts + np.arange(most - 1.0)[:, None, None]  # [most - 1, 2, n]: all solved, and all failed
        alike /= whole[:-1, None]
        running(alike, np.multiply)
        alike *= counts[::-1]
        differs = alike[:, 0] + alike[:, 1]
        differs /= whole[1:]
        return differs.T

    def all_fail(self, rollouts: Counts) -> Floats:
        """[n] E[(1 - p)^m], on top of Jeffreys' prior as `effective`."""
        alpha, beta = self._on_jeffreys()
        whole, found = alpha + beta, np.ones(len(self))
        for failed in range(int(rollouts.max(initial=0))):
            np.multiply(found, beta / whole, out=found, where=failed < rollouts)
            beta += 1
            whole += 1
        return found

    def _on_jeffreys(self) -> NDArray[np.float64]:
        """[2, n] alpha and beta of the evidence on top of Jeffreys' prior."""
        counts = np.empty((2, len(self.alpha)))
        np.subtract(self.alpha, self.prior[0], out=counts[0])
        np.subtract(self.beta, self.prior[1], out=counts[1])
        np.maximum(counts, 0.0, out=counts)
        counts += JEFFREYS
        return counts

    def as_beta(self) -> tuple[Floats, Floats]:
        """Return alpha and beta."""
        return self.alpha, self.beta

    def at(self, places: Counts | Flags) -> "Betas":
        """Return the distributions at the given places, or where a mask says so."""
        places = as_places(places)
        return Betas(self.alpha.take(places), self.beta.take(places), self.prior)

    def joined(self, others: "Betas") -> "Betas":
        """Return these distributions, followed by others."""
        if not len(self):
            return others
        alpha, beta = np.concatenate([self.alpha, others.alpha]), np.concatenate([self.beta, others.beta])
        return Betas(alpha, beta, self.prior)

    def mirrored(self) -> "Betas":
        """Return the distributions of 1 - p."""
        return Betas(self.beta, self.alpha, self.prior[::-1])

    def sample(self, rng: np.random.Generator) -> Floats:
        """[n] one draw from each."""
        return rng.beta(self.alpha, self.beta)

    def below(self, value: float) -> Floats:
        """[n] P(X <= value)."""
        return np.asarray(betainc(self.alpha, self.beta, value), np.float64)

    def quantile(self, levels: Floats) -> Floats:
        """[n] the value below which each has the given probability."""
        return np.asarray(betaincinv(self.alpha, self.beta, levels), np.float64)

    def log_density(self, values: Floats | float) -> Floats:
        """[n] log of each density at its value."""
        alpha, beta = self.alpha, self.beta
        return np.asarray(xlogy(alpha - 1, values) + xlog1py(beta - 1, -values) - betaln(alpha, beta), np.float64)

    def log_bound(self, target: float) -> tuple[Floats, Floats]:
        """Return log of a bound of the density at the target, and how steep the density's log is there; each [n].

        A concave log density lies below its tangent. Stirling's formula bounds 1 / B(alpha, beta) from above, by a
        factor of at most 1.13 for alpha and beta >= 1, and is much quicker than `betaln`. The bound is infinite where
        the log density is not concave, or so narrow that rounding could lift it over the bound.
        """
        log_height, slope = np.empty(len(self)), np.empty(len(self))
        for start in range(0, len(self), BLOCK):
            block = slice(start, start + BLOCK)
            alpha, beta = self.alpha[block], self.beta[block]
            height, slope[block] = _height_and_slope(alpha, beta, target)
            height[(np.minimum(alpha, beta) < 1) | (alpha + beta > MOST_EVIDENCE)] = np.inf
            log_height[block] = height
        return log_height, slope


def _height_and_slope(alpha: Floats, beta: Floats, target: float) -> tuple[Floats, Floats]:
    total = alpha + beta
    log_height = (total - 0.5) * np.log(total)
    log_height -= (alpha - 0.5) * np.log(alpha)
    log_height -= (beta - 0.5) * np.log(beta)
    log_height += (alpha - 1) * math.log(target)
    log_height += (beta - 1) * math.log1p(-target)
    log_height -= 0.5 * math.log(2 * math.pi)
    return log_height, np.abs((alpha - 1) / target - (beta - 1) / (1 - target))


ROUNDING = 1e-6  # of log bounds: a density's rounding must not lift it over its bound


@dataclass(frozen=True, slots=True)
class BetaCells:
    """Beta distributions in C cells, each with alpha and beta near those of its middle.

    middle: [C] the distribution in the middle of each.
    reach: [C] by how much alpha, and beta, of the others differ from it at most.
    """

    middle: Betas
    reach: Floats

    def log_bound(self, target: float, reach: float) -> Floats:
        """[C] log of a bound of all densities of each cell within `reach` of the target; infinite where there is none.

        The log density is concave in alpha and beta, as those of exponential families are in their parameters. So all
        others lie below the tangent plane at the middle. The middle's lies below its tangent at the target, or above
        that by half its curvature there times the square of the distance, where it isn't concave.
        """
        alpha, beta = self.middle.alpha, self.middle.beta
        nearest, farthest = target - reach, 1 - target - reach  # to 0 and to 1
        slope = np.abs((alpha - 1) / target - (beta - 1) / (1 - target))
        convex = np.maximum(1 - alpha, 0.0) / nearest**2 + np.maximum(1 - beta, 0.0) / farthest**2
        whole = digamma(alpha + beta)
        by_alpha = np.abs(math.log(target) - digamma(alpha) + whole) + reach / nearest
        by_beta = np.abs(math.log1p(-target) - digamma(beta) + whole) + reach / farthest
        found = self.middle.log_density(target) + slope * reach + convex * (reach * reach / 2) + ROUNDING
        found += (by_alpha + by_beta) * self.reach
        return np.where(alpha + beta > MOST_EVIDENCE, np.inf, found)
