"""The runs of a comparison, carried out by processes of their own: warm-ups first, then a run of each arm."""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing.connection import wait as wait_for_processes
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from secrets import token_hex
from threading import Thread

from bots_client import Client
from examples.finetune.course import Course
from examples.finetune.plan import ARMS, BASE, Comparison, Plan
from examples.finetune.prepare import prepare

PATIENCE_S = 120.0  # for the service: a busy machine
TOLD_EVERY = 10  # steps


@dataclass(frozen=True, slots=True)
class Job:
    """A run of one arm of one seed; the seed's warm-up where there is no arm."""

    seed: int
    arm: str | None = None

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.arm or 'warm-up'}"


@dataclass(frozen=True, slots=True)
class Work:
    """What jobs have in common.

    url: of the service.
    folder: for warm-ups, and for each run's arrays.
    """

    plan: Plan
    url: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Done:
    """How many steps of a job are done."""

    job: Job
    steps: int


_done: SimpleQueue[Done | None]  # of a process that works


def runs_of(comparison: Comparison, seeds: Sequence[int] | None, arms: Sequence[str]) -> list[Job]:
    """Return what is to run, in order: the main arms seed by seed, then the others seed by seed.

    Args:
        comparison: what is registered.
        seeds: of every arm; None: those registered for each.
        arms: their names.
    """
    jobs = [Job(seed, arm) for arm in arms for seed in seeds or comparison.seeds[arm]]
    order = list(comparison.seeds)
    return sorted(jobs, key=lambda job: (job.arm not in comparison.main, job.seed, order.index(job.arm or BASE)))


def with_warm_ups(runs: Sequence[Job]) -> list[Job]:
    """Return the runs, the warm-up of each seed just before its first run."""
    seen: set[int] = set()
    jobs = []
    for run in runs:
        if run.seed not in seen:
            jobs.append(Job(run.seed))
            seen.add(run.seed)
        jobs.append(run)
    return jobs


def carry_out(
    runs: Sequence[Job], work: Work, *, processes: int, on_progress: Callable[[Done], object]
) -> Iterator[Course]:
    """Yield the result of each run, as it ends.

    Args:
        runs: in the order in which they should begin.
        work: what they have in common.
        processes: how many work at a time, on a core each.
        on_progress: called from a thread of its own.
    """
    context = multiprocessing.get_context("spawn")  # a fork would carry torch's threads along
    queue: SimpleQueue[Done | None] = context.SimpleQueue()
    teller = Thread(target=tell, args=(queue, on_progress), daemon=True)
    teller.start()
    with ProcessPoolExecutor(processes, context, initializer=begin, initargs=(queue,)) as workers:
        try:
            yield from in_order(workers, with_warm_ups(runs), work, processes)
        except BaseException:
            workers.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()  # else a job would have to end first
            raise
    queue.put(None)
    teller.join()


def in_order(workers: ProcessPoolExecutor, jobs: list[Job], work: Work, processes: int) -> Iterator[Course]:
    """Give each free process the first job whose warm-up is made; yield the runs' results."""
    warm: set[int] = set()
    running: dict[Future[Course | None], Job] = {}
    while jobs or running:
        for job in [job for job in jobs if job.arm is None or job.seed in warm][: processes - len(running)]:
            jobs.remove(job)
            running[workers.submit(carried_out, job, work)] = job
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            warm.add(running.pop(future).seed)
            if (course := future.result()) is not None:
                yield course


def tell(queue: "SimpleQueue[Done | None]", on_progress: Callable[[Done], object]) -> None:
    """Hand on what the processes say, until None comes."""
    while (done := queue.get()) is not None:
        on_progress(done)


def begin(queue: "SimpleQueue[Done | None]") -> None:
    """Prepare a process to work: one core, and no longer than the process that started it."""
    global _done  # noqa: PLW0603 - a queue can be handed to a process only when it starts
    _done = queue
    import torch

    torch.set_num_threads(1)  # matrices this small gain nothing from more
    Thread(target=end_with_parent, daemon=True).start()


def end_with_parent() -> None:
    """End this process when the one that started it is gone."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for_processes([parent.sentinel])
    os._exit(1)


def carried_out(job: Job, work: Work) -> Course | None:
    """Do a job, in a process of its own."""
    import torch

    from examples.finetune.warm_up import reference_rates

    plan, folder = work.plan, work.folder
    if plan.device == "cuda":
        torch.set_float32_matmul_precision(
            "high"
        )  # products of tensor cores, three decimal digits: a fifth of the time
    if plan.loop == "trl":
        from examples.finetune.trl_loop import train
    else:
        from examples.finetune.train import train
    rates = reference_rates(job.seed, plan, folder)
    if job.arm is None:
        return None
    # A name of its own: what an earlier attempt left in the database stays as it is.
    dataset = f"{plan.kind}-{job.seed}-{job.arm}-{token_hex(3)}"

    def on_step(steps: int) -> None:
        if steps % TOLD_EVERY == 0 or steps == plan.steps:
            _done.put(Done(job, steps))

    with Client(work.url, deadline_s=PATIENCE_S) as client:
        if not ARMS[job.arm].knows_all:
            prepare(client, dataset, job.arm, plan=plan, seed=job.seed, rates=rates)
        course, notes = train(plan, job.seed, job.arm, client=client, dataset=dataset, folder=folder, on_step=on_step)
    notes.save(folder / "runs" / f"{job.seed}-{job.arm}.npz")
    return course
