"""Measures how long a trainer takes to register its tasks in a large dataset, and then to select among them.

    python -m benchmarks.registering [--tasks 1000000] [--json]

One process on SQLite, driven over loopback by `Selector`. The dataset was imported before, with pass rates of two
models. A trainer has all of its tasks, half of them (every second one) or a hundredth, or all and as many more that the
dataset lacks.
"""

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from benchmarks.pools import make_rates
from benchmarks.running import Service, import_pool, make_run, running_service
from benchmarks.scores import print_scores
from bots_client import ResilientClient, Selector

TASKS = 10**6
DATASET = "large"
COUNT = 32
STEPS = 50
UNREGISTERED = "all of it, not registered"


@dataclass(frozen=True, slots=True)
class RegisteredPool:
    """A trainer that registered and trained.

    dataset_tasks: of the dataset before; trainer_tasks: of the trainer.
    register_s: until the service had told about all tasks; first_select_ms: the first selection of 32; select_ms,
    slowest_ms: of STEPS later ones, each after a report of the one before: the median and the largest.
    """

    what: str
    dataset_tasks: int
    trainer_tasks: int
    register_s: float
    first_select_ms: float
    select_ms: float
    slowest_ms: float


def registered(*, tasks: int) -> Iterator[RegisteredPool]:
    """Yield what was measured, a row for each trainer; the last one makes the dataset larger."""
    numbers = {
        UNREGISTERED: range(tasks),
        "all of it": range(tasks),
        "half of it": range(0, tasks, 2),
        "a hundredth of it": range(0, tasks, 100),
        "all of it and as many more": range(2 * tasks),
    }
    with running_service() as service:
        import_pool(service, DATASET, make_rates(tasks, "k/16"))
        for what, own in numbers.items():
            yield _trained(service, what, own, tasks)


def _trained(service: Service, what: str, own: Sequence[int], tasks: int) -> RegisteredPool:
    run = what.replace(" ", "-").replace(",", "")
    make_run(service, DATASET, run)
    with TemporaryDirectory() as spool, ResilientClient(service.url, spool=spool, select_deadline_s=60.0) as client:
        selector = Selector(client, DATASET, run, ids=map(str, own))
        start = time.perf_counter()
        if what != UNREGISTERED:
            selector.register()
        register_s = time.perf_counter() - start
        first, *later = [_step(selector) for _ in range(STEPS + 1)]
        health = client.health
        assert health.local_selects + health.replaced + health.lost == 0, health
    ms = [1000 * seconds for seconds in later]
    return RegisteredPool(what, tasks, len(own), register_s, 1000 * first, statistics.median(ms), max(ms))


def _step(selector: Selector) -> float:
    """Select, report and close a step; return how many seconds the selection took."""
    start = time.perf_counter()
    selection = selector.next(COUNT)
    seconds = time.perf_counter() - start
    for task in selection.ids:
        selector.observe(task, [1, 0, 1, 1])
    selector.step()
    return seconds


def table(found: list[RegisteredPool]) -> str:
    """Return a table in Markdown."""
    lines = ["| the trainer has | its tasks | register, s | first select, ms | select, ms | slowest, ms |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for one in found:
        times = f"{one.register_s:.1f} | {one.first_select_ms:.1f} | {one.select_ms:.1f} | {one.slowest_ms:.1f}"
        lines.append(f"| {one.what} | {one.trainer_tasks:,} | {times} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print_scores(__doc__, registered, table, tasks=TASKS)
