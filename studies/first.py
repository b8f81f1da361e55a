"""Study: what published pass rates say about tasks that were never tried."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bots_service.core.arrays import Flags
from studies.environment import Batch
from studies.method import Served
from studies.public_pools import PublicPool, Replayed
from studies.reference_pools import NONE, RIGHT, STRONGER, reference_case
from studies.replaying import COUNT, QUICK_STEPS
from studies.study import Cell, Study, StudyTable
from studies.trial import Measures, run_trial

POOL = "recorded run"
STEPS, ROLLOUTS = 12, 8  # the first pass of `pass` takes 12 or 13 steps; the recorded run itself made 8 rollouts
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "a shuffled pass": (NONE, {"strategy": "shuffle"}),
    "`pass`, nothing known": (NONE, {}),
    "`pass`, published pass rates": (STRONGER, {}),
    "`pass`, those and the model's own before training": (RIGHT, {}),
    "`thompson`, published pass rates": (STRONGER, {"strategy": "thompson"}),
}


class FirstVisits(Replayed):
    """A pool that notes whether each task was effective when it came first."""

    def __init__(self, pool: PublicPool) -> None:
        """Begin with no task visited."""
        super().__init__(pool)
        self.visited = np.zeros(len(pool.references), bool)
        self.effective: list[Flags] = []

    def train(self, batch: Batch) -> None:
        """Note the batch's tasks that come for the first time."""
        self.effective.append(batch.effective[~self.visited[batch.tasks]])
        self.visited[batch.tasks] = True
        super().train(batch)


def trial(run: str, seed: int, quick: bool) -> Measures:
    """Make one trial."""
    case, settings = RUNS[run]
    pool = reference_case(POOL, case).pool
    environment = FirstVisits(pool)
    measures = run_trial(
        environment,
        Served(pool.references, seed=seed, belief="tracker", **settings),
        steps=QUICK_STEPS if quick else STEPS,
        count=COUNT,
        rollouts=ROLLOUTS,
        rng=np.random.default_rng(1000 + seed),
    )
    return replace(measures, extra={"ETR, first visits": float(np.concatenate(environment.effective).mean())})


FIRST = Study(
    name="first",
    title="What do published pass rates say about tasks that were never tried?",
    claim="Of tasks that were never tried, 59 % are effective with the pass rates of one other model, 50 % "
    "without; 73 % where `thompson` may leave tasks out.",
    cells=tuple(Cell({"run": run}, partial(trial, run)) for run in RUNS),
    tables=(StudyTable("first", ("run",), ("effective_task_ratio", "ETR, first visits", "distinct_tasks")),),
)
