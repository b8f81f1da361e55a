"""What selection gains with and without reference pass rates, in simulation: python -m benchmarks.without_references.

Tasks of fixed success probability: nothing is learned, so this asks only how well a belief finds the tasks of use.
Many are solved nearly always or never, as in real pools: p ~ Beta(0.45, 0.45).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from scipy.special import expit, logit

from benchmarks.pools import drawn
from bots_service.core.arrays import Floats
from bots_service.core.draw.selection import SelectRequest
from bots_service.core.entries import Entry, Report
from bots_service.core.evidence import Evidence
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings
from bots_service.core.state import advance, fresh_state

TASKS, STEPS, ROLLOUTS, SEEDS = 960, 200, 8, 3
SHAPE = 0.45
ATTEMPTS = 16  # of each reference model at each task
APART = 1.0  # logits by which the weak reference stands below the model, and the strong one above


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to select: tasks a step, whether two reference models tried every task, and the run's settings."""

    name: str
    batch: int
    has_references: bool
    settings: RunSettings


BOTS = RunSettings(belief="bots", strategy="thompson")
ARMS = (
    Arm("uniform sampling", 16, False, replace(BOTS, strategy="uniform")),
    Arm("the defaults, without references", 16, False, RunSettings()),
    Arm("the defaults, with two references", 16, True, RunSettings()),
    Arm("BOTS, without references", 16, False, BOTS),
    Arm("the same, 96 tasks a step", 96, False, BOTS),
    Arm("BOTS, with two references", 16, True, BOTS),
    Arm("BOTS, `forgetting` 0.01, without references", 16, False, replace(BOTS, forgetting=0.01)),
)


@dataclass(frozen=True, slots=True)
class Row:
    """The result of an arm: the share of effective tasks in the last quarter, and how many tasks were ever selected."""

    arm: Arm
    effective_task_ratio: float
    distinct: float


def measure(seeds: int = SEEDS) -> Iterator[Row]:
    """Yield a row for each arm, means over the seeds."""
    for arm in ARMS:
        ratios, distinct = zip(*(simulated(arm, seed) for seed in range(seeds)), strict=True)
        yield Row(arm, fmean(ratios), fmean(distinct))


def simulated(arm: Arm, seed: int) -> tuple[float, int]:
    """Return the effective task ratio of the last quarter of a run, and how many different tasks it selected."""
    rng = np.random.default_rng(seed)
    probability = rng.beta(SHAPE, SHAPE, TASKS)
    pool = Pool.of_tasks(references_of(probability, rng) if arm.has_references else np.empty((TASKS, 0)))
    state = fresh_state(arm.settings, pool)
    request = SelectRequest("pool", arm.batch)
    tried: set[int] = set()
    effective = []
    for step in range(STEPS):
        tasks = np.sort(drawn(state, pool, request, rng))
        solved = rng.binomial(ROLLOUTS, probability[tasks]).astype(float)
        is_effective = (solved > 0) & (solved < ROLLOUTS)
        evidence = Evidence(tasks, solved, ROLLOUTS - solved, is_effective)
        state, _ = advance(state, Entry(step + 1, 0, pool.profiles, Report(evidence, None, None)), pool)
        tried.update(tasks.tolist())
        effective.append(is_effective.mean())
    return fmean(effective[-STEPS // 4 :]), len(tried)


def references_of(probability: Floats, rng: np.random.Generator) -> Floats:
    """Return [N, 2] pass rates of a weaker and a stronger model on the tasks."""
    known = logit(np.clip(probability, 1e-6, 1 - 1e-6))
    return np.stack([rng.binomial(ATTEMPTS, expit(known + by)) / ATTEMPTS for by in (-APART, APART)], axis=1)


def table(rows: Iterator[Row]) -> str:
    """Return the rows as Markdown."""
    lines = ["| selection | tasks a step | ETR, last quarter | tasks ever selected |", "| --- | ---: | ---: | ---: |"]
    lines += (
        f"| {row.arm.name} | {row.arm.batch} | {row.effective_task_ratio:.2f} | {row.distinct:.0f} |" for row in rows
    )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(measure()))
