"""Study: how much CPU time choosing takes, as a share of a training step, by the size of the pool."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from statistics import median
from time import process_time

import numpy as np
from scipy.special import expit

from bots_service.core.arrays import Floats, Tasks
from studies.environment import Batch
from studies.learners import ATTEMPTS, logits_of, real_rates
from studies.method import Method, Served
from studies.published import DenseBOTS
from studies.study import Cell, Study, StudyChart, StudyTable
from studies.trial import Measures, run_trial

TASKS = ("1000", "10000", "100000", "1000000")
STEPS, WARM = 30, 5  # the first steps of a trial are not counted
QUICK_STEPS, QUICK_TASKS = 8, 2000
COUNT, ROLLOUTS = 32, 16
DENSE = "BOTS, dense as published"

METHODS: dict[str, Callable[[Floats, int], Method]] = {
    DENSE: DenseBOTS,
    "BOTS": lambda references, seed: Served(references, seed=seed, belief="bots"),
    "tracker, pass": lambda references, seed: Served(references, seed=seed, belief="tracker"),
    "tracker, thompson": lambda references, seed: Served(references, seed=seed, belief="tracker", strategy="thompson"),
}


@dataclass(frozen=True, slots=True)
class Fixed:
    """A pool of any size whose model never changes; timing needs no more.

    references: [N, 2] pass rates: of a weak model in 16 attempts, of Qwen2.5-Math-7B in 128.
    probabilities: [N] of success.
    """

    references: Floats
    probabilities: Floats
    name = "resampled rates"
    reference_models = ("untrained, another of its kind", "qwen2.5-math-7b")
    tags = None
    steps = STEPS

    def success(self) -> Floats:
        """[N] the model's probabilities of success."""
        return self.probabilities

    def accuracy(self) -> float:
        """Return nothing of interest, at no cost."""
        return 0.0

    def train(self, batch: Batch) -> None:
        """Stay as it is."""


@lru_cache(maxsize=1)
def pool_of_size(tasks: int) -> Fixed:
    """Return the pool of so many tasks; kept, because all methods are timed on it."""
    rng = np.random.default_rng(tasks)
    strong = real_rates(tasks, rng)
    success = np.asarray(expit(logits_of(strong) - 1.5 + rng.normal(0, 1, tasks)))
    weak = rng.binomial(ATTEMPTS, success) / ATTEMPTS
    return Fixed(np.stack([weak, strong], axis=1), success)


class Timed:
    """A method whose selections and reports are timed one by one; its predictions are never read.

    select_seconds, report_seconds: CPU time of each.
    """

    def __init__(self, method: Method) -> None:
        """Time this method."""
        self.method = method
        self.select_seconds, self.report_seconds = list[float](), list[float]()

    def select(self, count: int) -> Tasks:
        """Return [count] distinct tasks."""
        begun = process_time()
        tasks = self.method.select(count)
        self.select_seconds.append(process_time() - begun)
        return tasks

    def report(self, batch: Batch) -> None:
        """Learn from what the chosen tasks showed."""
        begun = process_time()
        self.method.report(batch)
        self.report_seconds.append(process_time() - begun)

    def means(self) -> Floats | None:
        """Return None: no prediction is read."""
        return None


def trial(tasks: str, name: str, seed: int, quick: bool) -> Measures:
    """Make one trial; its extras are medians over its steps."""
    pool = pool_of_size(min(int(tasks), QUICK_TASKS) if quick else int(tasks))
    method, rng = Timed(METHODS[name](pool.references, seed)), np.random.default_rng(1000 + seed)
    steps = QUICK_STEPS if quick else STEPS
    measures = run_trial(pool, method, steps=steps, count=COUNT, rollouts=ROLLOUTS, rng=rng)
    select_ms, report_ms = (1e3 * median(each[WARM:]) for each in (method.select_seconds, method.report_seconds))
    return replace(measures, extra={"select, ms": select_ms, "report, ms": report_ms})


OVERHEAD = Study(
    name="overhead",
    title="How much time does choosing take?",
    claim="A few milliseconds of CPU time a step, up to a million tasks.",
    cells=tuple(
        Cell({"tasks": tasks, "method": method}, partial(trial, tasks, method)) for tasks in TASKS for method in METHODS
    ),
    tables=(StudyTable("time", ("tasks", "method"), ("select, ms", "report, ms")),),
    charts=(
        StudyChart(
            "time",
            "CPU time of a selection, in milliseconds, by the number of tasks",
            x="tasks",
            y="select, ms",
            lines=("method",),
        ),
    ),
)
