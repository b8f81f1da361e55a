"""Methods that others published, by their papers' rules, and an oracle that knows what no method can."""

import numpy as np

from bots_service.core.arrays import Floats, Tasks
from studies.environment import Batch, Environment


def nearest(values: Floats, target: float, count: int) -> Tasks:
    """Return the places of the `count` values that are nearest to the target, in no order."""
    by_distance: Tasks = np.argpartition(np.abs(values - target), count - 1).astype(np.int32)
    return by_distance[:count]


class MoPPS:
    """Model predictive prompt selection (arXiv:2507.04632): a Beta distribution for each task, and Thompson sampling.

    With s successes and f failures of a chosen task, and the paper's lambda, the share of the past that is kept:

        alpha' = lambda alpha + (1 - lambda) alpha_0 + s        beta' = lambda beta + (1 - lambda) beta_0 + f

    Other tasks stay as they are. A step draws a success rate of each of some random candidates, 16 for each task that
    it needs, and takes those nearest to the target. The authors' code keeps 0.5 of the past on two of its three kinds
    of tasks, and all of it on the third.
    """

    prior = 1.0  # alpha_0 and beta_0

    def __init__(self, tasks: int, seed: int, *, kept: float = 0.5, candidates: int = 16, target: float = 0.5) -> None:
        """Begin with the prior.

        Args:
            tasks: N.
            seed: of the draws.
            kept: lambda, in [0, 1].
            candidates: for each task that a step needs.
            target: the success rate to look for.
        """
        self.kept, self.candidates, self.target = kept, candidates, target
        self.alpha, self.beta = np.full(tasks, self.prior), np.full(tasks, self.prior)
        self._rng = np.random.default_rng(seed)

    def select(self, count: int) -> Tasks:
        """Return [count] distinct tasks, in no order."""
        tasks = len(self.alpha)
        looked_at = self._rng.choice(tasks, min(self.candidates * count, tasks), replace=False)
        drawn = self._rng.beta(self.alpha[looked_at], self.beta[looked_at])
        chosen: Tasks = looked_at[nearest(drawn, self.target, count)].astype(np.int32)
        return chosen

    def report(self, batch: Batch) -> None:
        """Learn from what the chosen tasks showed."""
        fresh = (1 - self.kept) * self.prior
        self.alpha[batch.tasks] = self.kept * self.alpha[batch.tasks] + fresh + batch.successes
        self.beta[batch.tasks] = self.kept * self.beta[batch.tasks] + fresh + batch.failures

    def means(self) -> Floats:
        """[N] posterior means."""
        return np.asarray(self.alpha / (self.alpha + self.beta))


class KalmanFilter:
    """A Kalman filter for each task, as KGPS (arXiv:2607.27610) has; its numbers as in ARCUS.

    The state of a task with success probability p is the angle arcsin(sqrt(p)), on which the noise of a group of n
    rollouts hardly depends on p. It begins as N(pi / 4, pi^2 / 48), the moments of an even spread over its range. Its
    variance grows by `drift` a step. A group with s successes shows arcsin(sqrt((s + 3/8) / (n + 3/4))) with variance
    1 / (4 n + 2); where all agree 0 or pi / 2, with variance 1 / (2 n).

    A step draws every task's angle, and takes those nearest to that of the target. The papers weight tasks by formulas
    of their own, and fit the drift as they go; this is the filter alone.
    """

    start, variance = np.pi / 4, np.pi**2 / 48

    def __init__(self, tasks: int, seed: int, *, drift: float = 6e-4, target: float = 0.5) -> None:
        """Begin with the prior.

        Args:
            tasks: N.
            seed: of the draws.
            drift: variance that each step adds; the default is a standard deviation of half a radian in 400 steps.
            target: the success rate to look for.
        """
        self.drift, self.target = drift, float(np.arcsin(np.sqrt(target)))
        self.angle, self.spread = np.full(tasks, self.start), np.full(tasks, self.variance)
        self._rng = np.random.default_rng(seed)

    def select(self, count: int) -> Tasks:
        """Return [count] distinct tasks, in no order."""
        drawn = self.angle + np.sqrt(self.spread) * self._rng.standard_normal(len(self.angle))
        return nearest(drawn, self.target, count)

    def report(self, batch: Batch) -> None:
        """Let all tasks drift by a step, after learning from what the chosen ones showed."""
        solved, group = batch.successes, batch.successes + batch.failures
        agree = (solved == 0) | (batch.failures == 0)
        shown = np.arcsin(np.sqrt(np.where(agree, solved / group, (solved + 3 / 8) / (group + 3 / 4))))
        noise = np.where(agree, 1 / (2 * group), 1 / (4 * group + 2))
        gain = self.spread[batch.tasks] / (self.spread[batch.tasks] + noise)
        self.angle[batch.tasks] += gain * (shown - self.angle[batch.tasks])
        self.spread[batch.tasks] *= 1 - gain
        self.spread += self.drift

    def means(self) -> Floats:
        """[N] means of sin(angle)^2."""
        return np.asarray((1 - np.exp(-2 * self.spread) * np.cos(2 * self.angle)) / 2)


class Oracle:
    """Knows every task's success probability: the most that a belief could reach with a way of choosing."""

    def __init__(self, environment: Environment) -> None:
        """Look at the model itself."""
        self.environment = environment

    def report(self, batch: Batch) -> None:
        """Learn nothing: all is known."""

    def means(self) -> Floats:
        """[N] the model's success probabilities now."""
        return self.environment.success()


class NearestOracle(Oracle):
    """Takes the tasks whose success probability is nearest to one half."""

    def select(self, count: int) -> Tasks:
        """Return [count] distinct tasks, in no order."""
        return nearest(self.environment.success(), 0.5, count)


class PassOracle(Oracle):
    """Walks shuffled passes, and takes a task with the probability that its group is effective: 1 - p^m - (1 - p)^m."""

    def __init__(self, environment: Environment, seed: int, *, rollouts: int) -> None:
        """Begin the first pass; a group has so many rollouts."""
        super().__init__(environment)
        self.rollouts = rollouts
        self._rng = np.random.default_rng(seed)
        self._ahead = np.empty(0, np.int32)

    def select(self, count: int) -> Tasks:
        """Return [count] distinct tasks; as `pass`, it fills up with the likeliest where a whole pass gives too few."""
        success = self.environment.success()
        effective = 1 - success**self.rollouts - (1 - success) ** self.rollouts
        chosen = self._from_pass(effective, count)
        for _ in range(2):
            if len(chosen) < count:
                self._ahead = self._rng.permutation(len(success)).astype(np.int32)
                others = self._from_pass(effective, count)
                chosen = np.concatenate([chosen, others[~np.isin(others, chosen)]])[:count]
        left = np.setdiff1d(np.argsort(-effective, kind="stable"), chosen, assume_unique=True)
        return np.concatenate([chosen, left[: count - len(chosen)]]).astype(np.int32)

    def _from_pass(self, effective: Floats, count: int) -> Tasks:
        """Walk on, to the pass's end at most; return up to `count` tasks."""
        taken = np.flatnonzero(self._rng.random(len(self._ahead)) < effective[self._ahead])[:count]
        tasks = self._ahead[taken]
        self._ahead = self._ahead[taken[-1] + 1 :] if len(taken) == count else self._ahead[:0]
        return tasks
