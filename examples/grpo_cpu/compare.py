"""The whole comparison: warm-ups, then both ways of choosing for each seed, side by side in processes of their own."""

import multiprocessing
import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from bots_client import Client, Retries, Task
from examples.grpo_cpu.course import Course
from examples.grpo_cpu.plan import ARMS, Plan

T = TypeVar("T")

REFERENCES = ("warm-up, weak", "warm-up, strong")
PATIENCE_S = 600.0  # a service that is away when a pool is made: training has not begun, so it can wait


@dataclass(frozen=True, slots=True)
class Done:
    """How many of its steps a job has done."""

    job: str
    steps: int
    of: int


_done: SimpleQueue[Done | None]  # of a process that works


def compare(
    plan: Plan,
    seeds: Sequence[int],
    *,
    url: str,
    folder: Path,
    suffix: str = "",
    on_progress: Callable[[Done], object],
) -> list[Course]:
    """Run it; return both courses of each seed.

    Args:
        plan: the sizes.
        seeds: one comparison each.
        url: of the service.
        folder: for the models.
        suffix: of the datasets' names, so that comparisons on one service don't meet.
        on_progress: called from a thread of its own.
    """
    context = multiprocessing.get_context("spawn")  # a fork would carry torch's threads along
    queue: SimpleQueue[Done | None] = context.SimpleQueue()
    teller = Thread(target=tell, args=(queue, on_progress), daemon=True)
    teller.start()
    with ProcessPoolExecutor(len(ARMS), context, initializer=begin, initargs=(queue,)) as workers:
        try:
            pools = workers.map(made_pool, [(plan, seed, folder / str(seed)) for seed in seeds])
            with Client(url, deadline_s=PATIENCE_S, retries=Retries(attempts=1000)) as client:
                for seed, tasks in zip(seeds, pools, strict=True):
                    prepare(client, seed, dataset_of(seed, suffix), tasks)
            jobs = [
                (plan, seed, arm, url, dataset_of(seed, suffix), folder / str(seed)) for seed in seeds for arm in ARMS
            ]
            courses = list(workers.map(trained, jobs))
        except BaseException:
            workers.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()  # else a job of minutes would have to end first
            raise
    queue.put(None)
    teller.join()
    return courses


def dataset_of(seed: int, suffix: str = "") -> str:
    """Return what a seed's pool is called in the service."""
    return f"additions-{seed}{suffix}"


def prepare(client: Client, seed: int, dataset: str, tasks: list[Task]) -> None:
    """Make a seed's pool and its two runs."""
    client.create_dataset(dataset, tasks, reference_models=REFERENCES)
    for arm, strategy in ARMS.items():
        client.create_run(dataset, arm, strategy=strategy, seed=seed)


def tell(queue: "SimpleQueue[Done | None]", on_progress: Callable[[Done], object]) -> None:
    """Hand on what the processes say, until None comes."""
    while (done := queue.get()) is not None:
        on_progress(done)


def begin(queue: "SimpleQueue[Done | None]") -> None:
    """Prepare a process to work: one core, no noise."""
    global _done  # noqa: PLW0603 - a queue can be handed to a process only when it starts
    _done = queue
    os.environ["HF_HUB_OFFLINE"] = "1"  # all is made here
    warnings.simplefilter("ignore", FutureWarning)  # TRL's calls of transformers, not ours to mend
    import torch
    import transformers

    torch.set_num_threads(1)  # the other run has the other core
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def made_pool(job: tuple[Plan, int, Path]) -> list[Task]:
    """Do a warm-up, in a process of its own."""
    from examples.grpo_cpu.warm_up import steps_of, warm_up

    plan, seed, folder = job
    return warm_up(seed, plan, folder, on_step=teller_of(f"warm-up, seed {seed}", steps_of(plan)))


def trained(job: tuple[Plan, int, str, str, str, Path]) -> Course:
    """Do a training run, in a process of its own."""
    from examples.grpo_cpu.train import train

    plan, seed, arm, url, dataset, folder = job
    on_step = teller_of(f"{arm}, seed {seed}", plan.steps)
    return train(plan, seed, arm, url=url, dataset=dataset, folder=folder, on_step=on_step)


def teller_of(job: str, steps: int) -> Callable[[int], Any]:
    """Return what tells the first process how many steps are done."""
    return lambda done: _done.put(Done(job, done, steps))
