"""Study: what a probe tells of tasks that were never tried, and what one costs that tells nothing."""

from dataclasses import replace
from functools import partial
from statistics import fmean

import numpy as np

from bots_service.core.arrays import Tasks
from bots_service.core.entries import Entry, Probe
from bots_service.core.state import advance
from studies.environment import Batch
from studies.method import Served
from studies.public_pools import POOLS, PublicPool, Replayed, without_references
from studies.replaying import COUNT, QUICK_STEPS, ROLLOUTS
from studies.study import Cell, Study, StudyTable
from studies.trial import Measures, log_loss, logit_of, run_trial

STEPS, FIRST_STEPS, EVERY = 100, 50, 25  # of a trial; in which untried tasks are looked at; between two probes
NONE, ONCE, RENEWED = "none", "the logit with noise", "that, renewed"
FRESH, NOISE = "that, renewed with new noise", "noise"
PROBES = (NONE, ONCE, RENEWED, FRESH, NOISE)


class Probed(Served):
    """A run without references that is told the model's own logits, with noise as wide as they are, or noise alone."""

    def __init__(self, pool: PublicPool, seed: int, probe: str) -> None:
        """Begin; a probe is put in front of the first step."""
        super().__init__(pool.references, belief="tracker", seed=seed)
        self.environment, self.probe = Replayed(pool), probe
        self.untried = np.ones(len(self.pool), bool)
        self.losses: list[float] = []
        self._rng = np.random.default_rng(2000 + seed)
        self._noise = self._rng.normal(size=len(self.pool))

    def select(self, count: int) -> Tasks:
        """Return [count] distinct tasks, after a probe where it is time for one."""
        step, success = self.state.step, self.environment.success()
        if self.probe != NONE and (step == 0 or (step % EVERY == 0 and self.probe in (RENEWED, FRESH))):
            self._put()
        if step < FIRST_STEPS and self.untried.any():
            self.losses.append(log_loss(success[self.untried], self.means()[self.untried]))
        return super().select(count)

    def _put(self) -> None:
        if self.probe == FRESH:
            self._noise = self._rng.normal(size=len(self.pool))
        logits = logit_of(self.environment.success())
        told = 0.0 if self.probe == NOISE else (logits - logits.mean()) / logits.std()
        entry = Entry(self.state.seq + 1, 0, self.pool.profiles, Probe.of(self._everything, told + self._noise))
        self.state, _ = advance(self.state, entry, self.pool)

    def report(self, batch: Batch) -> None:
        """Fold the batch of the last selection."""
        super().report(batch)
        self.untried[batch.tasks] = False


def trial(pool: str, probe: str, seed: int, quick: bool) -> Measures:
    """Make one trial."""
    method = Probed(without_references(POOLS[pool]()), seed, probe)
    steps, rng = QUICK_STEPS if quick else STEPS, np.random.default_rng(1000 + seed)
    measures = run_trial(method.environment, method, steps=steps, count=COUNT, rollouts=ROLLOUTS, rng=rng)
    return replace(measures, extra={"untried_log_loss": fmean(method.losses)})


PROBED = Study(
    name="probes",
    title="What does a probe tell of tasks that were never tried?",
    claim="One with a correlation of 0.7 lowers their log loss by 0.18 and 0.25; one of noise alone costs 0.001.",
    cells=tuple(
        Cell({"pool": pool, "probe": probe}, partial(trial, pool, probe)) for pool in POOLS for probe in PROBES
    ),
    tables=(
        StudyTable(
            "probes",
            ("pool", "probe"),
            ("untried_log_loss", "pool_log_loss", "effective_task_ratio"),
            baseline={"probe": NONE},
        ),
    ),
)
