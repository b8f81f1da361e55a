"""Measures what predictions of pass rates are worth to a run of the tracker, and what useless ones cost.

    python -m benchmarks.predictions [--seeds 5] [--steps 50] [--json]

Tasks of two public pools, 32 a step chosen uniformly, 16 rollouts each. The same reports are folded with a column of
predictions and without it. "another model": 16 rollouts of a reference model. "earlier run": what a run believes after
20 steps of the tasks that it tried. "shuffled": the pass rates of the other model, at wrong tasks. "contrary": 1 less
the other model's pass rate.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.stats import t as student

from benchmarks.scores import print_scores
from bots_service.core.arrays import Floats
from bots_service.core.entries import Body, Entry, Report
from bots_service.core.evidence import Evidence
from bots_service.core.pool import Pool
from bots_service.core.predictions import rounded, seen_with
from bots_service.core.run_settings import RunSettings
from bots_service.core.state import advance, fresh_state
from studies.public_pools import PublicPool, reasoning_gym, recorded_run, without_references

COUNT = 32  # tasks a step
ROLLOUTS = 16  # of each of them
STEPS = 50
SEEDS = 5
EARLIER_STEPS = 20
EARLIER_SEED = 1000
PREDICTORS = ("another model", "earlier run", "shuffled", "contrary")
POOLS = ("recorded run, no references", "recorded run, two references", "reasoning gym, no references")


@dataclass(frozen=True, slots=True)
class PredictionScore:
    """The mean log loss of a run's first steps, with and without predictions."""

    pool: str
    predictor: str
    seed: int
    without: float
    with_predictions: float


def outcomes(pool: PublicPool, step: int, rng: np.random.Generator) -> Evidence:
    """Return what the model shows on tasks chosen uniformly at one step."""
    tasks = np.sort(rng.choice(pool.success.shape[1], COUNT, replace=False)).astype(np.int32)
    solved = rng.binomial(ROLLOUTS, pool.success[step, tasks]).astype(np.float64)
    return Evidence(tasks, solved, ROLLOUTS - solved, (solved > 0) & (solved < ROLLOUTS)).frozen()


def mean_log_loss(pool: Pool, settings: RunSettings, bodies: list[Body]) -> float:
    """Return the mean over closed steps of the log loss of what was predicted before each, per rollout."""
    state, losses = fresh_state(settings, pool), []
    for seq, body in enumerate(bodies, 1):
        state, receipt = advance(state, Entry(seq, 0, pool.profiles, body), pool)
        if receipt.log_loss is not None:
            losses.append(receipt.log_loss)
    return float(np.mean(losses))


def reports(public: PublicPool, seed: int, steps: int) -> list[Body]:
    """Return what the model shows in its first steps."""
    rng = np.random.default_rng(seed)
    return [Report(outcomes(public, step, rng), None, None) for step in range(steps)]


def believed_by_run(public: PublicPool, pool: Pool) -> Floats:
    """[N] what a run believes after some steps of the tasks that it tried; NaN for the others."""
    state = fresh_state(RunSettings(), pool)
    for seq, body in enumerate(reports(public, EARLIER_SEED, EARLIER_STEPS), 1):
        state, _ = advance(state, Entry(seq, 0, pool.profiles, body), pool)
    rates, tasks = np.full(len(pool), np.nan), state.belief.own_tasks
    rates[tasks] = state.belief.distributions(pool, tasks).mean
    return rates


def predicted(predictor: str, public: PublicPool, pool: Pool, other: Floats) -> Floats:
    """[N] predicted pass rates. other: [N] those of another model."""
    if predictor == "earlier run":
        return believed_by_run(public, pool)
    if predictor == "shuffled":
        return np.random.default_rng(0).permutation(other)
    return 1.0 - other if predictor == "contrary" else other


def scores(*, seeds: int, steps: int = STEPS, pools: tuple[str, ...] = POOLS) -> Iterator[PredictionScore]:
    """Yield a score for each pool, predictor and seed."""
    for name in pools:
        whole = recorded_run() if name.startswith("recorded") else reasoning_gym()
        public = whole if name.endswith("two references") else without_references(whole)
        pool, settings = Pool.of_tasks(public.references), RunSettings()
        shown = [reports(public, seed, steps) for seed in range(seeds)]
        without = [mean_log_loss(pool, settings, each) for each in shown]
        for predictor in PREDICTORS:
            rates = predicted(predictor, public, pool, whole.references[:, 1])
            seen = seen_with(pool, [rounded("x", rates, pool, [])])
            for seed, each in enumerate(shown):
                yield PredictionScore(name, predictor, seed, without[seed], mean_log_loss(seen, settings, each))


def table(found: list[PredictionScore]) -> str:
    """Return a table in Markdown, with 95 % intervals of the paired differences."""
    lines = ["| pool | predictions | without | with | difference |", "|---|---|---|---|---|"]
    for pool in POOLS:
        for predictor in PREDICTORS:
            some = [one for one in found if (one.pool, one.predictor) == (pool, predictor)]
            without = np.mean([one.without for one in some])
            with_predictions = np.mean([one.with_predictions for one in some])
            gains = np.array([one.with_predictions - one.without for one in some])
            half = student.ppf(0.975, len(gains) - 1) * gains.std(ddof=1) / sqrt(len(gains))
            difference = f"{gains.mean():+.4f} ± {half:.4f}"
            lines.append(f"| {pool} | {predictor} | {without:.4f} | {with_predictions:.4f} | {difference} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print_scores(__doc__, scores, table, seeds=SEEDS, steps=STEPS)
