"""Watches a service's memory under a steady load.

    python -m benchmarks.soak [--minutes 30] [--per-second 20] [--cluster]

Writes a line each ten seconds, "seconds,MiB", then what grew in each third of the time.
"""

import argparse
import asyncio
import contextlib
import itertools
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager

import httpx
import numpy as np
import psutil

from benchmarks.asks import Asks
from benchmarks.cluster_processes import running_cluster
from benchmarks.load import Caller, RefusedError, calling
from benchmarks.running import Service, import_pool, make_run, running_service

MIB = 2**20
LOOK_S = 10.0  # between two looks at the memory, and two readings of /metrics, as Prometheus reads them
TASKS = 20_000
RATES = 17  # a pass rate over 16 rollouts is 0, 1/16, ... or 1
RUNS = 16
COUNT = 32
CALLERS = 16
LEASE_S = 600.0


def main() -> None:
    """Run the load; print the memory, and whether it still grows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (30)")
    parser.add_argument("--per-second", type=float, default=20.0, help="selects a second, each with its report (20)")
    parser.add_argument("--cluster", action="store_true", help="on PostgreSQL and Redis; without: on SQLite")
    options = parser.parse_args()
    with running(cluster=options.cluster) as service:
        seen = asyncio.run(soak(service, options.minutes * 60, options.per_second))
    for third, (first, last, growth) in enumerate(thirds(seen), 1):
        sys.stderr.write(f"third {third}: {first:.0f} to {last:.0f} MiB, {growth:+.1f} MiB in 10 minutes\n")


@contextmanager
def running(*, cluster: bool) -> Iterator[Service]:
    """Start one service with its stores; end all at the end."""
    with ExitStack() as stack:
        if cluster:
            yield stack.enter_context(running_cluster(services=1)).services[0]
        else:
            yield stack.enter_context(running_service())


async def soak(service: Service, seconds: float, per_second: float) -> list[tuple[float, float]]:
    """Select and report at this rate; return the memory by time: seconds, MiB."""
    rates = np.sort(np.random.default_rng(5).integers(0, RATES, (TASKS, 2)) / (RATES - 1))
    import_pool(service, "soak", rates)
    runs = [f"run-{number}" for number in range(RUNS)]
    for run in runs:
        make_run(service, "soak", run, lease_seconds=LEASE_S, belief="bots")
    seen: list[tuple[float, float]] = []
    async with (
        calling([service.port], CALLERS) as callers,
        training(callers, runs, per_second),
        httpx.AsyncClient(base_url=service.url, timeout=30) as http,
    ):
        begin = time.monotonic()
        while not seen or seen[-1][0] < seconds:
            await asyncio.sleep(begin + len(seen) * LOOK_S - time.monotonic())
            (await http.get("/metrics")).raise_for_status()
            seen.append((time.monotonic() - begin, memory_mib(service)))
            print(f"{seen[-1][0]:.0f},{seen[-1][1]:.1f}", flush=True)
    return seen


@asynccontextmanager
async def training(callers: list[Caller], runs: list[str], per_second: float) -> AsyncIterator[None]:
    """Keep selecting and reporting in the background."""
    asks = Asks("soak", TASKS)
    selects = asks.selects(runs, COUNT)

    async def step(caller: Caller) -> None:
        with contextlib.suppress(RefusedError):  # a machine with other work to do may be too slow for a while
            await caller.post(asks.answer_to(await caller.post(next(selects))))

    async def train(caller: Caller, first: float) -> None:
        for turn in itertools.count():
            await asyncio.sleep(first + turn * len(callers) / per_second - time.monotonic())
            await step(caller)

    async with asyncio.TaskGroup() as group:
        now = time.monotonic()
        tasks = [group.create_task(train(caller, now + n / per_second)) for n, caller in enumerate(callers)]
        yield
        for task in tasks:
            task.cancel()


def memory_mib(service: Service) -> float:
    """Return the resident memory of the service and its children."""
    process = psutil.Process(service.process.pid)
    family = [process, *process.children(recursive=True)]
    return sum(one.memory_info().rss for one in family) / MIB


def thirds(seen: list[tuple[float, float]]) -> Iterator[tuple[float, float, float]]:
    """Yield of each third of the time: MiB at its begin and end, and MiB gained in 10 minutes (by least squares)."""
    for part in np.array_split(np.array(seen), 3):
        slope = np.polyfit(part[:, 0], part[:, 1], 1)[0] if len(part) > 1 else 0.0
        yield part[0, 1], part[-1, 1], slope * 600


if __name__ == "__main__":
    main()
