"""The figures as a page of the documents: docs/benchmarks.md is written by `make bench`, never by hand."""

from collections.abc import Iterable
from pathlib import Path

from benchmarks.bench import LoadRow, ShareRow
from benchmarks.bounds import bounds
from benchmarks.cluster import ClusterRow
from benchmarks.kernels import KernelRow
from benchmarks.machine import commit, describe_machine
from benchmarks.recovery import RecoveryRow
from benchmarks.results import Results
from benchmarks.sampling import PER_SECOND
from benchmarks.targets import Target, history_name

INTRODUCTION = """\
# Benchmarks

Written by `make bench` at commit {commit}, on one machine in one run: {machine}. Raw figures:
[benchmarks/results](../benchmarks/results). Trust the ratios; the machine is small, and the callers share its cores.

![Median times of select and update by pool size, and requests a second](../benchmarks/results/latest.svg)

The baseline is the selector of trinity-rft 0.6.0, the reference implementation of BOTS, in the same process on the same
arrays, five calls in turn (its topk by {topk}; its logger, ray, reader and config imports are stubbed). An update of
ours includes what theirs does not: the tally of effective tasks, attempts of each task, the guard of the
verifier, forecasts, and the Brier score and log loss of the belief: in a small pool many short calls of numpy, whose
number bounds an update. `fold` is the part that theirs does too: it changes the belief.
"""
KERNELS = """
## Kernels

Median milliseconds of one call; `k/16`: pass rates of two references as sixteenths, `real`: as real numbers, where
every task is a profile of its own. `tried`: tasks with evidence of their own. `tracker`: the other kind of belief.
`select` is by `thompson`, `pass` and `spaced` by the strategies of these names, compared with trinity-rft's one way to
select. `times faster`: BOTS against trinity-rft.

| operation | references | tasks | history | tried | BOTS | tracker | trinity-rft | times faster |
|---|---|---|---|---|---|---|---|---|
"""
LOADS = """
## Service

One process on SQLite, driven over loopback from another. A report is answered once it is on stable storage.

| request | tasks | runs | callers | p50 ms | p99 ms | a second |
|---|---|---|---|---|---|---|
"""
SHARES = """
Share of a training step of 30 s that select and report take:

| tasks | batch | select ms | report ms | share |
|---|---|---|---|---|
"""
CLUSTER = """
## Cluster

What sharing costs: the same requests to the embedded default (one process, SQLite), to two services that share one
PostgreSQL and one Redis ({stores}), and to `bots serve --workers 2`. Each caller asks one service and the other in
turn; `runs stay`: all requests of a run go to one of them, as the Python client and the shipped balancer have it.
`2 embedded, apart`: two embedded defaults that share nothing, each with half of the runs; more than they do, two
services can't do on this machine.
A report is answered once PostgreSQL has it on stable storage (fsync and synchronous_commit are on); Redis keeps its
append-only file (appendfsync everysec). All places run side by side and are asked in turn; services, PostgreSQL, Redis
and callers share the machine's cores. The pool has {tasks:,} tasks, and each run had closed {steps} steps before.
`times`: compared with the embedded default. `processor`: milliseconds of processor time that services, stores and
callers took for each request. It says what bounds the rest: {cores} cores have {cores},000 a second to give.

| request | runs | callers | place | p50 ms | p99 ms | a second | p50, times | a second, times | processor ms |
|---|---|---|---|---|---|---|---|---|---|
"""
RECOVERY = """
### After a crash

Two services, PostgreSQL and Redis are killed at once with -9 under load, and started again. Seconds from the start of
the first server. `lost`: acknowledged reports that a later selection did not see.

| tasks | runs | reports each | reports under load | lost | stores answer | services ready | all runs selected |
|---|---|---|---|---|---|---|---|
"""
TARGETS = """
## What was promised

| promise | wanted | measured | decided by | |
|---|---|---|---|---|
"""
BOUNDS = """
## What bounds the promises that are not reached

By profiles, made in the same run. Kernels: the case that decided, again, by cProfile. It makes each call slower, so
parts with many short calls look larger than they are; an operator of numpy counts as time of the function that uses
it, not as a call. Requests: the processor time of each process is that of the load that decided. The shares inside a
service are of the same load, again, by {per_second} samples a second of py-spy.

"""


def write_page(results: Results, path: Path) -> None:
    """Write the page."""
    machine = ", ".join(f"{name} {value}" for name, value in describe_machine().items())
    loads = [row for row in results.service if isinstance(row, LoadRow)]
    shares = [row for row in results.service if isinstance(row, ShareRow)]
    parts = [
        INTRODUCTION.format(commit=commit()[0], machine=machine, topk=results.topk),
        KERNELS,
        *map(_kernel, results.kernels),
        LOADS,
        *map(_load, loads),
        SHARES,
        *(
            _row(f"{row.tasks:,}", row.count, f"{row.select_ms:.2f}", f"{row.report_ms:.2f}", f"{row.share:.4%}")
            for row in shares
        ),
        CLUSTER.format(
            stores=results.stores,
            tasks=results.cluster[0].load.tasks,
            steps=results.cluster[0].steps,
            cores=describe_machine()["cores"],
        ),
        *map(_cluster, results.cluster),
        RECOVERY,
        *map(_recovery, results.recovery),
        TARGETS,
        *map(_target, results.targets()),
        *_bounds(results),
    ]
    path.write_text("".join(parts), encoding="utf-8")


def _bounds(results: Results) -> list[str]:
    """Return the section about promises that are not reached; nothing where all are, or nothing was profiled."""
    missed = results.missed()
    if not missed or not results.profiles:
        return []
    found = bounds(missed, results.profiles)
    return [BOUNDS.format(per_second=PER_SECOND), *(f"- **{promise}**: {words}\n" for promise, words in found)]


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |\n"


def _kernel(row: KernelRow) -> str:
    theirs = ("", "") if row.theirs is None else (f"{row.theirs.median_ms:,.2f}", f"{row.times_faster:.1f}")
    place: Iterable[object] = (row.operation, row.references, f"{row.tasks:,}", history_name(row), f"{row.tried:,}")
    return _row(*place, f"{row.ours.median_ms:,.2f}", f"{row.tracker.median_ms:,.2f}", *theirs)


def _load(row: LoadRow) -> str:
    figures = (f"{row.p50_ms:.2f}", f"{row.p99_ms:.2f}", f"{row.per_second:,.0f}")
    return _row(row.operation, f"{row.tasks:,}", row.runs, row.callers, *figures)


def _cluster(row: ClusterRow) -> str:
    load = row.load
    figures = (f"{load.p50_ms:.2f}", f"{load.p99_ms:.2f}", f"{load.per_second:,.0f}")
    ratios = (f"{row.p50_ratio:.2f}", f"{row.per_second_ratio:.2f}", f"{load.processor_ms:.2f}")
    return _row(load.operation, load.runs, load.callers, row.place, *figures, *ratios)


def _recovery(row: RecoveryRow) -> str:
    times = (f"{row.stores_s:.1f} s", f"{row.ready_s:.1f} s", f"{row.answered_s:.1f} s")
    return _row(f"{row.tasks:,}", row.runs, row.steps, f"{row.reports:,}", row.lost, *times)


def _target(target: Target) -> str:
    measured = "not measured" if target.measured is None else f"{target.measured:,.2f} {target.unit}"
    bound = "at least" if target.at_least else "at most"
    reached = "reached" if target.reached else "**not reached**"
    return _row(target.promise, f"{bound} {target.wanted:g} {target.unit}", measured, target.where, reached)
