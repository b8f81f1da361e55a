"""The service of a training job that has no server: a process beside it, shared by the job's processes."""

import fcntl
import json
import logging
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from io import FileIO
from pathlib import Path
from socket import gethostname
from typing import Any

from bots_client._client import Client
from bots_client._errors import ServiceError
from bots_client._http import FILE_URL, Deadline

START_S = 120.0  # a cold, busy machine reads numpy, scipy and pyarrow from a slow disk
POLL_S = 0.05
NOT_FOR_CHILD = ("BOTS_", "PYTHONDONTWRITEBYTECODE")  # another service's settings; and what doubles the time of starts

logger = logging.getLogger("bots_client")


class LocalService:
    """The service of a database file: the first process that needs it starts it, and it ends after the last one.

    Locks of the kernel tell who is there, so that kill -9 leaves nothing behind. Each process of the job shares the
    lock of FILE.users; once the service gets this lock for itself, it ends. The service holds the lock of FILE.service,
    where it writes its address: it inherits this lock from the process that starts it.
    """

    def __init__(self, url: str) -> None:
        self.file = Path(url.removeprefix(FILE_URL)).absolute()
        self.url = f"{FILE_URL}{self.file}"
        if find_spec("bots_service") is None:
            needed = "the BOTS service in this environment, with Python 3.11 or later"
            fix = "run `pip install ./client .` in a clone of BOTS, or use a shared service"
            raise ModuleNotFoundError(f"{self.url} needs {needed}: {fix}")
        self._address: Mapping[str, str] = {}
        self._users: FileIO | None = None
        self._owner = 0  # the process that shares the lock; forks have its file, too
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.find()
        except BaseException:
            self.release(0.0)
            raise

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_users": None, "_process": None}

    def client(self, headers: Mapping[str, str] | None = None) -> Client:
        return Client(self._address["url"], api_key=self._address["key"], headers=headers)

    def find(self) -> bool:
        """Find the service, or start it; return whether its address is another than before.

        Raises ServiceError: it is on another machine, ended, or was not ready in time.
        """
        self._require_here()
        deadline = Deadline(START_S)
        process: subprocess.Popen[bytes] | None = None
        self.file.parent.mkdir(parents=True, exist_ok=True)
        if self._users is None:
            self._users, self._owner = self._opened("users"), os.getpid()
        while not _lock(self._users, fcntl.LOCK_SH) and deadline.left_s() > 0:  # the one before is ending
            time.sleep(POLL_S)
        while deadline.left_s() > 0:
            with self._opened("service") as file:
                if _lock(file, fcntl.LOCK_EX):
                    if process is not None:
                        raise ServiceError(f"the service of {self.file} ended ({process.wait()}): {self._last_words()}")
                    self._process = process = self._started(file)
                said = file.read()
            if said.endswith(b"\n"):
                before, self._address = self._address, json.loads(said)
                self._require_here()
                with self.client() as bots:
                    is_ready = bots.within(1.0, attempts=1).is_ready()
                if is_ready:
                    if process is not None:
                        logger.warning(
                            "started the BOTS service of %s; %s.service links to its page", self.file, self.file
                        )
                    return before != self._address
            time.sleep(POLL_S)
        raise ServiceError(f"the service of {self.file} was not ready within {START_S:g} s: {self._last_words()}")

    def release(self, wait_s: float) -> None:
        """Stop using the service; if nobody else uses it, wait for its end."""
        users, self._users = self._users, None
        if users is None:
            return
        with users:
            if self._owner != os.getpid():
                return
            is_last = _lock(users, fcntl.LOCK_EX) or not _lock(users, fcntl.LOCK_SH)
            fcntl.flock(users, fcntl.LOCK_UN)  # closing is not enough: a forked process may have the file open, too
        deadline = Deadline(wait_s if is_last else 0.0)
        while deadline.left_s() > 0:
            with self._opened("service") as file:
                has_ended = _lock(file, fcntl.LOCK_EX)
            if has_ended:
                if self._process is not None:
                    self._process.wait()  # else it stays as a zombie
                return
            time.sleep(POLL_S)

    def _started(self, file: FileIO) -> "subprocess.Popen[bytes]":
        """Start the service, which inherits a locked file; in a session of its own, as Ctrl-C is for the trainer."""
        file.truncate(0)
        given = {name: value for name, value in os.environ.items() if not name.startswith(NOT_FOR_CHILD)}
        with Path(f"{self.file}.log").open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-P", "-m", "bots_service.serving.local", str(self.file), str(file.fileno())],
                env={**given, "BOTS_ADMIN_KEY": secrets.token_hex()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[file.fileno()],
                start_new_session=True,
            )

    def _last_words(self) -> str:
        log = Path(f"{self.file}.log")
        return f"{''.join(log.read_text('utf-8', 'replace').splitlines()[-1:])} (from {log})"

    def _opened(self, suffix: str) -> FileIO:
        """Open a file beside the database, for this user alone: the address has the key."""
        return FileIO(os.open(f"{self.file}.{suffix}", os.O_RDWR | os.O_CREAT, 0o600), "r+")

    def _require_here(self) -> None:
        if (host := self._address.get("host", gethostname())) != gethostname():
            raise ServiceError(f"the service of {self.file} is on {host}; for several machines, use a shared service")


def _lock(file: FileIO, kind: int) -> bool:
    """Lock a file, or return False if others have locked it."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
