"""The figures as tables in Markdown, for a terminal and for docs/benchmarks.md."""

from collections.abc import Iterable, Iterator

from benchmarks.against import AgainstRow
from benchmarks.bench import LoadRow, ShareRow
from benchmarks.cluster import ClusterRow
from benchmarks.kernels import KernelRow
from benchmarks.recovery import RecoveryRow
from benchmarks.service import ImportRow, Row


def kernel_table(rows: Iterable[KernelRow]) -> str:
    """Return the median milliseconds of one call."""
    heads = ("operation", "references", "tasks", "history", "tried", "BOTS, `thompson`", "tracker, `pass`")
    return table(
        heads,
        (
            (row.operation, row.references, f"{row.tasks:,}", history_of(row), f"{row.tried:,}",
             f"{row.bots.median_ms:,.2f}", f"{row.tracker.median_ms:,.2f}")
            for row in rows
        ),
    )  # fmt: skip


def history_of(row: KernelRow) -> str:
    """Return the row's history in words."""
    return f"after {row.steps} x {row.batch}" if row.steps else "fresh"


def service_tables(rows: list[Row]) -> str:
    """Return the imports, the steps of one trainer, and the loads."""
    imports = [row for row in rows if isinstance(row, ImportRow)]
    shares = [row for row in rows if isinstance(row, ShareRow)]
    loads = [row for row in rows if isinstance(row, LoadRow)]
    return "\n\n".join(
        [
            table(
                ("imported tasks", "seconds", "memory of the service then, MiB"),
                ((f"{row.tasks:,}", f"{row.seconds:.1f}", f"{row.peak_mib or 0:,.0f}") for row in imports),
            ),
            table(
                ("tasks", "batch", "select ms", "report ms", "share of a step of 30 s"),
                (
                    (f"{row.tasks:,}", row.count, f"{row.select_ms:.2f}", f"{row.report_ms:.2f}", f"{row.share:.4%}")
                    for row in shares
                ),
            ),
            table(("request", "tasks", "runs", "callers", "p50 ms", "p99 ms", "a second"), map(_load, loads)),
        ]
    )


def cluster_table(rows: Iterable[ClusterRow]) -> str:
    """Return the loads at each place."""
    heads = ("place", "request", "tasks", "runs", "callers", "p50 ms", "p99 ms", "a second")
    return table(heads, ((row.place, *_load(row.load)) for row in rows))


def against_table(rows: Iterable[AgainstRow]) -> str:
    """Return the shares of each load."""
    heads = ("place", "belief", "request", "runs", "callers", "requests a second", "processor time of a request")
    return table(
        heads,
        (
            (row.place, row.belief, row.load.operation, row.load.runs, row.load.callers,
             *(f"{median:.2f} ({low:.2f} to {high:.2f})" for low, median, high in (row.per_second, row.processor)))
            for row in rows
        ),
    )  # fmt: skip


def recovery_table(rows: Iterable[RecoveryRow]) -> str:
    """Return how soon all was well again after each kill."""
    heads = (
        "tasks",
        "runs",
        "reports each",
        "reports under load",
        "lost",
        "stores answer",
        "services ready",
        "all select",
    )
    return table(
        heads,
        (
            (f"{row.tasks:,}", row.runs, row.steps, f"{row.reports:,}", row.lost,
             *(f"{seconds:.1f} s" for seconds in (row.stores_s, row.ready_s, row.answered_s)))
            for row in rows
        ),
    )  # fmt: skip


def table(heads: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    """Return a table."""
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in _with_line(heads, rows))


def _with_line(heads: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> Iterator[tuple[object, ...]]:
    yield heads
    yield ("---",) * len(heads)
    yield from rows


def _load(row: LoadRow) -> tuple[object, ...]:
    figures = (f"{row.p50_ms:.2f}", f"{row.p99_ms:.2f}", f"{row.per_second:,.0f}")
    return (row.operation, f"{row.tasks:,}", row.runs, row.callers, *figures)
