"""Study: what happens where rewards are not 0 or 1, or are wrong."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit

from bots_service.core.arrays import Flags, Floats
from studies.environment import binomial
from studies.method import Served
from studies.public_pools import POOLS, PublicPool, Replayed, varied
from studies.replaying import COUNT, QUICK_STEPS, ROLLOUTS
from studies.study import Cell, Study, StudyTable
from studies.trial import CLIP, Measures, logit_of, run_trial

STEPS = 200  # of the 500 and 400 that were recorded
FLIPPED = 0.1  # share of verdicts that are wrong
FORMAT_BONUS, WELL_FORMED = 0.1, 0.8  # what it is worth, and how often it is earned
PARTS = 4  # of an answer, each worth as much; a wrong answer has up to 3 right
SHIFT = 2.0  # logits, of pools of rare successes or of rare failures

SETTINGS: dict[str, dict[str, Any]] = {
    "uniform": {"belief": "bots", "strategy": "uniform"},
    "BOTS": {"belief": "bots"},
    "tracker, pass": {"belief": "tracker"},
    "tracker, thompson": {"belief": "tracker", "strategy": "thompson"},
}

Reported = tuple[Floats, Floats, Flags]  # successes, failures, and whether rewards differ


def flipped(solved: Floats, rollouts: int, rng: np.random.Generator) -> Reported:
    """Report what a verifier says that is wrong about one rollout in ten."""
    failed = rollouts - solved
    passed = rng.binomial(solved.astype(int), 1 - FLIPPED) + rng.binomial(failed.astype(int), FLIPPED)
    successes = passed.astype(np.float64)
    return successes, rollouts - successes, (successes > 0) & (successes < rollouts)


def rewards_of(solved: Floats, rollouts: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """[B, rollouts] whether each rollout is right, and a uniform number for each."""
    is_right = np.arange(rollouts) < solved[:, None]
    return is_right.astype(np.float64), rng.random(is_right.shape)


def as_sums(rewards: Floats) -> Reported:
    """Report [B, rollouts] rewards in [0, 1] as the service adds them up: r to the successes, 1 - r to the failures."""
    return rewards.sum(axis=1), (1 - rewards).sum(axis=1), np.ptp(rewards, axis=1) > 0


def partial_credit(solved: Floats, rollouts: int, rng: np.random.Generator) -> Reported:
    """Report a reward of 1 for a right answer, and 0 to 3 quarters, all as likely, for a wrong one."""
    is_right, luck = rewards_of(solved, rollouts, rng)
    return as_sums(np.where(is_right > 0, 1.0, np.floor(PARTS * luck) / PARTS))


def with_format(solved: Floats, rollouts: int, rng: np.random.Generator) -> Floats:
    """[B, rollouts] 0.9 for a right answer, and 0.1 more for the right form, which four in five have."""
    is_right, luck = rewards_of(solved, rollouts, rng)
    return (1 - FORMAT_BONUS) * is_right + FORMAT_BONUS * (luck < WELL_FORMED)


def shaped(solved: Floats, rollouts: int, rng: np.random.Generator) -> Reported:
    """Report rewards with a bonus for the form."""
    return as_sums(with_format(solved, rollouts, rng))


def shaped_with_counts(solved: Floats, rollouts: int, rng: np.random.Generator) -> Reported:
    """Report how many answers are right as counts, next to rewards with a bonus for the form."""
    _, _, differ = shaped(solved, rollouts, rng)
    return solved, rollouts - solved, differ


def exact(solved: Floats, rollouts: int, _rng: np.random.Generator) -> Reported:
    """Report how many answers are right."""
    return solved, rollouts - solved, (solved > 0) & (solved < rollouts)


@dataclass(slots=True)
class Seen:
    """Rewards of a trial that remembers which groups had both right and wrong answers.

    report: what is reported of so many right answers.
    shares: [steps] of the groups with both.
    """

    report: Callable[[Floats, int, np.random.Generator], Reported]
    shares: list[float] = field(default_factory=list)

    def __call__(self, success: Floats, rollouts: int, rng: np.random.Generator) -> Reported:
        """Roll out tasks of these success probabilities; return what is reported."""
        solved, _, effective = binomial(success, rollouts, rng)
        self.shares.append(float(effective.mean()))
        return self.report(solved, rollouts, rng)


def moved(pool: PublicPool, logits: float) -> PublicPool:
    """Return the pool with the model and its references better by so many logits."""
    success, references = (np.asarray(expit(logit_of(rates) + logits)) for rates in (pool.success, pool.references))
    # A rate of 0 or 1 stays one: clipped to CLIP, it would become a task that is sometimes solved.
    success, references = (
        np.where(rates <= CLIP, 0.0, np.where(rates >= 1 - CLIP, 1.0, new))
        for rates, new in ((pool.success, success), (pool.references, references))
    )
    return replace(pool, success=success, references=references)


REWARDS_OF: dict[str, tuple[Callable[[Floats, int, np.random.Generator], Reported], float]] = {
    "right or wrong": (exact, 0.0),
    "rare successes": (exact, -SHIFT),
    "rare failures": (exact, SHIFT),
    "verdicts flipped": (flipped, 0.0),
    "partial credit": (partial_credit, 0.0),
    "bonus for form": (shaped, 0.0),
    "bonus for form, with counts": (shaped_with_counts, 0.0),
}


def trial(pool_name: str, kind: str, method: str, seed: int, quick: bool) -> Measures:
    """Make one trial."""
    report, logits = REWARDS_OF[kind]
    pool = varied(pool_name, None)
    environment, rewards = Replayed(moved(pool, logits) if logits else pool), Seen(report)
    measures = run_trial(
        environment,
        Served(environment.references, seed=seed, **SETTINGS[method]),
        steps=QUICK_STEPS if quick else STEPS,
        count=COUNT,
        rollouts=ROLLOUTS,
        rng=np.random.default_rng(1000 + seed),
        rewards=rewards,
    )
    return replace(measures, extra={"right and wrong": float(np.mean(rewards.shares))})


REWARDS = Study(
    name="rewards",
    title="What if rewards are not simply 0 or 1?",
    claim="Rewards for other things than right answers mislead; report the right answers as counts next to them.",
    cells=tuple(
        Cell({"pool": pool, "rewards": kind, "method": method}, partial(trial, pool, kind, method))
        for pool in POOLS
        for kind in REWARDS_OF
        for method in SETTINGS
    ),
    tables=(StudyTable("rewards", ("pool", "rewards"), ("right and wrong",), across="method"),),
)
