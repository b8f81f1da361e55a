"""Reports kept on disk until the service takes them, and rewinds among them: one SQLite file for each run.

SQLite brings what is needed and is part of Python: several processes may add and deliver at once, and what was added
survives kill -9 and power cuts. Each act opens the file anew, so nothing is carried over a fork.
"""

import hashlib
import json
import logging
import os
import re
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bots_client._call import Call

WAIT_S = 2.0  # for another process that holds the file, where a report would be lost else
BRIEFLY_S = 0.5  # where it can be asked again; a selection has no more time
LONGEST_TURN_S = 10.0  # a process that is killed delays the others no longer; two that send the same count once
LONGEST_NAME = 80  # characters of a dataset and run in a file's name
REWIND = "/rewind"  # ends the path of a rewind; all other writes are reports

# AUTOINCREMENT: a position is never used twice, so that a checkpoint can name one.
SCHEMA = """
CREATE TABLE IF NOT EXISTS reports (
    position INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL, headers TEXT NOT NULL, body BLOB NOT NULL,
    closes INTEGER NOT NULL, added_at REAL NOT NULL, refused TEXT
);
CREATE TABLE IF NOT EXISTS delivery (only INTEGER PRIMARY KEY CHECK (only = 1), who TEXT NOT NULL, until REAL NOT NULL);
CREATE TABLE IF NOT EXISTS about (url TEXT NOT NULL, dataset TEXT NOT NULL, run TEXT NOT NULL);
"""

logger = logging.getLogger("bots_client")


@dataclass(frozen=True, slots=True)
class SpooledWrite:
    """One write as it will be sent.

    closes: whether it closes a training step.
    added_at: when it was kept, in seconds since 1970.
    refused: why the service will never take it; None: it waits.
    """

    position: int
    path: str
    headers: Mapping[str, str]
    body: bytes
    closes: bool
    added_at: float
    refused: str | None

    @property
    def is_rewind(self) -> bool:
        """Whether it takes the run back."""
        return self.path.endswith(REWIND)


class Spool:
    """The kept reports of one run, oldest first.

    Args:
        file: made when the first report is kept.
        limit_bytes: of all kept bodies together.

    Raises:
        sqlite3.Error: by every method; the file cannot be read or written.
    """

    def __init__(self, file: Path, *, url: str, dataset: str, run: str, limit_bytes: int) -> None:
        self.file = file
        self._about = (url, dataset, run)
        self._limit_bytes = limit_bytes
        self._turn = threading.Lock()  # SQLite lets who waits for the file sleep, and others overtake

    def add(self, call: Call[Any], *, closes: bool) -> tuple[int, int]:
        """Keep a write; return its position, and how many of the oldest had to go for it."""
        with self._opened(WAIT_S) as db:
            position = _insert(db, call.path, call.headers, call.body, closes=closes)
            return position, self._make_room(db)

    def first(self) -> SpooledWrite | None:
        """Return the oldest that still waits."""
        if not self.file.exists():
            return None
        with self._opened() as db:
            return next(iter(self._rows(db, "refused IS NULL ORDER BY position LIMIT 1")), None)

    def refused(self) -> list[SpooledWrite]:
        """Return those that the service will never take."""
        if not self.file.exists():
            return []
        with self._opened() as db:
            return self._rows(db, "refused IS NOT NULL ORDER BY position")

    def waiting(self, *, until: int | None = None, closing: bool = False) -> int:
        """Count the reports that wait.

        Args:
            until: only those up to this position.
            closing: only those that close a step.
        """
        if not self.file.exists():
            return 0
        condition = "refused IS NULL AND position <= ? AND closes >= ?"
        with self._opened() as db:
            row = (2**62 if until is None else until, closing)
            return int(db.execute(f"SELECT count(*) FROM reports WHERE {condition}", row).fetchone()[0])  # noqa: S608

    def last_position(self) -> int:
        """Return the position of the newest report that was ever kept; 0 if none was."""
        if not self.file.exists():
            return 0
        with self._opened() as db:
            row = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'reports'").fetchone()
            return int(row[0]) if row else 0

    def remove(self, position: int) -> None:
        """Forget a report that was delivered."""
        with self._opened() as db:
            db.execute("DELETE FROM reports WHERE position = ?", (position,))

    def refuse(self, position: int, reason: str) -> None:
        """Set a report aside that the service will never take, for a person to look at."""
        with self._opened() as db:
            db.execute("UPDATE reports SET refused = ? WHERE position = ?", (reason, position))

    def split(self, kept: SpooledWrite, sound: SpooledWrite, flawed: bytes, reason: str) -> None:
        """Put part of a report aside that the service will never take; the rest waits in its place.

        Args:
            kept: the report.
            sound: what is sent in its place.
            flawed: the body of what is put aside.
            reason: why.
        """
        with self._opened() as db:
            changed = (json.dumps(dict(sound.headers)), sound.body, kept.position)
            db.execute("UPDATE reports SET headers = ?, body = ? WHERE position = ?", changed)
            position = _insert(db, kept.path, kept.headers, flawed, closes=False)
            db.execute("UPDATE reports SET refused = ? WHERE position = ?", (reason, position))

    def rewind(self, position: int, new_keys: Iterator[str], first: Call[Any] | None) -> None:
        """Go back to a checkpoint: forget what was kept after it, detach what was kept before it from its selections.

        A selection made before a rewind counts for nothing after it; its evidence does, under a key of its own. What
        stays keeps its position, so that the same checkpoint can be gone back to once more.

        Args:
            position: the last that was kept when the checkpoint was made.
            new_keys: Idempotency-Keys.
            first: goes before all others, in place of a rewind that still waits.
        """
        if first is None and not self.file.exists():
            return
        with self._opened(WAIT_S) as db:
            gone = "DELETE FROM reports WHERE refused IS NULL AND (position > ? OR path LIKE ?)"
            db.execute(gone, (position, f"%{REWIND}"))
            changed = "UPDATE reports SET headers = ?, body = ? WHERE position = ?"
            for kept in self._rows(db, "refused IS NULL"):
                content = {name: value for name, value in json.loads(kept.body).items() if name != "selection_id"}
                headers = json.dumps({**kept.headers, "Idempotency-Key": next(new_keys)})
                db.execute(changed, (headers, json.dumps(content, separators=(",", ":")).encode(), kept.position))
            if first is not None:
                added = _insert(db, first.path, first.headers, first.body, closes=False)
                foremost = "UPDATE reports SET position = (SELECT min(position) - 1 FROM reports) WHERE position = ?"
                db.execute(foremost, (added,))

    def begin_delivery(self, who: str, seconds: float) -> bool:
        """Say whether this process is to deliver now, so that no two send the same reports; for so long at most."""
        with self._opened() as db:
            now = time.time()
            ended = "until < ? OR until > ? OR who = ?"  # too far off: a clock that was set back
            db.execute(f"DELETE FROM delivery WHERE {ended}", (now, now + LONGEST_TURN_S, who))  # noqa: S608
            row = (who, now + min(seconds, LONGEST_TURN_S))
            return db.execute("INSERT OR IGNORE INTO delivery VALUES (1, ?, ?)", row).rowcount == 1

    def end_delivery(self, who: str) -> None:
        """Let another process deliver."""
        with self._opened() as db:
            db.execute("DELETE FROM delivery WHERE who = ?", (who,))

    def about(self) -> tuple[str, str, str]:
        """Return url, dataset and run of the reports in the file."""
        with self._opened() as db:
            url, dataset, run = db.execute("SELECT url, dataset, run FROM about").fetchone()
            return url, dataset, run

    def _rows(self, db: sqlite3.Connection, condition: str, *values: object) -> list[SpooledWrite]:
        columns = "position, path, headers, body, closes, added_at, refused"
        rows = db.execute(f"SELECT {columns} FROM reports WHERE {condition}", values)  # noqa: S608 - our own words
        return [SpooledWrite(row[0], row[1], json.loads(row[2]), row[3], bool(row[4]), row[5], row[6]) for row in rows]

    def _make_room(self, db: sqlite3.Connection) -> int:
        """Drop the oldest reports beyond the limit; the newest say most about the model as it is."""
        query = "SELECT position, length(body) FROM reports WHERE path NOT LIKE ? ORDER BY position DESC"
        rows = db.execute(query, (f"%{REWIND}",)).fetchall()  # without its rewind, what waits would be of another past
        total, dropped = 0, []
        for position, size in rows:
            total += size
            if total > self._limit_bytes and position != rows[0][0]:
                dropped.append((position,))
        db.executemany("DELETE FROM reports WHERE position = ?", dropped)
        return len(dropped)

    @contextmanager
    def _opened(self, wait_s: float = BRIEFLY_S) -> Iterator[sqlite3.Connection]:
        """Give the file for one transaction, which is on disk when it ends. A damaged file is put aside."""
        with self._turn:
            try:
                db = self._begun(wait_s)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):  # held, full or forbidden: the file itself is sound
                    raise
                self._put_aside(error)
                db = self._begun(wait_s)
            try:
                yield db
                db.execute("COMMIT")
            except sqlite3.DatabaseError as error:
                if type(error) is sqlite3.DatabaseError:  # damage in the middle; the others are of its subclasses
                    self._put_aside(error)
                raise
            finally:
                db.close()  # rolls back what is not committed

    def _put_aside(self, error: Exception) -> None:
        aside = self.file.rename(f"{self.file}.damaged-{time.time_ns()}")
        logger.error("%s is damaged (%s) and was put aside; a new one is begun", aside, error)

    def _begun(self, wait_s: float) -> sqlite3.Connection:
        """Open the file, made if it is missing, and begin a transaction."""
        db = sqlite3.connect(self.file, timeout=wait_s, isolation_level=None)
        try:
            db.execute("PRAGMA synchronous = EXTRA")  # the folder's entry too
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
    """Add a write; return its position."""
    row = (path, json.dumps(dict(headers)), body, closes, time.time())
    columns = "path, headers, body, closes, added_at"
    return int(db.execute(f"INSERT INTO reports ({columns}) VALUES (?, ?, ?, ?, ?)", row).lastrowid or 0)  # noqa: S608


def spool_of(folder: Path, *, url: str, dataset: str, run: str, limit_bytes: int) -> Spool:
    """Return the spool of a run: a file whose name tells people which, and machines exactly which."""
    exact = hashlib.sha256(json.dumps([url, dataset, run]).encode()).hexdigest()[:16]
    readable = re.sub(r"[^A-Za-z0-9._-]+", "_", f"{dataset}.{run}")[:LONGEST_NAME]
    return Spool(folder / f"{readable}-{exact}.db", url=url, dataset=dataset, run=run, limit_bytes=limit_bytes)


def spool_folder(given: str | os.PathLike[str] | None) -> Path:
    """Return the folder for spools, made if it is missing: the argument, else BOTS_SPOOL, else one of the user's.

    Raises:
        ValueError: nothing can be written into the one that was asked for.
    """
    asked_for = given or os.environ.get("BOTS_SPOOL")
    if asked_for:
        folder = Path(asked_for).expanduser()
        try:
            _make_writable(folder)
        except OSError as error:
            raise ValueError(
                f"reports cannot be kept in {folder}: {error}; pass another spool= or BOTS_SPOOL"
            ) from error
        return folder
    state = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state")
    for candidate in (state / "bots", Path(tempfile.gettempdir()) / f"bots-{os.getuid()}"):
        try:
            folder = candidate.expanduser()
            _make_writable(folder)
        except (OSError, RuntimeError):  # RuntimeError: the user has no home
            continue
        return folder
    raise ValueError("no folder for reports can be written to; pass spool= or set BOTS_SPOOL")


def _make_writable(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid() and folder.parent == Path(tempfile.gettempdir()):
        raise PermissionError(f"{folder} is another user's")
    with tempfile.TemporaryFile(dir=folder):
        pass
