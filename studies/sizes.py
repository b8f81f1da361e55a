"""Study: how much choosing gains, and how well beliefs predict, by the sizes of pool, batch and group."""

from functools import partial
from typing import Any

import numpy as np

from bots_service.core.arrays import Floats, Tasks
from studies.environment import Batch
from studies.learners import Learner
from studies.method import Method, Served
from studies.study import Cell, Study, StudyTable, unique
from studies.trial import Measures, run_trial

TASKS, BATCH, ROLLOUTS = ("1000", "10000", "100000", "1000000"), ("8", "32", "128", "512"), ("1", "4", "8", "16", "64")
DEFAULTS = {"tasks": "10000", "batch": "32", "rollouts": "16"}
STEPS, QUICK_STEPS, QUICK_TASKS = 100, 6, 2000
READ_EVERY = 25  # steps between two readings of a large pool's predictions

SETTINGS: dict[str, dict[str, Any]] = {
    "uniform": {"belief": "bots", "strategy": "uniform"},
    "BOTS": {"belief": "bots"},
    "tracker, pass": {"belief": "tracker"},
    "tracker, thompson": {"belief": "tracker", "strategy": "thompson"},
}


class Rising(Learner):
    """A pool of any size whose model becomes better by 0.01 logits a step, whatever is chosen.

    It rises every tenth step, by 0.1: the success of a million tasks takes time to compute.
    """

    name = "resampled rates"
    steps = STEPS

    def __init__(self, seed: int, *, tasks: int) -> None:
        super().__init__(seed, tasks=tasks)
        self.level, self.made = 0.0, 0
        self._success = super().success()

    def logits(self) -> Floats:
        """[N] of the model's probabilities of success."""
        return self.start + self.level

    def success(self) -> Floats:
        """[N] the model's probabilities of success now."""
        return self._success

    def train(self, batch: Batch) -> None:  # noqa: ARG002  it does not react
        """Move on by a step."""
        self.made += 1
        if self.made % 10 == 0:
            self.level += 0.1
            self._success = super().success()


class SeldomRead:
    """A method whose predictions are read only every so many steps: in a large pool, reading takes the time."""

    def __init__(self, method: Method, every: int) -> None:
        """Read in the third step, where a trial scores its first readings, and every so many after it."""
        self.method, self.every, self.asked = method, every, 0

    def select(self, count: int) -> Tasks:
        """Return [count] distinct tasks."""
        return self.method.select(count)

    def report(self, batch: Batch) -> None:
        """Learn from what the chosen tasks showed."""
        self.method.report(batch)

    def means(self) -> Floats | None:
        """[N] predicted probabilities of success, or None in most steps."""
        self.asked += 1
        return self.method.means() if self.asked % self.every == 3 else None


def trial(labels: dict[str, str], seed: int, quick: bool) -> Measures:
    """Make one trial."""
    tasks, count, rollouts = (int(labels[name]) for name in DEFAULTS)
    environment = Rising(seed, tasks=min(tasks, QUICK_TASKS) if quick else tasks)
    method = SeldomRead(Served(environment.references, seed=seed, **SETTINGS[labels["method"]]), READ_EVERY)
    return run_trial(
        environment,
        method,
        steps=QUICK_STEPS if quick else STEPS,
        count=count,
        rollouts=rollouts,
        rng=np.random.default_rng(1000 + seed),
    )


def cells() -> tuple[Cell, ...]:
    """Return all cells: one size after the other varied, the others as they are by default."""
    varied = {"tasks": TASKS, "batch": BATCH, "rollouts": ROLLOUTS}
    labels = [
        {**DEFAULTS, size: value, "method": method}
        for size, values in varied.items()
        for value in values
        for method in SETTINGS
    ]
    return tuple(unique(Cell(each, partial(trial, each)) for each in labels))


def table(name: str, size: str, measure: str) -> StudyTable:
    """Return the table of a measure in which one size varies."""
    others: dict[str, tuple[str, ...]] = {other: (value,) for other, value in DEFAULTS.items() if other != size}
    return StudyTable(name, ("method",), (measure,), where=others, across=size)


SIZES = Study(
    name="sizes",
    title="What difference do the sizes of pool, batch and group make?",
    claim="Those of pool and batch hardly any; the fewer rollouts a task has, the more the tracker is ahead.",
    cells=cells(),
    tables=(
        *(table(size, size, "effective_task_ratio") for size in DEFAULTS),
        table("predicted", "rollouts", "pool_log_loss"),
    ),
)
