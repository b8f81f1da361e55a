"""Send the tasks of files to the service as they are read, with a progress bar."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bots_service.cli.failures import CommandError
from bots_service.cli.output import console
from bots_service.cli.task_files import Read, Source, read_tasks

if TYPE_CHECKING:
    from bots_client import Client, Dataset, InvalidRequestError, PoolChange

NDJSON = "application/x-ndjson"
Advance = Callable[[float, int], None]  # share of the files that is sent, rows (0: not known)


def import_source(client: "Client", name: str, source: Source, description: str) -> tuple["Dataset", Read]:
    """Make a dataset of files; return it, and what was read."""
    read = Read()
    with progress_bar(name) as advance, _told_repeats():
        upload, told = _upload(source, read, advance)
        made = client.upload_dataset(
            name,
            upload,
            media_type=None if isinstance(upload, Path) else NDJSON,
            reference_models=source.columns.references,
            description=description,
            on_progress=told,
        )
    return made, read


def append_source(client: "Client", dataset: str, source: Source) -> tuple["PoolChange", Read]:
    """Add the tasks of files to a dataset, all or none; return what changed, and what was read."""
    read = Read()
    with progress_bar(dataset) as advance, _told_repeats():
        upload, told = _upload(source, read, advance)
        media_type = None if isinstance(upload, Path) else NDJSON
        change = client.upload_tasks(dataset, upload, media_type=media_type, on_progress=told)
    return change, read


def _upload(
    source: Source, read: Read, advance: Advance
) -> tuple[Path | Callable[[], Iterator[bytes]], Callable[[int, int | None], None] | None]:
    """Return what is sent, and what is told of a file that is sent as it is."""
    if source.is_own:
        return source.files[0], lambda sent, total: advance(sent / (total or 1), 0)
    return (lambda: ndjson(source, read, advance)), None


def ndjson(source: Source, read: Read, advance: Advance) -> Iterator[bytes]:
    """Yield the tasks of files as NDJSON."""
    encoder = msgspec.json.Encoder()
    for tasks in read_tasks(source, read):
        yield encoder.encode_lines([task.as_wire() for task in tasks])
        advance(read.share, read.rows)
    advance(1.0, read.rows)


@contextmanager
def _told_repeats() -> Iterator[None]:
    """Say how ids can be made to differ where the service finds that they don't."""
    from bots_client import InvalidRequestError

    try:
        yield
    except InvalidRequestError as error:
        if error.detail != "task ids must differ":
            raise
        raise CommandError(_repeated(error)) from error


def _repeated(error: "InvalidRequestError") -> str:
    (flaw,) = error.errors
    row = next((part for part in flaw.loc if isinstance(part, int)), 0)
    return (
        f"row {row + 1} of all: {flaw.msg} (counted from 0); make the ids of several columns (--id A --id B), of the "
        "files too (--file-in-id) or of the content (--id-from content), or leave such rows out (--skip-repeats)"
    )


@contextmanager
def progress_bar(title: str) -> Iterator[Advance]:
    """Show progress on stderr where that is a terminal; gives what moves it.

    Once all is sent, the bar says so, and only that something goes on: how long the service will take isn't known.
    """
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
        TimeRemainingColumn(),
    )
    terminal = console(stderr=True)
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as progress:
        bar = progress.add_task(title, total=1.0, state="", left="left")

        def advance(share: float, rows: int) -> None:
            read = f"{rows:,} rows" if rows else ""
            if share < 1:
                progress.update(bar, total=1.0, completed=share, state=read, left="left")
            else:
                state = f"{read} sent; the service checks and stores them".lstrip()
                progress.update(bar, total=None, state=state, left="")

        yield advance
