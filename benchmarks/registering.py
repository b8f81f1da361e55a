"""Measures how long a trainer takes to register its tasks in a large dataset, and then to select among them.

One process on SQLite, driven over loopback by `Selector`. The dataset was imported before, with pass rates of two
models. A trainer has all of its tasks, half of them (every second one), a hundredth, or all and a tenth more that the
dataset does not have; another one has as many tasks and makes a dataset of its own. Then each selects in turn, so that
all of them meet the machine in the same state.
"""

import os
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory

from benchmarks.pools import make_rates
from benchmarks.processor import processor_of
from benchmarks.running import Service, import_pool, make_run, running_service
from bots_client import ResilientClient, Selector

TASKS = 10**6
DATASET = "large"
COUNT = 32
STEPS = 100


@dataclass(frozen=True, slots=True)
class RegisteredPool:
    """A trainer that registered and trained.

    dataset_tasks: of the dataset before; trainer_tasks: of the trainer.
    register_s: until the service knew the trainer's tasks; processor_s: processor time of trainer and service in it.
    first_select_ms: the first selection of 32 tasks; select_ms: the median of STEPS later ones, each after a report.
    """

    what: str
    dataset_tasks: int
    trainer_tasks: int
    register_s: float
    processor_s: float
    first_select_ms: float
    select_ms: float


@dataclass(slots=True)
class Trainer:
    """A trainer, and what was measured of it."""

    what: str
    dataset_tasks: int
    selector: Selector
    register_s: float = 0.0
    processor_s: float = 0.0
    selects_s: list[float] = field(default_factory=list)

    def register(self, service: Service) -> None:
        """Register its tasks."""
        processor = processor_of([service.process.pid, os.getpid()])
        start, before = time.perf_counter(), processor()
        self.selector.register()
        self.register_s, self.processor_s = time.perf_counter() - start, processor() - before

    def step(self) -> None:
        """Select, report and close a step."""
        start = time.perf_counter()
        selection = self.selector.next(COUNT)
        self.selects_s.append(time.perf_counter() - start)
        for task in selection.ids:
            self.selector.observe(task, [1, 0, 1, 1])
        self.selector.step()

    def row(self) -> RegisteredPool:
        """Return what was measured, if all of it was done by the service."""
        health = self.selector.client.health
        assert health.local_selects + health.replaced + health.lost == 0, health
        first, *later = (1000 * seconds for seconds in self.selects_s)
        of_tasks = (self.dataset_tasks, len(self.selector.ids))
        return RegisteredPool(self.what, *of_tasks, self.register_s, self.processor_s, first, statistics.median(later))


def registered(*, tasks: int) -> Iterator[RegisteredPool]:
    """Yield what was measured, a row for each trainer."""
    with running_service() as service, ExitStack() as stack:
        for dataset in (DATASET, "growing"):
            import_pool(service, dataset, make_rates(tasks, "k/16"))

        def trainer(what: str, own: Sequence[int], dataset: str = DATASET, dataset_tasks: int = tasks) -> Trainer:
            run = what.replace(" ", "-").replace(",", "")
            if dataset_tasks:
                make_run(service, dataset, run)
            spool = stack.enter_context(TemporaryDirectory())
            client = stack.enter_context(ResilientClient(service.url, spool=spool, select_deadline_s=60.0))
            return Trainer(what, dataset_tasks, Selector(client, dataset, run, ids=map(str, own)))

        unregistered = trainer("all of it, not registered", range(tasks))
        trainers = [
            trainer("all of it", range(tasks)),
            trainer("half of it", range(0, tasks, 2)),
            trainer("a hundredth of it", range(0, tasks, 100)),
            trainer("all of it and a tenth more", range(tasks + tasks // 10), "growing"),
            trainer("a dataset of its own", range(tasks), "own", 0),
        ]
        for each in trainers:
            each.register(service)
        for _ in range(STEPS + 1):
            for each in (unregistered, *trainers):
                each.step()
        for each in (unregistered, *trainers):
            yield each.row()


def table(found: list[RegisteredPool]) -> str:
    """Return a table in Markdown."""
    lines = ["| the trainer has | its tasks | register, s | processor, s | first select, ms | select, ms |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for one in found:
        registering = f"{one.register_s:.1f} | {one.processor_s:.1f}" if one.register_s else "- | -"
        selecting = f"{one.first_select_ms:.0f} | {one.select_ms:.1f}"
        lines.append(f"| {one.what} | {one.trainer_tasks:,} | {registering} | {selecting} |")
    return "\n".join(lines)
