"""Is this machine fit for what the settings ask of it?"""

import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

from bots_service.doctor.finding import Finding, ok, problem, warning
from bots_service.errors import StorageUnavailableError
from bots_service.settings import Settings
from bots_service.storage.sql.url import sql_url

MIB = 2**20
GIB = 2**30
FILES_OF_ITS_OWN = 128  # of the open files that are allowed: the libraries', the database's, the logs', the pools'
LEAST_FREE = 100 * MIB  # a journal grows by some kilobytes a step: less is gone within a day
LITTLE_FREE = GIB


def examine(settings: Settings) -> Iterator[Finding]:
    """Yield what is found on this machine."""
    yield processors(settings.workers, available=available_processors())
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield open_files(soft, needed=settings.max_concurrent + settings.max_waiting + FILES_OF_ITS_OWN)
    folder = data_folder(settings)
    if folder is not None:
        yield disk(folder, free=shutil.disk_usage(existing(folder)).free)


def available_processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processors(workers: int, *, available: int) -> Finding:
    """Judge the number of processes."""
    said = f"{available} for {workers} process{'es' if workers > 1 else ''}"
    if workers > available:
        return warning("processors", said, f"BOTS_WORKERS={available} would do the same work with less memory")
    return ok("processors", said)


def open_files(limit: int, *, needed: int) -> Finding:
    """Judge how many files, and so connections, one process may open; a limit below 0 is none."""
    if limit < 0:
        return ok("open files", "no limit")
    if limit < needed:
        advice = f"raise the limit (`ulimit -n 65536`), or lower BOTS_MAX_WAITING; {needed} are needed"
        return problem("open files", f"at most {limit}", advice)
    if limit < 4 * needed:  # callers keep idle connections open, too
        return warning(
            "open files", f"at most {limit}, idle connections included", "raise the limit: `ulimit -n 65536`"
        )
    return ok("open files", f"at most {limit}")


def disk(folder: Path, *, free: int) -> Finding:
    """Judge the room that is left, in bytes."""
    said = f"{free / GIB:.1f} GiB free at {folder}"
    if free < LEAST_FREE:
        return problem("disk", said, "free some space: with a full disk every report fails")
    if free < LITTLE_FREE:
        return warning("disk", said, "free some space soon: with a full disk every report fails")
    return ok("disk", said)


def data_folder(settings: Settings) -> Path | None:
    """Return the folder of the database's file, None if the data is elsewhere."""
    try:
        url = sql_url(settings.sql_url)
    except StorageUnavailableError:
        return None
    return Path(url.database).absolute().parent if url.get_backend_name() == "sqlite" and url.database else None


def existing(folder: Path) -> Path:
    """Return the folder, or the nearest above it that exists."""
    return next(path for path in (folder, *folder.parents) if path.exists())
