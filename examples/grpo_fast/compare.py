"""The whole comparison: for each seed its warm-ups, then a run of each arm, one after the other on one core."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bots_client import Client, Task
from examples.grpo_cpu.tasks import Problem, problems_of_sizes
from examples.grpo_fast.course import Course
from examples.grpo_fast.plan import ARMS, Arm, Plan
from examples.grpo_fast.train import train
from examples.grpo_fast.warm_up import REFERENCES, reference_rates


def compare(
    plan: Plan, seeds: Sequence[int], arms: Sequence[str], *, client: Client, folder: Path, suffix: str = ""
) -> Iterator[Course]:
    """Yield the run of each arm of each seed, as it ends.

    Args:
        plan: the sizes.
        seeds: each has a pool and warm-ups of its own.
        arms: names of ways to choose.
        client: of the service.
        folder: where warm-ups are kept.
        suffix: of the datasets' names, so that comparisons on one service don't meet.
    """
    for seed in seeds:
        needs_references = any(ARMS[arm].references for arm in arms)
        rates = reference_rates(seed, plan, folder) if needs_references else None
        pool, _ = problems_of_sizes(seed, plan.sizes, held_out_per_level=plan.held_out_per_level)
        for arm in arms:
            dataset = f"additions-{seed}-{arm}{suffix}"
            prepare(client, dataset, arm, plan=plan, seed=seed, tasks=tasks_of(pool, ARMS[arm], rates))
            yield train(plan, seed, arm, client=client, dataset=dataset, folder=folder)


def prepare(client: Client, dataset: str, arm: str, *, plan: Plan, seed: int, tasks: list[Task]) -> None:
    """Make an arm's pool and its run, both of its own: arms differ in what the service knows of the tasks."""
    client.create_dataset(dataset, tasks, reference_models=REFERENCES if ARMS[arm].references else ())
    client.create_run(dataset, arm, seed=seed, rollouts_per_task=plan.rollouts, **ARMS[arm].settings)


def tasks_of(pool: Sequence[Problem], arm: Arm, rates: NDArray[np.float64] | None) -> list[Task]:
    """Return the pool with what an arm's service may know.

    Args:
        pool: the tasks.
        arm: the way of choosing.
        rates: pass rates of the references, [tasks, 2]; None: no arm asks for them.
    """
    known = rates if arm.references and rates is not None else np.empty((len(pool), 0))
    return [
        Task(problem.id, own.tolist(), tags=[f"{problem.level} digits"] if arm.tags else [])
        for problem, own in zip(pool, known, strict=True)
    ]
