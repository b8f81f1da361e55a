"""Upload the tasks, or predictions of them, in files to the service while reading them, with a progress bar."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bots_service.cli.failures import CommandError
from bots_service.cli.output import counted
from bots_service.cli.progress import Advance, progress_line
from bots_service.cli.task_files import ReadProgress, Source, WantedColumns, files_of, read_rows, read_tasks

if TYPE_CHECKING:
    from bots_client import Client, Dataset, InvalidRequestError, PoolChange

NDJSON = "application/x-ndjson"
STORING = "sent; the service checks and stores it"
PREDICTIONS = WantedColumns(("id", "pass_rate"), frozenset({"pass_rate"}))
SENT_UNCHANGED = (".jsonl", ".ndjson", ".parquet")  # predictions in these the service reads itself


def import_source(
    client: "Client", name: str, source: Source, description: str, *, repeatable: bool
) -> tuple["Dataset", ReadProgress]:
    """Create a dataset from files; return it, and what was read."""
    progress = ReadProgress()
    with progress_line(name) as advance, _explained_repeats(source):
        upload, on_progress = _upload(source, progress, advance)
        dataset = client.upload_dataset(
            name,
            upload,
            media_type=None if isinstance(upload, Path) else NDJSON,
            reference_models=source.columns.references,
            description=description,
            repeatable=repeatable,
            on_progress=on_progress,
        )
    return dataset, progress


def append_source(client: "Client", dataset: str, source: Source) -> tuple["PoolChange", ReadProgress]:
    """Add the tasks in files to a dataset, all or none; return the change, and what was read."""
    progress = ReadProgress()
    with progress_line(dataset) as advance, _explained_repeats(source):
        upload, on_progress = _upload(source, progress, advance)
        media_type = None if isinstance(upload, Path) else NDJSON
        change = client.upload_tasks(dataset, upload, media_type=media_type, on_progress=on_progress)
    return change, progress


def upload_predictions(client: "Client", dataset: str, name: str, file: Path) -> "Dataset":
    """Put the predictions in a file with the columns id and pass_rate; return the dataset.

    Raises:
        CommandError: the file's format is not supported, or it is damaged, or a column is missing.
    """
    files_of([file])
    with progress_line(name) as advance:
        if file.suffix.lower() in SENT_UNCHANGED:
            return client.upload_predictions(
                dataset, name, file, on_progress=lambda sent, total: show_sent(advance, sent, total)
            )
        return client.upload_predictions(dataset, name, lambda: _predictions(file, advance), media_type=NDJSON)


def _predictions(file: Path, advance: Advance) -> Iterator[bytes]:
    """Yield the predictions in a file as NDJSON."""
    encoder, rows = msgspec.json.Encoder(), 0
    for batch in read_rows(file, PREDICTIONS):
        rows += len(batch.rows)
        yield encoder.encode_lines([{name: row.get(name) for name in PREDICTIONS.columns} for row in batch.rows])
        advance(batch.share_read, counted(rows, "row"))
    advance(None, f"{counted(rows, 'row')} {STORING}")


def _upload(
    source: Source, progress: ReadProgress, advance: Advance
) -> tuple[Path | Callable[[], Iterator[bytes]], Callable[[int, int | None], None] | None]:
    """Return the body, and the client's `on_progress`: only a file that is sent unchanged needs it."""
    if source.is_service_format:
        return source.files[0], lambda sent, total: show_sent(advance, sent, total)
    return (lambda: ndjson(source, progress, advance)), None


def ndjson(source: Source, progress: ReadProgress, advance: Advance) -> Iterator[bytes]:
    """Yield the tasks in files as NDJSON."""
    encoder = msgspec.json.Encoder()
    for tasks in read_tasks(source, progress):
        yield encoder.encode_lines([task.as_wire() for task in tasks])
        advance(progress.share, counted(progress.rows, "row"))
    advance(None, f"{counted(progress.rows, 'row')} {STORING}")


def show_sent(advance: Advance, sent: int, total: int | None) -> None:
    """Show how much of a file is sent."""
    if total is None or sent < total:
        advance(sent / total if total else None, "sending")
    else:
        advance(None, STORING)


@contextmanager
def _explained_repeats(source: Source) -> Iterator[None]:
    """Add to the service's error about repeated ids which options make ids unique."""
    from bots_client import InvalidRequestError

    try:
        yield
    except InvalidRequestError as error:
        if error.detail != "task ids must differ":
            raise
        raise CommandError(_repeated(error, source)) from error


def _repeated(error: "InvalidRequestError", source: Source) -> str:
    (flaw,) = error.errors
    row = next((part for part in flaw.loc if isinstance(part, int)), 0)
    ways = {
        "build the ids from more columns (--id A --id B)": source.columns.id_from != "row",
        "add the file's name (--file-in-id)": len(source.files) > 1 and not source.file_in_id,
        "hash the content (--id-from content)": source.columns.id_from != "content",
    }
    helping = ", ".join(way for way, helps in ways.items() if helps)
    return f"row {row + 1} of all files: {flaw.msg} (counted from 0); {helping}, or skip repeats (--skip-repeats)"
