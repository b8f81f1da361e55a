"""Study: how many more groups are effective where rollouts are shared out of a budget, at equal tasks and rollouts."""

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Flags, Floats, Tasks
from bots_service.core.draw.budget import LEAST_ROLLOUTS, most_by_default, shared_out
from studies.environment import Batch, Environment
from studies.method import Served
from studies.public_pools import POOLS, Replayed
from studies.replaying import QUICK_STEPS
from studies.sizes import times
from studies.study import Cell, Comparison, Study, StudyTable
from studies.trial import Measures, run_trial

CONSTANT, SHARED, ORACLE = "constant", "shared out", "shared out by an oracle"
AS_MEASURED, NONE = "as measured", "none"
STRATEGIES = ("pass", "uniform")
SIZES = ("4", "8", "16")  # rollouts of a task, the mean
BUDGET, COUNTS = 512, ("16", "32", "64", "128")  # rollouts of a step, and tasks that they are for
COUNT = "32"


class SharingOut:
    """A run of the service that says how many rollouts each task gets.

    rollouts: [B] of the last selection's tasks, ascending.
    teaching: mean of 4 p (1 - p) over the rollouts of each step.
    """

    def __init__(self, environment: Environment, served: Served, rule: str, mean: int) -> None:
        """Share out `mean` rollouts a task by the rule."""
        self.environment, self.served, self.rule, self.mean = environment, served, rule, mean
        self.rollouts: Tasks = np.empty(0, np.int32)
        self.teaching: list[float] = []

    def select(self, count: int) -> Tasks:
        """Return [count] distinct tasks, ascending."""
        tasks = np.sort(self.served.select(count))
        self.rollouts = self._shared_out(tasks)
        return tasks

    def report(self, batch: Batch) -> None:
        """Learn from what the chosen tasks showed."""
        self.served.report(batch)

    def means(self) -> Floats | None:
        """[N] predicted probabilities of success."""
        return self.served.means()

    def roll_out(self, success: Floats, _mean: int, rng: np.random.Generator) -> tuple[Floats, Floats, Flags]:
        """Return successes, failures, and whether both occurred, of the last selection's tasks."""
        solved = rng.binomial(self.rollouts, success).astype(np.float64)
        self.teaching.append(float(np.average(4 * success * (1 - success), weights=self.rollouts)))
        return solved, self.rollouts - solved, (solved > 0) & (solved < self.rollouts)

    def _shared_out(self, tasks: Tasks) -> Tasks:
        budget = self.mean * len(tasks)
        if self.rule == CONSTANT:
            return np.full(len(tasks), self.mean, np.int32)
        most = most_by_default(budget, len(tasks))
        if self.rule == ORACLE:
            gains = gains_of(self.environment.success()[tasks], most)
        else:
            gains = self.served.state.belief.distributions(self.served.pool, tasks).gains(most)
        return shared_out(gains, budget, least=LEAST_ROLLOUTS)


def gains_of(success: Floats, most: int) -> NDArray[np.float64]:
    """Return [n, most - 1] what each rollout from the second on adds to a group of known success probability."""
    p, rollouts = success[:, None], np.arange(1, most)
    return np.asarray(p**rollouts * (1 - p) + (1 - p) ** rollouts * p)


def trial(labels: dict[str, str], seed: int, quick: bool) -> Measures:
    """Make one trial."""
    environment = Replayed.of(labels["pool"], NONE if labels["references"] == NONE else None)
    served = Served(environment.references, belief="tracker", seed=seed, strategy=labels["strategy"])
    method = SharingOut(environment, served, labels["rollouts"], int(labels["mean"]))
    measures = run_trial(
        environment,
        method,
        steps=QUICK_STEPS if quick else environment.steps,
        count=int(labels["tasks"]),
        rollouts=int(labels["mean"]),
        rng=np.random.default_rng(1000 + seed),
        rewards=method.roll_out,
    )
    groups = measures.effective_groups[-1] / measures.steps
    return replace(measures, extra={"groups a step": groups, "teaching": float(np.mean(method.teaching))})


def cell(pool: str, references: str, strategy: str, tasks: str, mean: str, rule: str) -> Cell:
    """Return one cell."""
    labels = {
        "pool": pool,
        "references": references,
        "strategy": strategy,
        "tasks": tasks,
        "mean": mean,
        "rollouts": rule,
        "budget": str(int(tasks) * int(mean)),
    }
    return Cell(labels, partial(trial, labels))


CONSTANT_NUMBER = {"rollouts": CONSTANT}
TIMES = Comparison("groups, times a constant number's", CONSTANT_NUMBER, partial(times, "groups a step"))
TEACHING = Comparison("teaching, times", CONSTANT_NUMBER, partial(times, "teaching"))
BUDGET_STUDY = Study(
    name="budget",
    title="How much does a budget of rollouts bring?",
    claim="Little by `pass`, 0 to 4 % more effective groups; with uniform choice and few rollouts up to 11 %.",
    cells=(
        *(
            cell(pool, AS_MEASURED, strategy, COUNT, mean, rule)
            for pool in POOLS
            for strategy in STRATEGIES
            for mean in SIZES
            for rule in (CONSTANT, SHARED, ORACLE)
        ),
        *(cell(pool, NONE, "pass", COUNT, "8", rule) for pool in POOLS for rule in (CONSTANT, SHARED)),
        *(
            cell(pool, AS_MEASURED, "pass", tasks, str(BUDGET // int(tasks)), rule)
            for pool in POOLS
            for tasks in COUNTS
            if tasks != COUNT
            for rule in (CONSTANT, SHARED)
        ),
    ),
    tables=(
        StudyTable(
            "rules",
            ("pool", "strategy", "mean", "rollouts"),
            ("effective_task_ratio", "teaching"),
            where={"references": (AS_MEASURED,), "tasks": (COUNT,)},
            comparisons=(TIMES, TEACHING),
        ),
        StudyTable(
            "without",
            ("pool", "mean", "rollouts"),
            ("effective_task_ratio", "teaching"),
            where={"references": (NONE,)},
            comparisons=(TIMES, TEACHING),
        ),
        StudyTable(
            "tasks",
            ("pool", "tasks", "mean", "rollouts"),
            ("groups a step", "effective_task_ratio"),
            where={
                "references": (AS_MEASURED,),
                "strategy": ("pass",),
                "budget": (str(BUDGET),),
                "rollouts": (CONSTANT, SHARED),
            },
            comparisons=(TIMES,),
        ),
    ),
)
