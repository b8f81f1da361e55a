"""Backups: a dataset or a run as one file; and what is too old to be kept. All take a key with scope admin."""

import os
from collections.abc import Callable, Iterable

from bots_client._backup_models import Imported, Pruning
from bots_client._call import Call, Progress, Upload, file_upload, given, key_header, path, written
from bots_client._decode import into

BACKUP = "application/vnd.bots.backup"
BACKUP_DEADLINE_S = 3600.0  # a dataset of a million tasks with a few long journals is some 200 MB


def export_dataset(dataset: str, run: str | None = None, *, deadline_s: float = BACKUP_DEADLINE_S) -> Call[bytes]:
    """Give a dataset with all its runs, or one run of it, as the chunks of a backup.

        with open("guru.botsbackup", "wb") as file:
            file.writelines(bots.export_dataset("guru"))

    Args:
        dataset: the pool.
        run: only this run, without the tasks.
        deadline_s: until the answer begins; after that, for each further chunk.
    """
    params = () if run is None else (("run", run),)
    return Call(
        "GET", path("datasets", dataset, "export"), bytes, params, headers={"Accept": BACKUP}, deadline_s=deadline_s
    )


def import_backup(
    source: str | os.PathLike[str] | Callable[[], Iterable[bytes]],
    *,
    dataset: str | None = None,
    run: str | None = None,
    on_progress: Progress | None = None,
    deadline_s: float = BACKUP_DEADLINE_S,
) -> Call[Imported]:
    """Put back what `export_dataset` gave, here or in another service: all of it, or nothing.

    Args:
        source: path of the file, or a function that begins the bytes anew (an attempt may have to be repeated).
        dataset: name for the dataset, or that of the one that a run comes into; None: as it was.
        run: of a backup of one run, its name; None: as it was.
        on_progress: called with the bytes sent and the bytes in all (None: not known); counts anew after a failed
            attempt. AsyncClient calls it from a thread.
        deadline_s: for the whole upload with its retries.

    Raises:
        ConflictError: the name is taken, or the run is of other tasks than the dataset's.
        InvalidRequestError: the file was cut or changed, or is no backup.
        OSError: the file cannot be read.
    """
    upload = Upload(source, None, on_progress) if callable(source) else file_upload(source, on_progress)
    params = tuple(given(dataset=dataset, run=run).items())
    headers = {**key_header(None), "Content-Type": BACKUP}
    return Call("POST", path("imports"), into(Imported), params, upload, headers, deadline_s)


def prune(*, keep_journal_days: float | None = None, dry_run: bool = False) -> Call[Pruning]:
    """Remove journal entries that are old enough and that stored states stand for.

    Args:
        keep_journal_days: instead of the age that the service is configured with.
        dry_run: only tell what would go.
    """
    content = given(keep_journal_days=keep_journal_days, dry_run=dry_run)
    return written("POST", path("prune"), into(Pruning), content, deadline_s=BACKUP_DEADLINE_S)
