"""Beta distributions of success probabilities."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv, betaln, xlog1py, xlogy

from bots_service.core.arrays import Counts, Flags, Floats, as_places

INTERVAL = (0.05, 0.95)
JEFFREYS = 0.5  # alpha and beta of Jeffreys' prior of a probability


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
        counts = np.array([self.alpha - self.prior[0], self.beta - self.prior[1]])
        return np.asarray(np.maximum(counts, 0.0) + JEFFREYS, np.float64)

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
