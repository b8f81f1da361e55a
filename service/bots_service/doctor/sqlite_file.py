"""Can SQLite keep the service's data?"""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import URL

from bots_service.doctor.finding import Finding, ok, problem, warning
from bots_service.doctor.machine import existing

MIN_VERSION = (3, 35)  # RETURNING
HEADER = b"SQLite format 3\0"
# Write-ahead logging needs memory that processes share, which network file systems don't offer.
NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "lustre", "beegfs", "gpfs", "ceph", "9p", "afs"}
)


def examine(url: URL) -> Iterator[Finding]:
    """Yield what is found, without opening the database: a service may be using it."""
    if not url.database or url.database == ":memory:":
        said = "an in-memory database is lost when the process ends"
        yield problem("database", said, "name a file: BOTS_DATABASE_URL=sqlite:////PATH/bots.db")
        return
    path = Path(url.database).absolute()
    yield version(sqlite3.sqlite_version_info)
    yield folder(path.parent)
    if path.exists():
        yield file(path)
    kind = file_system_of(existing(path.parent), Path("/proc/self/mounts"))
    if kind is not None:
        yield file_system(kind)


def version(found: tuple[int, ...]) -> Finding:
    """Judge the library's version."""
    said = "SQLite " + ".".join(map(str, found))
    if found < MIN_VERSION:
        return problem("database", said, "use a Python with SQLite 3.35 or later")
    return ok("database", said)


def folder(path: Path) -> Finding:
    """Check that the database file and its write-ahead log can be created in the folder."""
    nearest = existing(path)
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        return problem(
            "database folder", f"{nearest} can't be written", "change its owner, or name another BOTS_DATA_DIR"
        )
    return ok("database folder", f"{path} can be written" if nearest == path else f"{path} can be created")


def file(path: Path) -> Finding:
    """Judge the database's file by its rights and its first bytes."""
    if not path.is_file() or not os.access(path, os.R_OK | os.W_OK):
        return problem("database file", f"{path} can't be read and written", "change its owner or its permissions")
    with path.open("rb") as opened:
        header = opened.read(20)
    if not header:
        return ok("database file", f"{path} is empty")
    if not header.startswith(HEADER):
        return problem("database file", f"{path} is not a SQLite database", "name another file, or restore a backup")
    # Bytes 18 and 19 of the header are the versions for writing and reading: 2 says write-ahead log.
    if header[18:20] != b"\2\2":
        return warning("database file", f"{path} has no write-ahead log", "start the service once: it enables the log")
    return ok("database file", f"{path}, with a write-ahead log")


def file_system_of(path: Path, mounts: Path) -> str | None:
    """Return the kind of file system that holds a folder, None where the kernel does not tell.

    Args:
        path: an existing folder.
        mounts: the kernel's list: what is mounted, where, its kind, and more, separated by blanks.
    """
    if not mounts.exists():
        return None
    listed = [line.split() for line in mounts.read_text("utf-8", errors="replace").splitlines()]
    holding = [(fields[1], fields[2]) for fields in listed if path.resolve().is_relative_to(fields[1])]
    # Of two at one place, the later one hides the earlier.
    return max(enumerate(holding), key=lambda item: (len(item[1][0]), item[0]))[1][1] if holding else None


def file_system(kind: str) -> Finding:
    """Judge the file system that holds the file."""
    if kind in NETWORK_FILE_SYSTEMS:
        said = f"the file is on {kind}, where locks and the write-ahead log are unreliable"
        return problem("file system", said, "move it to a local disk, or use PostgreSQL")
    return ok("file system", kind)
