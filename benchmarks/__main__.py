"""Runs the benchmarks: python -m benchmarks [kernels|service|share|cluster|recovery|all] [--quick] [--out DIR]."""

import argparse
import asyncio
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import cluster, kernels, recovery, service, trinity
from benchmarks.bench import LoadRow
from benchmarks.machine import ROOT, commit, describe_machine
from benchmarks.page import write_page
from benchmarks.profiles import profile_kernel, profile_load
from benchmarks.results import Results
from benchmarks.running import running_service
from benchmarks.tables import print_bounds, print_cluster, print_kernels, print_recovery, print_service, print_targets
from benchmarks.targets import KernelCase

WIDTH = 180  # of a table where nobody watches, as in a file


def main() -> None:
    """Measure, print, and keep the figures."""
    options = read_options()
    words = Console(stderr=True)
    tables = Console() if Console().is_terminal else Console(width=WIDTH)
    results = Results(quick=options.quick)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    with Progress(*columns, TimeElapsedColumn(), console=words, transient=True) as progress:
        if options.part in ("kernels", "all"):
            published = None if options.alone else published_selector(progress, options)
            measure_kernels(results, progress, published)
        if options.part in ("service", "share", "all"):
            asyncio.run(measure_service(results, progress, loads=options.part != "share"))
        if options.part in ("cluster", "all"):
            asyncio.run(measure_cluster(results, progress))
        if options.part in ("cluster", "recovery", "all"):
            asyncio.run(measure_recovery(results, progress))
    print_results(tables, results)
    out = options.out or ROOT / ("build/bench/results" if options.quick else "benchmarks/results")
    words.print(f"Kept in {results.save(out)}")
    if options.part == "all" and not options.quick:
        draw(results, out / "latest.svg")
        write_page(results, ROOT / "docs/benchmarks.md")


def print_results(tables: Console, results: Results) -> None:
    """Print what was measured."""
    name, dirty = commit()
    machine = ", ".join(f"{name} {value}" for name, value in describe_machine().items())
    tables.print(f"Commit {name}{' with changes' if dirty else ''}: {machine}")
    if results.kernels:
        print_kernels(tables, results.kernels, results.topk)
    if results.service:
        print_service(tables, results.service)
    if results.cluster:
        print_cluster(tables, results.cluster, results.stores)
    if results.recovery:
        print_recovery(tables, results.recovery)
    print_targets(tables, results.targets())
    print_bounds(tables, results.missed(), results.profiles)


def read_options() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="How fast the selector is.")
    parts = ["kernels", "service", "share", "cluster", "recovery", "all"]
    parser.add_argument("part", nargs="?", choices=parts, default="all", help="cluster includes recovery")
    parser.add_argument("--quick", action="store_true", help="small pools, few repeats: does it run, not how fast")
    parser.add_argument("--alone", action="store_true", help="fetch nothing: measure without trinity-rft")
    parser.add_argument("--out", type=Path, help="folder for the figures (benchmarks/results)")
    parser.add_argument(
        "--torch",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="fetch torch for trinity-rft's topk (without this: where pip offers a CPU build)",
    )
    return parser.parse_args()


def published_selector(progress: Progress, options: argparse.Namespace) -> trinity.PublishedState | None:
    """Fetch the published selector; None where it can't be had."""
    fetching = progress.add_task("fetching trinity-rft", total=1)
    # A quick run takes torch if it is there; fetching it would take longer than the run.
    with_torch = False if options.quick and options.torch is None else options.torch
    try:
        trinity.fetch(with_torch=with_torch)
        return trinity.load()
    except trinity.NotFetchedError as error:
        progress.console.print(f"Measuring ours alone: {error}")
        return None
    finally:
        progress.advance(fetching)


def measure_kernels(results: Results, progress: Progress, published: trinity.PublishedState | None) -> None:
    """Measure the kernels, and the published selector if there is one."""
    grid = kernels.QUICK if results.quick else kernels.FULL
    results.topk = published.topk if published else None
    bar = progress.add_task("kernels", total=kernels.cells(grid))
    for rows in kernels.measure_kernels(grid, published):
        results.kernels += rows
        progress.advance(bar)
    missed = [(target, target.case) for target in results.missed() if isinstance(target.case, KernelCase)]
    bar = progress.add_task("profiles of kernels", total=len(missed))
    for target, case in missed:
        results.profiles.append(profile_kernel(target, case))
        progress.advance(bar)


async def measure_service(results: Results, progress: Progress, *, loads: bool) -> None:
    """Measure the service over loopback."""
    grid = service.QUICK if results.quick else service.FULL
    bar = progress.add_task("service", total=service.rows_of(grid, loads=loads))
    with running_service() as running:
        async for row in service.measure_service(running, grid, loads=loads):
            results.service.append(row)
            progress.advance(bar)
        missed = [(target, target.case) for target in results.missed() if isinstance(target.case, LoadRow)]
        bar = progress.add_task("profiles of the service", total=len(missed))
        for target, case in missed:
            again = partial(service.repeat, running, case, grid.seconds)
            results.profiles.append(await profile_load(target, case, [running.process.pid], again))
            progress.advance(bar)


async def measure_cluster(results: Results, progress: Progress) -> None:
    """Measure services that share PostgreSQL and Redis, and the embedded default."""
    grid = cluster.QUICK if results.quick else cluster.FULL
    bar = progress.add_task("cluster", total=cluster.loads_of(grid))
    with cluster.running_places() as places:
        results.stores = places.stores
        async for rows in cluster.measure_cluster(places, grid):
            results.cluster += rows
            progress.advance(bar)
        missed = [(target, target.case) for target in results.missed() if isinstance(target.case, cluster.ClusterRow)]
        bar = progress.add_task("profiles of the cluster", total=len(missed))
        for target, case in missed:
            again = partial(cluster.repeat, places, case, grid)
            results.profiles.append(await profile_load(target, case, places.services_of(case.place), again))
            progress.advance(bar)


async def measure_recovery(results: Results, progress: Progress) -> None:
    """Measure how soon all is well after a crash."""
    grid = recovery.QUICK if results.quick else recovery.FULL
    bar = progress.add_task("recovery", total=grid.repetitions)
    async for row in recovery.measure_recovery(grid):
        results.recovery.append(row)
        progress.advance(bar)


def draw(results: Results, path: Path) -> None:
    """Draw the chart."""
    from benchmarks.chart import draw_chart

    draw_chart(results.kernels, [row for row in results.service if isinstance(row, LoadRow)], path)


if __name__ == "__main__":
    main()
