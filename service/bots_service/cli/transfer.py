"""`bots export`, `bots import`, `bots prune`: move runs, and clean up."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bots_service.cli.connection import Dataset, RunName
from bots_service.cli.failures import CommandError
from bots_service.cli.output import Result, count, progress_line, show_sent, table

if TYPE_CHECKING:
    from bots_client import Client


def export(
    client: "Client",
    dataset: Dataset,
    run: RunName = "default",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Output file.", show_default="DATASET.RUN.ndjson", dir_okay=False),
    ] = None,
) -> Result:
    """Export a run to a file: its journal, one entry a line."""
    file = output or Path(f"{dataset}.{run}.ndjson")
    if file.exists():
        raise CommandError(f"{file} already exists; remove it, or choose another file with -o")
    size, part = 0, file.with_name(f".{file.name}.{os.getpid()}.part")  # never a truncated file under the real name
    try:
        with part.open("xb") as opened, progress_line() as advance:
            for chunk in client.export_run(dataset, run):
                size += opened.write(chunk)
                advance(None, f"{size / 1e6:,.1f} MB")
            opened.flush()
            os.fsync(opened.fileno())
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
    return {"file": str(file), "bytes": size}, f"{file}: {count(size)} bytes"


ImportedFile = Annotated[Path, typer.Argument(help="File written by `bots export`.", exists=True, dir_okay=False)]
IntoDataset = Annotated[
    str | None, typer.Option(help="Dataset to import it into.", show_default="as in the file", metavar="NAME")
]
AsRun = Annotated[str | None, typer.Option(help="Name of the new run.", show_default="as in the file", metavar="NAME")]
UnderBelief = Annotated[
    str | None, typer.Option(help="Replay it under this belief, tracker or bots.", show_default="as in the file")
]


def import_(
    client: "Client", file: ImportedFile, dataset: IntoDataset = None, run: AsRun = None, belief: UnderBelief = None
) -> Result:
    """Import a run from a file written by `bots export`, into a dataset with the same tasks: all of it or nothing."""
    header = header_of(file)
    if belief is not None:
        header["settings"]["belief"] = belief
    source, names = partial(lines_of, file, header), (dataset or header["dataset"], run or header["run"])
    with progress_line() as advance:
        imported = client.import_run(source, *names, on_progress=partial(show_sent, advance))
    return imported, f"{imported.run} of {imported.dataset}: {count(imported.seq)} entries"


def header_of(file: Path) -> dict[str, Any]:
    """Return the first line of an exported journal."""
    with file.open("rb") as opened, suppress(ValueError):
        header = json.loads(opened.readline())
        if isinstance(header, dict) and {"dataset", "run", "settings"} <= header.keys():
            return header
    raise CommandError(f"{file} is no exported run: its first line is no header")


def lines_of(file: Path, header: dict[str, Any]) -> Iterator[bytes]:
    """Yield the file with this header."""
    with file.open("rb") as opened:
        opened.readline()
        yield json.dumps(header).encode() + b"\n"
        while piece := opened.read(2**16):
            yield piece


def prune(
    client: "Client",
    keep_days: Annotated[
        float | None,
        typer.Option(help="Keep entries younger than this many days.", min=0.0, show_default="BOTS_KEEP_JOURNAL_DAYS"),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be removed; change nothing.")] = False,
) -> Result:
    """Remove old journal entries now; the service does this every hour."""
    done = client.prune(keep_journal_days=keep_days, dry_run=dry_run)
    columns = f"dataset  run  {'would be removed' if dry_run else 'removed'}=entries  up to entry=seq"
    return done, table(columns, done.runs) if done.runs else "no entry is old enough to remove"
