"""Pools of tasks made up for timing, and training runs on them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from bots_service.core.arrays import Floats, Tasks
from bots_service.core.draw import NamedTasks, SelectRequest, select_tasks
from bots_service.core.entries import Entry, Report
from bots_service.core.evidence import ClosingStep, Evidence, sum_by_task
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings
from bots_service.core.state import RunState, advance, fresh_state
from bots_service.selections import context_of

References = Literal["k/16", "real"]
NO_TASKS: Tasks = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Grounds:
    """A pool, and the pass rates it was made from: [N, 2], weak and strong."""

    pool: Pool
    rates: Floats

    def __len__(self) -> int:
        return len(self.rates)


def make_rates(tasks: int, references: References, seed: int = 1) -> Floats:
    """Make up [N, 2] pass rates of a weak and a strong reference model.

    As k/16 they give up to 289 profiles; as real numbers each task is a profile of its own.
    """
    rng = np.random.default_rng([seed, tasks])
    rates = np.stack([rng.beta(1, 2, tasks), rng.beta(2, 1, tasks)], axis=1)
    return rng.binomial(16, rates) / 16 if references == "k/16" else rates


def make_grounds(tasks: int, references: References) -> Grounds:
    """Make a pool, with what the service builds once when it opens a dataset: tasks grouped by profile."""
    rates = make_rates(tasks, references)
    # Of real numbers no two are equal; finding that out takes a long sort.
    pool = Pool.of_tasks(rates) if references == "k/16" else Pool(rates, np.arange(tasks, dtype=np.int32))
    pool.part()
    return Grounds(pool, rates)


def outcomes(grounds: Grounds, tasks: Tasks, step: int, rng: np.random.Generator) -> Evidence:
    """Make up what 16 rollouts of each task show, of a model that learns over some 200 steps."""
    weak, strong = grounds.rates[tasks].T
    skill = 0.2 + 0.6 * min(step / 200, 1)
    solved = np.clip(weak + skill * (strong - weak) + rng.normal(0, 0.15, len(tasks)), 0, 1)
    successes = rng.binomial(16, solved).astype(float)
    return Evidence(tasks, successes, 16 - successes, (successes > 0) & (successes < 16))


def select(state: RunState, grounds: Grounds, count: int, rng: np.random.Generator) -> Tasks:
    """Select as the run's settings say from all tasks, nothing leased."""
    return drawn(state, grounds.pool, SelectRequest("pool", count), rng)


def drawn(state: RunState, pool: Pool, request: SelectRequest, rng: np.random.Generator) -> Tasks:
    """Select as the run's settings say, nothing leased."""
    context = context_of(state, rng)
    return select_tasks(state.belief, pool, request, context, named=NamedTasks(), leased=NO_TASKS).tasks


def report(state: RunState, evidence: Evidence, grounds: Grounds) -> RunState:
    """Fold one step, receipt included."""
    return advance(state, entry_of(state, evidence, grounds), grounds.pool)[0]


def entry_of(state: RunState, evidence: Evidence, grounds: Grounds) -> Entry:
    """Return the journal's next entry, with a report that closes a step."""
    return Entry(state.seq + 1, state.epoch, grounds.pool.profiles, Report(evidence, None, True))


def fold_of(state: RunState, evidence: Evidence, grounds: Grounds) -> Callable[[], object]:
    """Return what folds one step into the belief alone: without receipt, attempts and costs."""
    pool, whole = grounds.pool, sum_by_task(evidence)
    step = ClosingStep(state.step + 1, ((0, whole),), whole, state.rollouts_per_task or 16.0)
    return partial(state.belief.extended(pool, pool.profiles).fold, pool, step, state.settings)


def train(grounds: Grounds, settings: RunSettings, *, steps: int, batch: int) -> RunState:
    """Return the state after so many steps of select and report.

    Where each task is a profile, tasks are taken at random instead: which ones they are changes no cost there, and
    selecting 200 times from 1e7 such tasks would take minutes.
    """
    rng = np.random.default_rng([steps, batch])
    state = fresh_state(settings, grounds.pool)
    alone = grounds.pool.profiles == len(grounds)
    for step in range(steps):
        tasks = rng.integers(0, len(grounds), batch) if alone else select(state, grounds, batch, rng)
        state = report(state, outcomes(grounds, np.unique(tasks).astype(np.int32), step, rng), grounds)
    return state
