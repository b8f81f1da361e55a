"""Measures how long a service takes to put predictions of all tasks of a large dataset, from files of each format.

    python -m benchmarks.large_predictions [--tasks 1000000] [--json]

One process on SQLite, driven over loopback by what `bots datasets predict` calls. Each column replaces the one before,
and then a run begins that sees it: its first selection waits for the tasks' profiles.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from benchmarks.pools import make_rates
from benchmarks.running import Service, import_pool, make_run, running_service
from benchmarks.scores import print_scores
from bots_client import Client
from bots_service.cli.upload import upload_predictions

TASKS = 10**6
DATASET = "large"


@dataclass(frozen=True, slots=True)
class LargeColumn:
    """A column of predictions that was put.

    mib: of the file; put_s: until the service had it; select_s: of a new run's first selection.
    peak_mib: the most memory the service had until then, None where the system does not tell.
    """

    tasks: int
    kind: str
    mib: float
    put_s: float
    select_s: float
    peak_mib: float | None


def _write_lines(rows: pa.Table, file: Path) -> None:
    pairs = zip(rows["id"].to_pylist(), rows["pass_rate"].to_pylist(), strict=True)
    file.write_text("".join(f'{{"id": "{task}", "pass_rate": {rate}}}\n' for task, rate in pairs), encoding="ascii")


FORMATS: dict[str, Callable[[pa.Table, Path], None]] = {
    "parquet": pa.parquet.write_table,
    "jsonl": _write_lines,
    "csv": pa.csv.write_csv,
}


def columns(*, tasks: int) -> Iterator[LargeColumn]:
    """Yield what was measured, a row for each format."""
    with running_service() as service:
        import_pool(service, DATASET, make_rates(tasks, "k/16"))
        for kind, write in FORMATS.items():
            rates = np.random.default_rng(len(kind)).random(tasks)
            file = service.folder / f"predictions.{kind}"
            write(pa.table({"id": pa.array(map(str, range(tasks))), "pass_rate": rates}), file)
            yield _put(service, file, kind, tasks)


def _put(service: Service, file: Path, kind: str, tasks: int) -> LargeColumn:
    with Client(service.url) as client:
        start = time.perf_counter()
        upload_predictions(client, DATASET, "probe", file)
        put = time.perf_counter()
        make_run(service, DATASET, kind)
        begun = time.perf_counter()
        client.select(DATASET, 32, run=kind)
        seconds = time.perf_counter() - begun
    return LargeColumn(tasks, kind, file.stat().st_size / 2**20, put - start, seconds, service.peak_memory_mib())


def table(found: list[LargeColumn]) -> str:
    """Return a table in Markdown."""
    lines = ["| tasks | file | MiB | put, s | a new run's first select, s | the service's peak memory, MiB |"]
    lines.append("|---:|---|---:|---:|---:|---:|")
    for one in found:
        peak = "unknown" if one.peak_mib is None else f"{one.peak_mib:.0f}"
        size = f"{one.mib:.0f}"
        lines.append(f"| {one.tasks:,} | {one.kind} | {size} | {one.put_s:.1f} | {one.select_s:.2f} | {peak} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print_scores(__doc__, columns, table, tasks=TASKS)
