"""A lock that the operating system gives back when its process dies, however it dies."""

import fcntl
import os
from pathlib import Path

from bots_service.errors import StorageUnavailableError


class FileLock:
    """Keeps a second process off a database file."""

    def __init__(self, database: Path) -> None:
        """Take the lock: a file beside the database, `<name>.lock`, that holds the process's number.

        Raises:
            StorageUnavailableError: another process has it.
        """
        path = database.with_name(database.name + ".lock")
        self._file = path.open("a+", encoding="ascii")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.seek(0)
            holder = self._file.read(20).strip()
            self._file.close()
            raise StorageUnavailableError(
                f"{database} is in use by process {holder or '?'}; one SQLite file serves one process: "
                "stop that process, or name another file"
            ) from error
        self._file.truncate(0)
        self._file.write(str(os.getpid()))
        self._file.flush()

    def release(self) -> None:
        """Give the lock back. The file stays: removing it would let two processes lock two files of one name."""
        self._file.close()
