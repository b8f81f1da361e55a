"""What the service gets before a run: the pool's tasks, what may be known of them, and how to choose."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bots_client import Client, Task
from examples.finetune.kinds import kind_of, problems_of
from examples.finetune.plan import ARMS, Arm, Plan
from examples.finetune.tasks import Kind, Problem

REFERENCES = ("warm-up, weak", "warm-up, strong")


def prepare(client: Client, dataset: str, arm: str, *, plan: Plan, seed: int, rates: NDArray[np.float64]) -> None:
    """Make an arm's pool and its run, both of its own: arms differ in what the service knows of the tasks.

    Args:
        client: of the service.
        dataset: the pool's name.
        arm: the run's name.
        plan: with the kind of the tasks.
        seed: of the pool, and of the service's draws.
        rates: pass rates of the references, [pool, 2]; used if the arm may know them.
    """
    pool, _ = problems_of(plan, seed)
    tasks = tasks_of(kind_of(plan), pool, ARMS[arm], rates)
    client.create_dataset(dataset, tasks, reference_models=REFERENCES if ARMS[arm].references else ())
    client.create_run(dataset, arm, seed=seed, rollouts_per_task=plan.rollouts, **ARMS[arm].settings)


def tasks_of(kind: Kind, pool: Sequence[Problem], arm: Arm, rates: NDArray[np.float64]) -> list[Task]:
    """Return the pool with what an arm's service may know."""
    known = rates if arm.references else np.empty((len(pool), 0))
    return [
        Task(problem.id, own.tolist(), tags=kind.tags(problem) if arm.tags else [])
        for problem, own in zip(pool, known, strict=True)
    ]
