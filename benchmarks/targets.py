"""The speeds that the project promises, and whether these figures reach them. A table, never an assertion."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter

from benchmarks.bench import OPERATION, LoadRow
from benchmarks.cluster import SERVICES, STAYING, ClusterRow
from benchmarks.kernels import KernelRow, Kind
from benchmarks.recovery import RecoveryRow
from benchmarks.service import ImportRow, Row

MILLION = 10**6
OURS: Kind = "ours"
TRACKER: Kind = "tracker"


@dataclass(frozen=True, slots=True)
class KernelCase:
    """One operation by one kind of belief: ours is BOTS's."""

    row: KernelRow
    belief: Kind = OURS

    @property
    def median_ms(self) -> float:
        """Of one call."""
        return (self.row.ours if self.belief == OURS else self.row.tracker).median_ms


Case = KernelCase | LoadRow | ClusterRow | None


@dataclass(frozen=True, slots=True)
class Target:
    """One promise. measured: None where this run did not measure it. case: what decided; where: the same in words."""

    promise: str
    wanted: float
    at_least: bool
    unit: str
    measured: float | None
    where: str = ""
    case: Case = None

    @property
    def reached(self) -> bool | None:
        """Whether the figure is as promised; None where there is none."""
        if self.measured is None:
            return None
        return self.measured >= self.wanted if self.at_least else self.measured <= self.wanted


def quick_targets(kernels: list[KernelRow], service: list[Row], cluster: list[ClusterRow]) -> list[Target]:
    """Return what a quick run is asked for: more than any machine can do, so that a profile of each sort is made."""
    updates = [KernelCase(row) for row in kernels if row.kind == "update"]
    alone = [row for row in service if isinstance(row, LoadRow)]
    shared = [row for row in cluster if row.place == STAYING and OPERATION.match(row.load.operation)]
    rates: list[tuple[str, LoadRow, Case]] = [
        *(("one service", row, row) for row in alone[:1]),
        *(("2 services", row.load, row) for row in shared[:1]),
    ]
    return [
        *(Target("a kernel, quick", 0, False, "ms", case.median_ms, _where(case.row), case) for case in updates[:1]),
        *(
            Target(f"{name}, quick", 10**6, True, "/s", load.per_second, _crowd(load), case)
            for name, load, case in rates
        ),
    ]


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


Figure = tuple[float, str, Case]  # what a case measured, the case in words, and itself
Choice = Callable[..., Figure | tuple[None, str, None]]  # min or max


def _decided(
    promise: str, wanted: float, unit: str, figures: Iterable[Figure], *, at_least: bool, choose: Choice
) -> Target:
    """Return the target that one of some cases decides."""
    measured, where, case = choose(figures, key=itemgetter(0), default=(None, "", None))
    return Target(promise, wanted, at_least, unit, measured, where, case)


def _kernel_targets(rows: list[KernelRow]) -> Iterator[Target]:
    def worst(promise: str, wanted: float, keep: Callable[[KernelRow], bool]) -> Target:
        """Return the target of the least favourable of some rows."""
        kept = [(row.times_faster, row) for row in rows if keep(row)]
        figures = [(factor, _where(row), KernelCase(row)) for factor, row in kept if factor is not None]
        return _decided(promise, wanted, "x", figures, at_least=True, choose=min)

    def selects(row: KernelRow, tasks: int) -> bool:
        return row.operation.startswith("select") and row.references == "k/16" and row.tasks == tasks

    yield worst("select, 1e6, fresh", 10, lambda row: selects(row, MILLION) and row.steps == 0)
    yield worst("select, 1e6, after 200 steps of 32", 10, lambda row: selects(row, MILLION) and row.batch == 32)
    yield worst("select, 1e6, after 200 steps of 512", 4, lambda row: selects(row, MILLION) and row.batch == 512)
    yield worst("select, 1e7, any history", 30, lambda row: selects(row, 10 * MILLION))
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
        costs = (
            (row.tracker_cost, _where(row), KernelCase(row, "tracker"))
            for row in rows
            if row.operation == operation and row.references == "k/16" and row.tasks == MILLION
        )
        name = f"{operation} by the tracker, 1e6"
        yield _decided(name, wanted, "x BOTS's cost", costs, at_least=False, choose=max)


def _growth_targets(rows: list[KernelRow]) -> Iterator[Target]:
    """Yield how much more selections cost in a pool of 1e7 tasks than in one of 1e5."""
    for name, operation, references, beliefs in (
        ("select", "select 512", "k/16", (OURS,)),
        ("pass, real pass rates,", "pass 512", "real", (OURS, TRACKER)),
    ):
        of_it = [row for row in rows if row.operation == operation and row.references == references]
        growth = (
            _compared(KernelCase(large, belief), KernelCase(small, belief))
            for large in of_it
            for small in of_it
            for belief in beliefs
            if large.tasks == 10 * MILLION and small.tasks == MILLION // 10 and large.batch == small.batch
        )
        promise = f"{name} at 1e7 compared with 1e5"
        yield _decided(promise, 3, "x the cost", growth, at_least=False, choose=max)


def _compared(case: KernelCase, other: KernelCase) -> Figure:
    """Return how much more a case costs than another."""
    return case.median_ms / other.median_ms, f"{_where(case.row)}, {case.belief}", case


def _load_targets(rows: Iterable[Row]) -> Iterator[Target]:
    loads = [row for row in rows if isinstance(row, LoadRow) and row.tasks == MILLION // 10]
    selects = [row for row in loads if row.operation == "select 32"]
    yield _alone("select(32) over HTTP, 1e5, p50", 5, selects)
    peaks = [(row.per_second, _crowd(row), row) for row in selects]
    yield _decided("select(32) over HTTP, 1e5", 400, "/s", peaks, at_least=True, choose=max)
    # Of one task, as the workers of an asynchronous trainer ask for them.
    singles = [row for row in loads if row.operation == "select 1"]
    yield _alone("select(1) over HTTP, 1e5, p50", 4, singles)
    crowds = [(row.per_second, _crowd(row), row) for row in singles if row.callers > 1]
    yield _decided("select(1) over HTTP, 1e5", 400, "/s", crowds, at_least=True, choose=min)
    where = "64 callers, 50 runs"
    reports = [(row.per_second, where, row) for row in loads if row.operation == "report 32" and _crowd(row) == where]
    yield _decided("report(32) over HTTP", 1000, "/s", reports, at_least=True, choose=min)
    fewest = min((figure for figure, *_ in reports), default=None)
    tracked = [row for row in loads if row.operation == "report 32, tracker"]
    shares = [(row.per_second / fewest, where, row) for row in tracked if fewest is not None]
    yield _decided("report(32) over HTTP by the tracker", 0.7, "x BOTS's rate", shares, at_least=True, choose=min)


def _alone(promise: str, wanted: float, rows: list[LoadRow]) -> Target:
    """Return the target of the median time of a caller that has the service to itself."""
    alone = [(row.p50_ms, "1 caller, 1 run", row) for row in rows if row.callers == 1 and row.runs == 1]
    return _decided(promise, wanted, "ms", alone, at_least=False, choose=min)


def _crowd(row: LoadRow) -> str:
    return f"{row.callers} callers, {row.runs} runs"


def _import_targets(rows: Iterable[Row]) -> Iterator[Target]:
    imports = [row for row in rows if isinstance(row, ImportRow) and row.tasks == MILLION]
    yield Target("import 1e6 tasks from Parquet", 60, False, "s", min((row.seconds for row in imports), default=None))
    peaks = [row.peak_mib / 1024 for row in imports if row.peak_mib is not None]
    yield Target("memory of the service then", 1.5, False, "GiB", min(peaks, default=None))


def _cluster_targets(rows: Iterable[ClusterRow]) -> Iterator[Target]:
    """Yield what was promised of two services: rates as they are shipped, where runs stay; waits wherever runs go."""
    wide = [row for row in rows if row.load.tasks == MILLION // 10]
    staying = [row for row in wide if row.place == STAYING]
    rates = [(row.load.per_second, f"{_crowd(row.load)}, which stay", row) for row in staying]
    peaks = [figure for figure, row in zip(rates, staying, strict=True) if row.load.operation == "select 32"]
    yield _decided("select(32), 2 services, 1e5", 600, "/s", peaks, at_least=True, choose=max)
    paced = [row for row in wide if row.place in (SERVICES, STAYING) and row.load.operation == "select 32 at 100/s"]
    waits = [(row.load.p99_ms, f"50 runs, {row.place}", row) for row in paced]
    yield _decided("select(32) at 100/s, 2 services, p99", 25, "ms", waits, at_least=False, choose=max)
    reports = [
        figure
        for figure, row in zip(rates, staying, strict=True)
        if row.load.operation == "report 32" and _crowd(row.load) == "64 callers, 50 runs"
    ]
    yield _decided("report(32), 2 services", 1000, "/s", reports, at_least=True, choose=min)


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
