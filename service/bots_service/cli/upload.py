"""Send the tasks of a file to the service as they are read, with a progress bar."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bots_service.cli.output import console
from bots_service.cli.task_files import Columns, read_tasks, reader_of

if TYPE_CHECKING:
    from bots_client import Client, Dataset, PoolChange

NDJSON = "application/x-ndjson"
SENT = 0.99  # of the way: the rest is the service's
Advance = Callable[[float, int], None]  # share of the file that is sent, rows (0: not known)


def import_file(client: "Client", name: str, file: Path, columns: Columns, description: str) -> "Dataset":
    """Make a dataset of a file."""
    reader_of(file)
    with progress_bar(file.name) as advance:
        if columns == Columns() and file.suffix.lower() != ".csv":
            # Already as the service reads it: ids, reference_pass_rates, tags.
            return client.upload_dataset(
                name, file, description=description, on_progress=lambda sent, total: advance(sent / (total or 1), 0)
            )
        return client.upload_dataset(
            name,
            lambda: ndjson(file, columns, advance),
            media_type=NDJSON,
            reference_models=columns.references,
            description=description,
        )


def append_file(client: "Client", name: str, file: Path, columns: Columns) -> "PoolChange":
    """Add the tasks of a file to a dataset, all or none."""
    from bots_client import Task

    with progress_bar(file.name) as advance:
        tasks = []
        for batch, share in read_tasks(file, columns):
            tasks += [Task(task.id, task.reference_pass_rates, task.tags) for task in batch]
            advance(share, len(tasks))
        return client.append_tasks(name, tasks)


def ndjson(file: Path, columns: Columns, advance: Advance) -> Iterator[bytes]:
    """Yield the tasks of a file as NDJSON."""
    rows, encoder = 0, msgspec.json.Encoder()
    for tasks, share in read_tasks(file, columns):
        yield encoder.encode_lines(tasks)
        rows += len(tasks)
        advance(share, rows)


@contextmanager
def progress_bar(title: str) -> Iterator[Advance]:
    """Show progress on stderr where that is a terminal; gives what moves it."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    terminal = console(stderr=True)
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as progress:
        bar = progress.add_task(title, total=1.0, state="")

        def advance(share: float, rows: int) -> None:
            read = f"{rows:,} rows" if rows else ""
            state = read if share < 1 else f"{read}, the service checks them".lstrip(", ")
            progress.update(bar, completed=share * SENT, state=state)

        yield advance
