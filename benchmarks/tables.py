"""The figures as tables for a terminal."""

from rich.console import Console
from rich.table import Table

from benchmarks.bench import STEP_S, LoadRow, ShareRow
from benchmarks.bounds import bounds
from benchmarks.cluster import ClusterRow
from benchmarks.kernels import KernelRow
from benchmarks.profiles import Profile
from benchmarks.recovery import RecoveryRow
from benchmarks.service import ImportRow, Row
from benchmarks.targets import Target, history_name
from benchmarks.timing import Timing


def print_kernels(console: Console, rows: list[KernelRow], topk: str | None) -> None:
    """Print the kernels and the published selector."""
    baseline = "trinity-rft was not fetched" if topk is None else f"and trinity-rft 0.6.0, its topk by {topk}"
    table = _table(
        f"Kernels {baseline}; medians in ms (least to most)",
        ["operation", "references"],
        ["tasks", "profiles", "history", "tried", "bots", "tracker", "trinity-rft", "times faster"],
    )
    for row in rows:
        factor = "" if row.times_faster is None else f"{row.times_faster:.1f}"
        table.add_row(
            *(row.operation, row.references, _short(row.tasks), f"{row.profiles:,}", history_name(row)),
            *(f"{row.tried:,}", _timing(row.ours), _timing(row.tracker), _timing(row.theirs), factor),
        )
    console.print(table)


def print_service(console: Console, rows: list[Row]) -> None:
    """Print what was measured over HTTP."""
    imports = [row for row in rows if isinstance(row, ImportRow)]
    for done in imports:
        peak = "" if done.peak_mib is None else f", at most {done.peak_mib:,.0f} MiB of memory until then"
        console.print(f"Imported {_short(done.tasks)} tasks from Parquet in {done.seconds:.1f} s{peak}")
    loads = _table(
        "Service over loopback, one process, SQLite",
        ["operation"],
        ["tasks", "runs", "callers", "requests", "p50 ms", "p99 ms", "a second", "callers' share of a core"],
    )
    for row in rows:
        if isinstance(row, LoadRow):
            loads.add_row(
                *(row.operation, _short(row.tasks), str(row.runs), str(row.callers), str(row.requests)),
                *(f"{row.p50_ms:.2f}", f"{row.p99_ms:.2f}", f"{row.per_second:,.0f}", f"{row.client_share:.0%}"),
            )
    if loads.row_count:
        console.print(loads)
    shares = _table(
        f"Share of a training step of {STEP_S:g} s: one trainer, select then report",
        [],
        ["tasks", "batch", "steps", "select ms", "report ms", "share"],
    )
    for row in rows:
        if isinstance(row, ShareRow):
            shares.add_row(
                *(_short(row.tasks), str(row.count), str(row.steps)),
                *(f"{row.select_ms:.2f}", f"{row.report_ms:.2f}", f"{row.share:.4%}"),
            )
    console.print(shares)


def print_cluster(console: Console, rows: list[ClusterRow], stores: str | None) -> None:
    """Print what sharing costs."""
    table = _table(
        f"Cluster: {stores}, compared with the embedded default (one process, SQLite)",
        ["operation", "place"],
        [
            "tasks",
            "steps",
            "runs",
            "callers",
            "requests",
            "p50 ms",
            "p99 ms",
            "a second",
            "p50 ratio",
            "a second ratio",
            "processor ms",
            "degraded",
        ],
    )
    for row in rows:
        load = row.load
        table.add_row(
            *(load.operation, row.place, _short(load.tasks), str(row.steps)),
            *(str(load.runs), str(load.callers), str(load.requests)),
            *(f"{load.p50_ms:.2f}", f"{load.p99_ms:.2f}", f"{load.per_second:,.0f}"),
            *(f"{row.p50_ratio:.2f}", f"{row.per_second_ratio:.2f}", f"{load.processor_ms:.2f}", str(load.degraded)),
        )
    console.print(table)


def print_recovery(console: Console, rows: list[RecoveryRow]) -> None:
    """Print how soon all was well again."""
    table = _table(
        "Recovery: 2 services, PostgreSQL and Redis killed with -9 under load, and started again",
        [],
        ["tasks", "runs", "steps", "reports", "lost", "stores answer s", "services ready s", "all runs answered s"],
    )
    for row in rows:
        table.add_row(
            *(_short(row.tasks), str(row.runs), str(row.steps), str(row.reports), str(row.lost)),
            *(f"{row.stores_s:.2f}", f"{row.ready_s:.2f}", f"{row.answered_s:.2f}"),
        )
    console.print(table)


def print_targets(console: Console, targets: list[Target]) -> None:
    """Print which promises the figures keep."""
    table = _table("Targets", ["promise"], ["wanted", "measured"])
    table.add_column("")
    table.add_column("where")
    for target in targets:
        said = {True: "[green]reached[/]", False: "[red]not reached[/]", None: "not measured"}[target.reached]
        sign = "at least" if target.at_least else "at most"
        measured = "" if target.measured is None else f"{target.measured:,.2f} {target.unit}"
        wanted = f"{sign} {target.wanted:g} {target.unit}"
        table.add_row(target.promise, wanted, measured, said, target.where if target.measured is not None else "")
    console.print(table)


def print_bounds(console: Console, missed: list[Target], profiles: list[Profile]) -> None:
    """Print what bounds the promises that are not reached; nothing where no profile was made."""
    for promise, words in bounds(missed, profiles) if profiles else ():
        console.print(f"[bold]{promise}[/]: {words}", highlight=False)


def _table(title: str, words: list[str], numbers: list[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for word in words:
        table.add_column(word, no_wrap=True)
    for number in numbers:
        table.add_column(number, justify="right", no_wrap=True)
    return table


def _timing(timing: Timing | None) -> str:
    if timing is None:
        return ""
    return f"{timing.median_ms:,.2f} ({timing.min_ms:,.2f} to {timing.max_ms:,.2f})"


def _short(number: int) -> str:
    """Return a power of ten as 1e6."""
    return f"{number:.0e}".replace("e+0", "e")
