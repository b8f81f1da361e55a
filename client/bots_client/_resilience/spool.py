"""Reports and rewinds kept on disk until the service accepts them: one SQLite file for each run.

SQLite is part of Python, lets several processes add and deliver at once, and keeps committed writes through kill -9 and
power cuts. Each method opens the file again, so that no connection is shared with a fork.
"""

import hashlib
import json
import os
import re
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from bots_client._errors import object_in
from bots_client._http import KEY, Call

WAIT_S = 2.0  # for the file's lock, where giving up would lose a report
SHORT_WAIT_S = 0.5  # for the file's lock elsewhere; a selection has no more time
POLL_S = 0.02
MAX_NAME_LENGTH = 80  # characters of dataset and run in the file's name
REWIND = "/rewind"  # the end of a rewind's path

# AUTOINCREMENT never reuses a position, so that a checkpoint can refer to one.
SCHEMA = """
CREATE TABLE IF NOT EXISTS reports (
    position INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL, headers TEXT NOT NULL, body BLOB NOT NULL,
    digest TEXT NOT NULL, closes INTEGER NOT NULL, added_at REAL NOT NULL, refused TEXT
);
CREATE TABLE IF NOT EXISTS about (url TEXT NOT NULL, dataset TEXT NOT NULL, run TEXT NOT NULL);
"""

WRITES = "SELECT position, path, headers, body, digest, added_at, refused FROM reports WHERE"

OnLoss = Callable[[int, str], object]


@dataclass(frozen=True, slots=True)
class SpooledWrite:
    """One write as it will be sent.

    is_sound: whether the disk returned what was stored.
    added_at: when that was, in seconds since 1970.
    refused: why it was set aside: the service refused it for good, or the disk damaged it. None while it waits.
    """

    position: int
    path: str
    headers: Mapping[str, Any]
    body: bytes
    is_sound: bool
    added_at: float
    refused: str | None

    @property
    def is_rewind(self) -> bool:
        return self.path.endswith(REWIND)


class Spool:
    """The stored writes of one run, oldest first, in a file that the first write creates.

    limit_bytes: maximum size of all stored bodies together.
    on_loss: called with the number of reports that a damaged disk cost, and what happened.
    Every method raises sqlite3.Error if the file can't be read or written.
    """

    def __init__(self, file: Path, *, url: str, dataset: str, run: str, limit_bytes: int, on_loss: OnLoss) -> None:
        self.file = file
        self._about = (url, dataset, run)
        self._limit_bytes = limit_bytes
        self._on_loss = on_loss
        self._known_waiting: int | None = None
        self._turn = threading.Lock()  # fair between threads; SQLite's own waiting is not

    def add(self, call: Call[Any], *, closes: bool) -> tuple[int, int]:
        """Store a write; return its position, and how many of the oldest were dropped to make room."""
        with self._opened(WAIT_S) as db:
            position = _insert(db, call.path, call.headers, call.body, closes=closes)
            return position, self._make_room(db)

    def first(self) -> SpooledWrite | None:
        """Return the oldest waiting write that can be sent; None if there is none. Sets aside those that can't."""
        while rows := self._run(f"{WRITES} refused IS NULL ORDER BY position LIMIT 1"):
            oldest = _write_of(*rows[0])
            if oldest.is_sound:
                return oldest
            self.refuse(oldest.position, "damaged on the disk")
            self._on_loss(1, f"a report is damaged and set aside in {self.file}; the others are sent")
        return None

    def refused(self) -> list[SpooledWrite]:
        return [_write_of(*row) for row in self._run(f"{WRITES} refused IS NOT NULL ORDER BY position")]

    def waiting(self, *, until: int | None = None, closing: bool = False) -> int:
        """Return the number of waiting writes: if asked, of those up to a position, or of those that close a step."""
        query = "SELECT count(*) FROM reports WHERE refused IS NULL AND position <= ? AND closes >= ?"
        for (count,) in self._run(query, 2**62 if until is None else until, closing):
            if until is None and not closing:
                self._known_waiting = count
            return int(count)
        return 0

    def last_position(self) -> int:
        """Return the position of the last write ever stored; 0 if there was none."""
        rows = self._run("SELECT seq FROM sqlite_sequence WHERE name = 'reports'")
        return int(rows[0][0]) if rows else 0

    def remove(self, position: int) -> None:
        self._run("DELETE FROM reports WHERE position = ?", position)

    def refuse(self, position: int, reason: str) -> None:
        """Set aside a write that can't be sent, or that the service refused for good, for inspection."""
        self._run("UPDATE reports SET refused = ? WHERE position = ?", reason, position)

    def split(self, kept: SpooledWrite, sound: SpooledWrite, flawed: bytes, reason: str) -> None:
        """Set aside the invalid part of a report; the valid part waits in its place."""
        with self._opened() as db:
            _change(db, kept, sound.headers, sound.body)
            position = _insert(db, kept.path, kept.headers, flawed, closes=False)
            db.execute("UPDATE reports SET refused = ? WHERE position = ?", (reason, position))

    def rewind(self, position: int, first: Call[Any] | None) -> None:
        """Restore a checkpoint: delete later reports, and detach earlier ones from their selections.

        After a rewind, reports for selections made before it are refused; without the selection, and under a new key,
        their evidence counts. Reports keep their positions, so that the same checkpoint can be restored again.

        position: last position when the checkpoint was saved.
        first: sent before all others; replaces a rewind that still waits.
        """
        if first is None and not self.file.exists():
            return
        with self._opened(WAIT_S) as db:
            gone = "DELETE FROM reports WHERE refused IS NULL AND (position > ? OR path LIKE ?)"
            db.execute(gone, (position, f"%{REWIND}"))
            for row in db.execute(f"{WRITES} refused IS NULL").fetchall():
                kept = _write_of(*row)
                if kept.is_sound:  # delivery sets the others aside
                    content = {name: value for name, value in json.loads(kept.body).items() if name != "selection_id"}
                    body = json.dumps(content, separators=(",", ":")).encode()
                    _change(db, kept, {**kept.headers, KEY: uuid4().hex}, body)
            if first is not None:
                added = _insert(db, first.path, first.headers, first.body, closes=False)
                foremost = "UPDATE reports SET position = (SELECT min(position) - 1 FROM reports) WHERE position = ?"
                db.execute(foremost, (added,))

    @contextmanager
    def turn(self, wait_s: float = 0.0) -> Iterator[bool]:
        """Yield whether nobody else, in this process or another, delivers until the block ends.

        wait_s: for another to end. The lock of a process that is killed goes with it.
        """
        import fcntl  # which Windows lacks

        if not self.file.exists():  # nothing to deliver
            yield True
            return
        until = time.monotonic() + wait_s
        with self.file.with_suffix(".lock").open("ab") as lock:
            while True:
                with suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                if time.monotonic() >= until:
                    yield False
                    return
                time.sleep(POLL_S)
            try:
                yield True
            finally:
                fcntl.flock(lock, fcntl.LOCK_UN)  # closing is not enough: a forked process may have the file open, too

    def _run(self, statement: str, *values: object) -> list[Any]:
        """Return the rows that a statement finds; none, and nothing done, where nothing was ever stored."""
        if not self.file.exists():
            return []
        with self._opened() as db:
            return db.execute(statement, values).fetchall()

    def _make_room(self, db: sqlite3.Connection) -> int:
        """Drop the oldest reports beyond the limit; return how many. The newest say most about the current model."""
        query = "SELECT position, length(body) FROM reports WHERE path NOT LIKE ? ORDER BY position DESC"
        rows = db.execute(query, (f"%{REWIND}",)).fetchall()  # keep rewinds: reports after one are wrong without it
        total, dropped = 0, []
        for position, size in rows:
            total += size
            if total > self._limit_bytes and position != rows[0][0]:
                dropped.append((position,))
        db.executemany("DELETE FROM reports WHERE position = ?", dropped)
        return len(dropped)

    @contextmanager
    def _opened(self, wait_s: float = SHORT_WAIT_S) -> Iterator[sqlite3.Connection]:
        """Yield the database in one transaction, committed and synced at the end. A damaged file is moved aside."""
        with self._turn:
            try:
                db = self._begun(wait_s)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):  # locked, full or forbidden: the file is not damaged
                    raise
                self._move_aside(error)
                db = self._begun(wait_s)
            try:
                yield db
                db.execute("COMMIT")
            except sqlite3.DatabaseError as error:
                if type(error) is sqlite3.DatabaseError:  # damage inside the file; other errors are subclasses
                    self._move_aside(error)
                raise
            finally:
                db.close()  # also rolls back

    def _move_aside(self, error: Exception) -> None:
        """Move a damaged file out of the way, and count its reports; as one if nobody knows their number."""
        aside = self.file.rename(f"{self.file}.damaged-{time.time_ns()}")
        reason = f"the waiting reports are lost: their file is damaged ({error}). It was moved to {aside}"
        self._on_loss(1 if self._known_waiting is None else self._known_waiting, reason)

    def _begun(self, wait_s: float) -> sqlite3.Connection:
        db = sqlite3.connect(self.file, timeout=wait_s, isolation_level=None)
        db.text_factory = _text  # sqlite3 would take damaged text for a locked file
        try:
            db.execute("PRAGMA synchronous = EXTRA")  # syncs the directory entry too
            db.execute("BEGIN IMMEDIATE")
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone():
                for statement in SCHEMA.split(";\n"):
                    db.execute(statement)
                db.execute("INSERT INTO about VALUES (?, ?, ?)", self._about)
        except BaseException:
            db.close()
            raise
        return db


def _insert(db: sqlite3.Connection, path: str, headers: Mapping[str, str], body: object, *, closes: bool) -> int:
    kept = (path, json.dumps(dict(headers)), body)
    columns = "path, headers, body, digest, closes, added_at"
    statement = f"INSERT INTO reports ({columns}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608
    return int(db.execute(statement, (*kept, _digest(*kept), closes, time.time())).lastrowid or 0)


def _change(db: sqlite3.Connection, kept: SpooledWrite, headers: Mapping[str, str], body: bytes) -> None:
    text = json.dumps(dict(headers))
    row = (text, body, _digest(kept.path, text, body), kept.position)
    db.execute("UPDATE reports SET headers = ?, body = ?, digest = ? WHERE position = ?", row)


def _digest(*kept: object) -> str:
    return hashlib.sha256(repr(kept).encode()).hexdigest()


def _write_of(position: int, path: Any, headers: Any, body: Any, digest: Any, *others: Any) -> SpooledWrite:
    return SpooledWrite(position, path, object_in(headers), body, digest == _digest(path, headers, body), *others)


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "replace")


def about(file: Path) -> tuple[str, str, str]:
    """Return the url, dataset and run that a file belongs to; a sqlite3.Error if it is damaged."""
    read_only = f"{file.resolve().as_uri()}?mode=ro"  # nothing is created or moved
    with closing(sqlite3.connect(read_only, uri=True, timeout=SHORT_WAIT_S)) as db:
        row = db.execute("SELECT url, dataset, run FROM about").fetchone()
    if row is None:
        raise sqlite3.DatabaseError("it does not say what it belongs to")
    return row[0], row[1], row[2]


def spool_of(folder: Path, *, url: str, dataset: str, run: str, limit_bytes: int, on_loss: OnLoss) -> Spool:
    """Return the spool of a run; its file's name is readable, and a hash makes it unique."""
    exact = hashlib.sha256(json.dumps([url, dataset, run]).encode()).hexdigest()[:16]
    readable = re.sub(r"[^A-Za-z0-9._-]+", "_", f"{dataset}.{run}")[:MAX_NAME_LENGTH]
    file = folder / f"{readable}-{exact}.db"
    return Spool(file, url=url, dataset=dataset, run=run, limit_bytes=limit_bytes, on_loss=on_loss)


def spool_folder(given: str | os.PathLike[str] | None) -> Path:
    """Return the folder for spools, created if needed: the argument, or BOTS_SPOOL, or one in the user's state folder.

    A ValueError if it can't be written to.
    """
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    named = Path(given or os.environ.get("BOTS_SPOOL") or f"{state}/bots")
    try:
        folder = named.expanduser()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home
        reason = f"can't write reports to {named}: {error}"
        raise ValueError(f"{reason}; pass another folder with spool= or BOTS_SPOOL") from error
