"""What a pass that weighs costs finds for as many tokens, in simulation: python -m benchmarks.per_cost.

The model learns steadily, and the costs are modelled, not recorded: a task has a mean length of its own (lognormal),
longer the less likely it is solved, and each rollout varies around it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from scipy.special import expit

from benchmarks.pools import NO_TASKS
from bots_service.core.costs import cost_rows
from bots_service.core.draw.selection import NamedTasks, SelectRequest, select_tasks
from bots_service.core.entries import Entry, Report
from bots_service.core.evidence import Evidence
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings
from bots_service.core.state import advance, fresh_state
from bots_service.usecases.select_tasks import context_of

TASKS, BATCH, ROLLOUTS, STEPS, SEEDS = 2000, 64, 8, 250, 3
ABILITY = (-0.3, 2.0)  # mean and deviation of the tasks' logits at the beginning
LEARNED = 2.0  # logits that the model gains over all steps
TYPICAL = 600.0  # tokens of a rollout of a task that is always solved
VARIES = 0.4  # deviation of the logarithm of a rollout's length
WORLDS = {"lengths differ much": (0.6, 1.5), "lengths differ little": (0.3, 1.5), "hard tasks are long": (0.3, 3.0)}
ARMS = {
    "uniform": RunSettings(strategy="uniform"),
    "`pass`": RunSettings(),
    '`pass`, `per_cost: "tokens"`': RunSettings(per_cost="tokens"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """What an arm came to in a world: means over the seeds.

    per_million: effective tasks for a million tokens; ratio: of the reported tasks that were effective.
    met: how many different tasks it reported.
    """

    world: str
    arm: str
    per_million: float
    ratio: float
    met: float


def measure(seeds: int = SEEDS) -> Iterator[Row]:
    """Yield a row for each arm in each world."""
    for world, (differs, harder) in WORLDS.items():
        for arm, settings in ARMS.items():
            found = [simulated(settings, differs, harder, seed) for seed in range(seeds)]
            effective, tokens, met = (fmean(column) for column in zip(*found, strict=True))
            yield Row(world, arm, 1e6 * effective / tokens, effective / (STEPS * BATCH), met)


def simulated(settings: RunSettings, differs: float, harder: float, seed: int) -> tuple[int, float, int]:
    """Return how many effective tasks a run found, how many tokens it took, and how many different tasks it met.

    Args:
        settings: of the run.
        differs: deviation of the logarithm of the tasks' lengths.
        harder: by which share of TYPICAL a task is longer that is never solved.
        seed: of the world.
    """
    rng, draws = np.random.default_rng(seed), np.random.default_rng(1000 + seed)
    ability, own = rng.normal(*ABILITY, TASKS), TYPICAL * rng.lognormal(0.0, differs, TASKS)
    pool = Pool.of_tasks(np.empty((TASKS, 0)))
    state, request = fresh_state(settings, pool), SelectRequest("pool", BATCH)
    effective, tokens, met = 0, 0.0, set[int]()
    for step in range(STEPS):
        chance = expit(ability + LEARNED * step / STEPS)
        context = context_of(state, draws)
        chosen = select_tasks(state.belief, pool, request, context, named=NamedTasks(), leased=NO_TASKS)
        tasks = np.sort(chosen.tasks)
        solved = rng.binomial(ROLLOUTS, chance[tasks]).astype(float)
        lengths = own[tasks] * (1 + harder * (1 - chance[tasks]))
        spent = np.rint(lengths * rng.lognormal(0.0, VARIES, (ROLLOUTS, BATCH))).sum(axis=0)
        teaches = (solved > 0) & (solved < ROLLOUTS)
        costs = cost_rows(tasks, np.stack([spent, np.full(BATCH, np.nan)]), np.full(BATCH, float(ROLLOUTS)))
        report = Report(Evidence(tasks, solved, ROLLOUTS - solved, teaches), step, None, chosen.walks, costs)
        state, _ = advance(state, Entry(step + 1, 0, pool.profiles, report), pool)
        effective, tokens = effective + int(teaches.sum()), tokens + float(spent.sum())
        met.update(tasks.tolist())
    return effective, tokens, len(met)


def table(rows: Iterator[Row]) -> str:
    """Return the rows as Markdown."""
    lines = [
        "| tasks | selection | effective tasks per million tokens | ETR | tasks met |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    lines += (f"| {row.world} | {row.arm} | {row.per_million:.1f} | {row.ratio:.3f} | {row.met:.0f} |" for row in rows)
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(measure()))
