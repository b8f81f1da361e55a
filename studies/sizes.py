"""Study: how much choosing gains, and how well beliefs predict, by the sizes of pool, batch and group."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bots_service.core.arrays import Floats, Tasks
from studies.environment import Batch
from studies.learners import Learner
from studies.method import Method, Served
from studies.progress import Pairs
from studies.study import Cell, Comparison, Study, StudyTable, unique
from studies.tables import interval_of
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
FOR_SIXTEEN = "tracker, pass for groups of 16"  # whatever a group has; only where rollouts vary


class Rising(Learner):
    """A pool of any size whose model becomes better by 0.01 logits a step, whatever is chosen.

    It rises every tenth step, by 0.1: the success of a million tasks takes time to compute.

    teaching: mean of 4 p (1 - p) over the tasks of each step, the part of the largest possible signal that they have.
    """

    name = "resampled rates"
    steps = STEPS

    def __init__(self, seed: int, *, tasks: int) -> None:
        super().__init__(seed, tasks=tasks)
        self.level, self.made, self.teaching = 0.0, 0, list[float]()
        self._success = super().success()

    def logits(self) -> Floats:
        """[N] of the model's probabilities of success."""
        return self.start + self.level

    def success(self) -> Floats:
        """[N] the model's probabilities of success now."""
        return self._success

    def train(self, batch: Batch) -> None:
        """Move on by a step."""
        chosen = self._success[batch.tasks]
        self.teaching.append(float(np.mean(4 * chosen * (1 - chosen))))
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
    settings = {**SETTINGS, FOR_SIXTEEN: {"belief": "tracker", "rollouts_per_task": 16}}[labels["method"]]
    method = SeldomRead(Served(environment.references, seed=seed, **settings), READ_EVERY)
    measures = run_trial(
        environment,
        method,
        steps=QUICK_STEPS if quick else STEPS,
        count=count,
        rollouts=rollouts,
        rng=np.random.default_rng(1000 + seed),
    )
    return replace(measures, extra={"teaching": float(np.mean(environment.teaching))})


def cells() -> tuple[Cell, ...]:
    """Return all cells: one size after the other varied, the others as they are by default."""
    varied = {"tasks": TASKS, "batch": BATCH, "rollouts": ROLLOUTS}
    labels = [
        {**DEFAULTS, size: value, "method": method}
        for size, values in varied.items()
        for value in values
        for method in (*SETTINGS, *([FOR_SIXTEEN] if size == "rollouts" else []))
    ]
    return tuple(unique(Cell(each, partial(trial, each)) for each in labels))


def times(measure: str, pairs: Pairs) -> str:
    """Return the mean over seeds of a measure as a multiple of the baseline's; nothing where that is 0."""

    def value(measured: dict[str, Any]) -> float:
        return float(measured[measure] if measure in measured else measured["extra"][measure])

    found: Sequence[tuple[float, float]] = [(value(ours), value(theirs)) for ours, theirs in pairs]
    if not all(theirs for _, theirs in found):
        return ""
    return interval_of([ours / theirs for ours, theirs in found]).shown(2)


def table(size: str) -> StudyTable:
    """Return the table in which one size varies."""
    shown: dict[str, tuple[str, ...]] = {name: (value,) for name, value in DEFAULTS.items() if name != size}
    if size != "rollouts":
        shown["method"] = tuple(SETTINGS)
    return StudyTable(
        size,
        (size, "method"),
        ("effective_task_ratio", "teaching", "pool_log_loss", "distinct_tasks"),
        where=shown,
        comparisons=(
            Comparison("ETR, times uniform's", {"method": "uniform"}, partial(times, "effective_task_ratio")),
        ),
    )


SIZES = Study(
    name="sizes",
    title="What difference do the sizes of pool, batch and group make?",
    claim="The sizes of pool and batch hardly any; the fewer rollouts a task has, the more the tracker is ahead.",
    cells=cells(),
    tables=tuple(table(size) for size in DEFAULTS),
)
