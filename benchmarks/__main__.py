"""Runs the benchmarks: python -m benchmarks [kernels|service|cluster|recovery|registering|all] [--quick].

Prints tables in Markdown, those of docs/benchmarks.md. `python -m benchmarks against --revision REV` prints what became
faster and slower since a revision.
"""

import argparse
import sys
from collections.abc import AsyncIterator
from typing import TypeVar

import uvloop

from benchmarks import against, cluster, kernels, page, recovery, registering, service
from benchmarks.machine import commit, describe_machine
from benchmarks.running import running_service

PARTS = ("kernels", "service", "cluster", "recovery", "registering")
Row = TypeVar("Row")
QUICK_TASKS = 4_000  # of the datasets in which trainers register


def main() -> None:
    """Measure, and print each part as soon as it is done."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="How fast the selector is.")
    parser.add_argument("part", nargs="?", choices=[*PARTS, "against", "all"], default="all")
    parser.add_argument("--revision", default="HEAD~1", help='which one to measure "against" (HEAD~1)')
    parser.add_argument("--quick", action="store_true", help="small pools, few repeats: does it run, not how fast")
    options = parser.parse_args()
    name, dirty = commit()
    machine = ", ".join(f"{name} {value}" for name, value in describe_machine().items())
    print(f"Commit {name}{' with changes' if dirty else ''}: {machine}")
    for part in PARTS if options.part == "all" else (options.part,):
        sys.stderr.write(f"Measuring: {part}\n")
        print(
            f"\n## {part.capitalize()}\n\n{measured(part, quick=options.quick, revision=options.revision)}", flush=True
        )


def measured(part: str, *, quick: bool, revision: str = "HEAD") -> str:
    """Measure one part, and return its tables. revision: the one to measure against."""
    if part == "against":
        shares = against.measure_against(revision, against.QUICK if quick else against.FULL)
        return page.against_table(uvloop.run(all_of(shares)))
    if part == "kernels":
        return page.kernel_table(kernels.measure_kernels(kernels.QUICK if quick else kernels.FULL))
    if part == "service":
        with running_service() as running:
            grid = service.QUICK if quick else service.FULL
            return page.service_tables(uvloop.run(all_of(service.measure_service(running, grid))))
    if part == "cluster":
        grid_of_replicas = cluster.QUICK if quick else cluster.FULL
        return page.cluster_table(uvloop.run(all_of(cluster.measure_cluster(grid_of_replicas))))
    if part == "recovery":
        kills = recovery.measure_recovery(recovery.QUICK if quick else recovery.FULL)
        return page.recovery_table(uvloop.run(all_of(kills)))
    tasks = QUICK_TASKS if quick else registering.TASKS
    return registering.table(list(registering.registered(tasks=tasks)))


async def all_of(rows: AsyncIterator[Row]) -> list[Row]:
    """Return all rows."""
    return [row async for row in rows]


if __name__ == "__main__":
    main()
