"""The speeds that the project promises, and whether these figures reach them. A table, never an assertion."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from benchmarks.bench import LoadRow
from benchmarks.cluster import SERVICES, STAYING, ClusterRow
from benchmarks.kernels import SELECTED, KernelRow
from benchmarks.recovery import RecoveryRow
from benchmarks.service import ImportRow, Row

MILLION = 10**6


@dataclass(frozen=True, slots=True)
class Target:
    """One promise. measured: None where this run did not measure it. where: the case that decided."""

    promise: str
    wanted: float
    at_least: bool
    unit: str
    measured: float | None
    where: str = ""

    @property
    def reached(self) -> bool | None:
        """Whether the figure is as promised; None where there is none."""
        if self.measured is None:
            return None
        return self.measured >= self.wanted if self.at_least else self.measured <= self.wanted


def check_targets(
    kernels: list[KernelRow], service: list[Row], cluster: list[ClusterRow], recovery: list[RecoveryRow]
) -> list[Target]:
    """Compare the figures with what is promised."""
    return [
        *_kernel_targets(kernels),
        *_load_targets(service),
        *_import_targets(service),
        *_cluster_targets(cluster),
        *_recovery_targets(recovery),
    ]


def _kernel_targets(rows: list[KernelRow]) -> Iterator[Target]:
    def worst(promise: str, wanted: float, keep: Callable[[KernelRow], bool]) -> Target:
        """Return the target of the least favourable of some rows."""
        factors = [(row.times_faster, _where(row)) for row in rows if keep(row) and row.times_faster is not None]
        measured, where = min(factors, default=(None, ""))
        return Target(promise, wanted, True, "x", measured, where)

    def selects(row: KernelRow, tasks: int) -> bool:
        return row.operation.startswith("select") and row.references == "k/16" and row.tasks == tasks

    yield worst("select, 1e6, fresh", 10, lambda row: selects(row, MILLION) and row.steps == 0)
    yield worst("select, 1e6, after 200 steps of 32", 10, lambda row: selects(row, MILLION) and row.batch == 32)
    yield worst("select, 1e6, after 200 steps of 512", 4, lambda row: selects(row, MILLION) and row.batch == 512)
    yield worst("select, 1e7, any history", 30, lambda row: selects(row, 10 * MILLION))
    yield from _real_targets(rows)
    yield worst(
        "update of 512, 1e6, any history",
        20,
        lambda row: row.operation == "update 512" and row.references == "k/16" and row.tasks == MILLION,
    )
    yield worst("select and update of 512 nowhere slower", 1, lambda row: row.operation in ("select 512", "update 512"))
    yield worst("update of 32 nowhere slower", 1, lambda row: row.operation == "update 32")
    yield worst("fold of 512 and of 32 nowhere slower", 1, lambda row: row.operation.startswith("fold"))
    yield from _growth_targets(rows)
    yield worst(
        "pass of 512, 1e7, real pass rates",
        50,
        lambda row: row.operation == "pass 512" and row.references == "real" and row.tasks == 10 * MILLION,
    )
    for operation, wanted in (("select 512", 1.5), ("update 512", 8.0), ("update 32", 5.0)):
        costs = [
            (row.tracker_cost, _where(row))
            for row in rows
            if row.operation == operation and row.references == "k/16" and row.tasks == MILLION
        ]
        measured, where = max(costs, default=(None, ""))
        yield Target(f"{operation} by the tracker, 1e6", wanted, False, "x BOTS's cost", measured, where)


def _real_targets(rows: list[KernelRow]) -> Iterator[Target]:
    """Yield how much more selections of 1e7 tasks cost where each task is a profile of its own."""
    wide = [row for row in rows if row.operation == f"select {SELECTED}" and row.tasks == 10 * MILLION]
    for belief in ("ours", "tracker"):
        costs = [
            (getattr(real, belief).median_ms / getattr(few, belief).median_ms, f"{_where(real)}, {belief}")
            for real in wide
            for few in wide
            if (real.references, few.references) == ("real", "k/16") and history_name(real) == history_name(few)
        ]
        measured, where = max(costs, default=(None, ""))
        name = "select" if belief == "ours" else "select by the tracker"
        yield Target(f"{name}, 1e7, real pass rates compared with k/16", 5, False, "x the cost", measured, where)


def _growth_targets(rows: list[KernelRow]) -> Iterator[Target]:
    """Yield how much more selections cost in a pool of 1e7 tasks than in one of 1e5."""
    both = ("ours", "tracker")
    for name, operation, references, beliefs in (
        ("select", "select 512", "k/16", ("ours",)),
        ("pass, real pass rates,", "pass 512", "real", both),
        ("spaced", "spaced 512", "k/16", both),
    ):
        of_it = [row for row in rows if row.operation == operation and row.references == references]
        growth = [
            (getattr(large, belief).median_ms / getattr(small, belief).median_ms, f"{_where(large)}, {belief}")
            for large in of_it
            for small in of_it
            for belief in beliefs
            if large.tasks == 10 * MILLION and small.tasks == MILLION // 10 and large.batch == small.batch
        ]
        measured, where = max(growth, default=(None, ""))
        yield Target(f"{name} at 1e7 compared with 1e5", 3, False, "x the cost", measured, where)


def _load_targets(rows: Iterable[Row]) -> Iterator[Target]:
    loads = [row for row in rows if isinstance(row, LoadRow) and row.tasks == MILLION // 10]
    selects = [row for row in loads if row.operation == "select 32"]
    alone = [row.p50_ms for row in selects if row.callers == 1 and row.runs == 1]
    yield Target("select(32) over HTTP, 1e5, p50", 5, False, "ms", min(alone, default=None), "1 caller, 1 run")
    peak, where = max(
        ((row.per_second, f"{row.callers} callers, {row.runs} runs") for row in selects), default=(None, "")
    )
    yield Target("select(32) over HTTP, 1e5", 400, True, "/s", peak, where)
    yield from _single_targets([row for row in loads if row.operation == "select 1"])
    reports = [row.per_second for row in loads if row.operation == "report 32" and row.callers == 64 and row.runs == 50]
    fewest = min(reports, default=None)
    yield Target("report(32) over HTTP", 1000, True, "/s", fewest, "64 callers, 50 runs")
    tracked = min((row.per_second for row in loads if row.operation == "report 32, tracker"), default=None)
    share = None if tracked is None or fewest is None else tracked / fewest
    yield Target("report(32) over HTTP by the tracker", 0.7, True, "x BOTS's rate", share, "64 callers, 50 runs")


def _single_targets(rows: list[LoadRow]) -> Iterator[Target]:
    """Yield what was promised of selections of one task, as the workers of an asynchronous trainer ask for them."""
    alone = [row.p50_ms for row in rows if row.callers == 1 and row.runs == 1]
    yield Target("select(1) over HTTP, 1e5, p50", 4, False, "ms", min(alone, default=None), "1 caller, 1 run")
    crowds = ((row.per_second, f"{row.callers} callers, {row.runs} runs") for row in rows if row.callers > 1)
    fewest, where = min(crowds, default=(None, ""))
    yield Target("select(1) over HTTP, 1e5", 400, True, "/s", fewest, where)


def _import_targets(rows: Iterable[Row]) -> Iterator[Target]:
    imports = [row for row in rows if isinstance(row, ImportRow) and row.tasks == MILLION]
    yield Target("import 1e6 tasks from Parquet", 60, False, "s", min((row.seconds for row in imports), default=None))
    peaks = [row.peak_mib / 1024 for row in imports if row.peak_mib is not None]
    yield Target("memory of the service then", 1.5, False, "GiB", min(peaks, default=None))


def _cluster_targets(rows: Iterable[ClusterRow]) -> Iterator[Target]:
    """Yield what was promised of two services: rates as they are shipped, where runs stay; waits wherever runs go."""
    wide = [row for row in rows if row.load.tasks == MILLION // 10]
    loads = [row.load for row in wide if row.place == STAYING]
    selects = [load for load in loads if load.operation == "select 32"]
    peaks = ((load.per_second, f"{load.callers} callers, {load.runs} runs, which stay") for load in selects)
    peak, where = max(peaks, default=(None, ""))
    yield Target("select(32), 2 services, 1e5", 600, True, "/s", peak, where)
    paced = [row for row in wide if row.place in (SERVICES, STAYING) and row.load.operation == "select 32 at 100/s"]
    slowest, where = max(((row.load.p99_ms, f"50 runs, {row.place}") for row in paced), default=(None, ""))
    yield Target("select(32) at 100/s, 2 services, p99", 25, False, "ms", slowest, where)
    reports = [load for load in loads if load.operation == "report 32" and load.callers == 64 and load.runs == 50]
    fewest = min((load.per_second for load in reports), default=None)
    yield Target("report(32), 2 services", 1000, True, "/s", fewest, "64 callers, 50 runs, which stay")


def _recovery_targets(rows: Iterable[RecoveryRow]) -> Iterator[Target]:
    kills = [row for row in rows if row.tasks == MILLION // 10 and row.runs == 50]
    slowest = max((row.ready_s for row in kills), default=None)
    yield Target("ready after kill -9 of all", 10, False, "s", slowest, f"slowest of {len(kills)}")
    lost = max((row.lost for row in kills), default=None)
    yield Target("acknowledged reports lost then", 0, False, "reports", lost, f"most of {len(kills)}")


def _where(row: KernelRow) -> str:
    return f"{row.operation}, {row.tasks:.0e}, {row.references}, {history_name(row)}".replace("e+0", "e")


def history_name(row: KernelRow) -> str:
    """Return the row's history in words."""
    return f"after {row.steps} x {row.batch}" if row.steps else "fresh"
