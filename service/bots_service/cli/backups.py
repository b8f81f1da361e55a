"""`bots export`, `bots import`, `bots prune`: back up, restore and clean up."""

import os
import tempfile
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from bots_service.cli.connection import AsJson, Dataset, Url, connected, run_names
from bots_service.cli.failures import CommandError
from bots_service.cli.output import count, show, table, task_count
from bots_service.cli.progress import progress_line

SUFFIX = ".botsbackup"
MEGABYTE = 1e6


def export(
    dataset: Dataset,
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            help="Export only this run, without the tasks.",
            metavar="NAME",
            show_default=False,
            autocompletion=run_names,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Output file.", show_default=f"DATASET[.RUN]{SUFFIX}", dir_okay=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Export a dataset with all its runs, or one run, to a checksummed file."""
    file = output or Path(f"{dataset}{SUFFIX}" if run is None else f"{dataset}.{run}{SUFFIX}")
    if file.exists() and not force:
        raise CommandError(f"{file} already exists; choose another file with -o, or overwrite it with --force")
    with connected(url) as client:
        size = write_atomically(file, client.export_dataset(dataset, run))
    show({"file": str(file), "bytes": size}, lambda: f"{file}: {count(size)} bytes", as_json=as_json)


def import_(
    file: Annotated[
        Path,
        typer.Argument(help="Backup file written by `bots export`.", exists=True, dir_okay=False, show_default=False),
    ],
    name: Annotated[
        str | None, typer.Option("--as", help="New name of the dataset.", show_default="as in the file", metavar="NAME")
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            help="New name of the run, if the file holds one run.",
            show_default="as in the file",
            metavar="NAME",
        ),
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Import a file written by `bots export`, into this or another service: all of it or nothing."""
    from bots_service.cli.upload import show_sent

    with connected(url) as client, progress_line(file.name) as advance:
        imported = client.import_backup(file, dataset=name, run=run, on_progress=partial(show_sent, advance))
    runs = ", ".join(f"{one.run} at entry {count(one.seq)}" for one in imported.runs)
    show(imported, lambda: f"{imported.dataset}: {task_count(imported.tasks)}; {runs}", as_json=as_json)


def prune(
    keep_days: Annotated[
        float | None,
        typer.Option(help="Keep entries younger than this many days.", min=0.0, show_default="BOTS_KEEP_JOURNAL_DAYS"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed; change nothing.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Remove old journal entries now; the service does this every hour."""
    with connected(url) as client:
        done = client.prune(keep_journal_days=keep_days, dry_run=dry_run)
    rows = ((one.dataset, one.run, count(one.entries), count(one.seq)) for one in done.runs)
    title = f"dataset  run  >{'would be removed' if dry_run else 'removed'}  >up to entry"
    show(done, lambda: table(title, rows) if done.runs else "no entry is old enough to remove", as_json=as_json)


def write_atomically(file: Path, chunks: Iterable[bytes]) -> int:
    """Write the chunks to a temporary file, then rename it, so that a truncated file is never taken for a backup.

    Returns:
        size of the file in bytes.
    """
    size, began = 0, time.monotonic()
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(descriptor, "wb") as opened, progress_line(file.name) as advance:
            for chunk in chunks:
                opened.write(chunk)
                size += len(chunk)
                rate = size / MEGABYTE / max(time.monotonic() - began, 1e-3)
                advance(None, f"{size / MEGABYTE:,.1f} MB, {rate:,.1f} MB/s")
            opened.flush()
            os.fsync(opened.fileno())
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return size
