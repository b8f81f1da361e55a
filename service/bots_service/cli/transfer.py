"""`bots export`, `bots import`, `bots prune`: move runs, and clean up."""

import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from bots_service.cli.connection import AsJson, Dataset, RunName, Url, connected
from bots_service.cli.failures import CommandError
from bots_service.cli.output import count, show, table
from bots_service.cli.progress import progress_line

MEGABYTE = 1e6


def export(
    dataset: Dataset,
    run: RunName = "default",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Output file.", show_default="DATASET.RUN.ndjson", dir_okay=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Export a run to a file: its journal, one entry a line."""
    file = output or Path(f"{dataset}.{run}.ndjson")
    if file.exists() and not force:
        raise CommandError(f"{file} already exists; choose another file with -o, or overwrite it with --force")
    with connected(url) as client:
        size = write_atomically(file, client.export_run(dataset, run))
    show({"file": str(file), "bytes": size}, lambda: f"{file}: {count(size)} bytes", as_json=as_json)


def import_(
    file: Annotated[
        Path,
        typer.Argument(help="File written by `bots export`.", exists=True, dir_okay=False, show_default=False),
    ],
    dataset: Annotated[
        str | None,
        typer.Option(help="Dataset to import it into.", show_default="as in the file", metavar="NAME"),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(help="Name of the new run.", show_default="as in the file", metavar="NAME"),
    ] = None,
    belief: Annotated[
        str | None,
        typer.Option(help="Replay it under this belief, tracker or bots.", show_default="as in the file"),
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Import a run from a file written by `bots export`, into a dataset with the same tasks: all of it or nothing."""
    from bots_service.cli.upload import show_sent

    header = header_of(file)
    if belief is not None:
        header["settings"]["belief"] = belief
    with connected(url) as client, progress_line(file.name) as advance:
        imported = client.import_run(
            partial(lines_of, file, header),
            dataset or header["dataset"],
            run or header["run"],
            on_progress=partial(show_sent, advance),
        )
    show(imported, lambda: f"{imported.run} of {imported.dataset}: {count(imported.seq)} entries", as_json=as_json)


def header_of(file: Path) -> dict[str, Any]:
    """Return the first line of an exported journal."""
    try:
        with file.open("rb") as opened:
            header: dict[str, Any] = json.loads(opened.readline())
        if {"dataset", "run", "settings"} <= header.keys():
            return header
    except (ValueError, AttributeError):
        pass
    raise CommandError(f"{file} is no exported run: its first line is no header")


def lines_of(file: Path, header: dict[str, Any]) -> Iterator[bytes]:
    """Yield the file with this header."""
    with file.open("rb") as opened:
        opened.readline()
        yield json.dumps(header).encode() + b"\n"
        while piece := opened.read(2**16):
            yield piece


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
    """Write the chunks to a temporary file, then rename it, so that a truncated file is never taken for a whole one.

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
