"""Administration: backups, pruning, API keys, and the service itself."""

import os
from collections.abc import Callable, Iterable

from bots_client._admin_models import ApiKey, Imported, NewApiKey, Pruning, Version, WhoAmI
from bots_client._arguments import checked_strings
from bots_client._call import (
    Call,
    Pages,
    Probe,
    Progress,
    Stream,
    Upload,
    file_upload,
    given,
    key_header,
    listed,
    path,
    written,
)
from bots_client._decode import into, nothing
from bots_client._errors import InvalidRequestError

BACKUP = "application/vnd.bots.backup"
BACKUP_DEADLINE_S = 3600.0  # a dataset of a million tasks with a few long journals is some 200 MB


def export_dataset(dataset: str, run: str | None = None, *, deadline_s: float = BACKUP_DEADLINE_S) -> Stream:
    """Export a dataset with all its runs, or one run, as the chunks of a backup file.

        with open("guru.botsbackup", "wb") as file:
            file.writelines(bots.export_dataset("guru"))

    Args:
        dataset: name of the dataset.
        run: only this run, without the tasks.
        deadline_s: until the response begins; then for each further chunk.
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
    """Import a backup from `export_dataset`, into this or another service: all of it or nothing.

    Args:
        source: path of the file, or a function that returns the bytes from the start (attempts are repeated).
        dataset: new name of the dataset, or the dataset to import a run into; None: the name in the backup.
        run: new name of the run, if the backup holds one run; None: the name in the backup.
        on_progress: called with the bytes sent and the total (None: unknown); starts at 0 again after a failed
            attempt. AsyncClient calls it from a thread.
        deadline_s: for the whole upload with its retries.

    Raises:
        ConflictError: the name is taken, or the run belongs to other tasks than the dataset's.
        InvalidRequestError: a truncated, altered or foreign file.
        OSError: the file cannot be read.
    """
    upload = Upload(source, None, on_progress) if callable(source) else file_upload(source, on_progress)
    params = tuple(given(dataset=dataset, run=run).items())
    headers = {**key_header(None), "Content-Type": BACKUP}
    return Call("POST", path("imports"), into(Imported), params, upload, headers, deadline_s)


def prune(*, keep_journal_days: float | None = None, dry_run: bool = False) -> Call[Pruning]:
    """Remove old journal entries that snapshots cover.

    Args:
        keep_journal_days: keep entries younger than this; None: the service's setting.
        dry_run: only report what would be removed.
    """
    content = given(keep_journal_days=keep_journal_days, dry_run=dry_run)
    return written("POST", path("prune"), into(Pruning), content, deadline_s=BACKUP_DEADLINE_S)


def create_key(
    name: str,
    *,
    scopes: Iterable[str],
    datasets: Iterable[str],
    expires_in_s: float | None = None,
) -> Call[NewApiKey]:
    """Create an API key. Only this response contains the secret `key`: store it safely.

    Args:
        name: name of the key.
        scopes: any of read, select, report, admin.
        datasets: patterns of dataset names; "*" matches any characters, "?" one.
        expires_in_s: lifetime in seconds; None: it never expires.

    Raises:
        InvalidRequestError: an argument is invalid, or the first key is not an admin key.
    """
    content = given(
        name=name,
        scopes=checked_strings(scopes, "scopes"),
        datasets=checked_strings(datasets, "datasets"),
        expires_in_seconds=expires_in_s,
    )
    return written("POST", path("keys"), into(NewApiKey), content)


def keys(*, limit: int | None = None) -> Pages[ApiKey]:
    """List the API keys by ID, including revoked ones.

    Args:
        limit: maximum number of keys; None: all.
    """
    return listed(ApiKey, "keys", path("keys"), limit)


def revoke_key(key_id: str) -> Call[None]:
    """Revoke an API key; it stops working within 5 seconds.

    Raises:
        InvalidRequestError: this is a whole key; URLs are logged, so pass only its ID.
    """
    if "_" in key_id:
        raise InvalidRequestError("that is a whole key; pass its id, the part between its underscores")
    return written("DELETE", path("keys", key_id), nothing)


def whoami() -> Call[WhoAmI]:
    """Return the name, scopes and datasets of the key in use."""
    return Call("GET", path("whoami"), into(WhoAmI))


def version() -> Call[Version]:
    """Return the versions of the service and of what it runs on."""
    return Call("GET", path("version"), into(Version))


def is_ready() -> Probe:
    """Return whether the service accepts requests, degraded or not; False if it is unreachable."""
    return Call("GET", path("readyz"), nothing, retried=False)


def is_live() -> Probe:
    """Return whether the service's process responds; False if it is unreachable."""
    return Call("GET", path("livez"), nothing, retried=False)
