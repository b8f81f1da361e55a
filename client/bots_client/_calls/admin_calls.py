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


def create_key(
    name: str,
    *,
    scopes: Iterable[str],
    datasets: Iterable[str],
    rate: float | None = None,
    burst: int | None = None,
    expires_in_s: float | None = None,
) -> Call[NewApiKey]:
    """Make a key. Its `key` is told this once: keep it where only those see it who may use it.

    Args:
        name: for people.
        scopes: read, select, report, admin.
        datasets: patterns of names; "*" stands for any characters, "?" for one.
        rate: calls a second; None: as many as it likes.
        burst: calls at once, after a rest; None: those of one second.
        expires_in_s: None: it never expires.

    Raises:
        InvalidRequestError: among others, it would be the service's first key and could not make others.
    """
    if rate is None and burst is not None:
        raise InvalidRequestError("burst is how far a rate may be exceeded; pass rate= too")
    content = given(
        name=name,
        scopes=checked_strings(scopes, "scopes"),
        datasets=checked_strings(datasets, "datasets"),
        rate_limit=None if rate is None else given(per_second=rate, burst=burst),
        expires_in_seconds=expires_in_s,
    )
    return written("POST", path("keys"), into(NewApiKey), content)


def keys(*, limit: int | None = None) -> Pages[ApiKey]:
    """Go through the keys by id; revoked ones too.

    Args:
        limit: at most so many; None: all.
    """
    return listed(ApiKey, "keys", path("keys"), limit)


def revoke_key(key_id: str) -> Call[None]:
    """Revoke a key: within 5 seconds it opens nothing any more.

    Raises:
        InvalidRequestError: this is a whole key, which must not stand in an address that others may log.
    """
    if "_" in key_id:
        raise InvalidRequestError("that is a whole key; pass its id, the part between its underscores")
    return written("DELETE", path("keys", key_id), nothing)


def whoami() -> Call[WhoAmI]:
    """Say who calls: what the key in use is called, and what it may do."""
    return Call("GET", path("whoami"), into(WhoAmI))


def version() -> Call[Version]:
    """Say which version of the service answers, and on what it runs."""
    return Call("GET", path("version"), into(Version))


def is_ready() -> Probe:
    """Tell whether the service wants requests now, degraded or not; False also when it cannot be reached."""
    return Call("GET", path("readyz"), nothing, retried=False)


def is_live() -> Probe:
    """Tell whether the service's process answers; False also when it cannot be reached."""
    return Call("GET", path("livez"), nothing, retried=False)
