"""Getting what a run is told to the service: at once, or by way of the disk while it is away."""

import hashlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

from bots_client._call import Call
from bots_client._decode import into
from bots_client._errors import (
    BUSY,
    BotsClientError,
    ConflictError,
    FieldError,
    InvalidRequestError,
    NotFoundError,
    RequestError,
)
from bots_client._models import Receipt, Run
from bots_client._resilience.connection import Connection
from bots_client._resilience.spool import Spool, SpooledWrite
from bots_client._retry import Deadline

KEY = "Idempotency-Key"
GRACE_S = 1.0  # by which a delivery may be late before another process takes it over
ALONE_S = 10.0  # for which other processes wait at most while a checkpoint is made or gone back to
OUTCOMES = ("body", "outcomes")  # where a flaw of an outcome lies, before its index
LOOK_AGAIN_S = 0.02
LEAST_SHARE = 0.1  # of a delivery's time, without which no further report is begun
REFUSALS = (InvalidRequestError, ConflictError)  # of the content: it will never be taken
DISK_FAILURES = (sqlite3.Error, OSError, ValueError)  # ValueError: what was read there makes no sense
_RECEIPT, _RUN = into(Receipt), into(Run)


class Delivery:
    """The way of one run's writes, in the order in which this process handed them in.

    Args:
        connection: to the service.
        spool: where writes wait for it.

    last_step: where the run stood when the service last told this process.
    """

    def __init__(self, connection: Connection, spool: Spool) -> None:
        self.spool = spool
        self.last_step: int | None = None
        self._connection = connection
        self._who = f"{os.getpid()}-{uuid4().hex}"
        self._one_at_a_time = threading.Lock()

    def deliver(self, call: Call[Receipt], *, closes: bool, deadline: Deadline) -> Receipt | None:
        """Send a report, after those that wait; keep it where that fails.

        Args:
            call: with a key and a JSON body.
            closes: whether it closes a training step.
            deadline: for all of it.

        Returns:
            None if it is kept, or will never be taken.
        """
        if self.waiting() == 0 and (receipt := self._sent(call, deadline)) is not None:
            return receipt
        try:
            position = self._keep(call, closes=closes)
        except DISK_FAILURES as error:
            receipt = self._sent(call, deadline)  # better out of order than not at all
            if receipt is None:
                self._connection.tally.add(lost=1)
                self._connection.complain(f"a report is lost, as it cannot be kept in {self.spool.file}: {error}")
            return receipt
        return self.deliver_kept(deadline).get(position)

    def deliver_kept(self, deadline: Deadline) -> dict[int | None, Receipt]:
        """Send what waits, oldest first, unless another thread or process is at it, or the service is away.

        Returns:
            Receipts by position.
        """
        answers: dict[int | None, Receipt] = {}
        if self._connection.is_there():
            self._deliver(deadline, answers)
        return answers

    def catch_up(self, seconds: float) -> bool:
        """Send all that waits to a service that was just found, as long as that gets on; says whether it stays there.

        Args:
            seconds: for a part of it.
        """
        while waiting := self.waiting():
            if not self._deliver(Deadline(seconds, time.monotonic), {}):
                return False
            if self.waiting() >= waiting:  # another process is at it, it is not taken for now, or as much comes in
                break
        return True

    def _deliver(self, deadline: Deadline, answers: dict[int | None, Receipt]) -> bool:
        """Send what waits, unless another thread or process is at it; says whether the service was there."""
        if not self._one_at_a_time.acquire(blocking=False):
            return True
        try:
            if self.spool.begin_delivery(self._who, deadline.left_s() + GRACE_S):
                try:
                    return self._send_kept(deadline, answers)
                finally:
                    self.spool.end_delivery(self._who)
                    self.waiting()
        except DISK_FAILURES as error:
            self.complain_of_disk(error)
        finally:
            self._one_at_a_time.release()
        return True

    @contextmanager
    def alone(self, deadline: Deadline) -> Iterator[None]:
        """Let nobody deliver meanwhile, so that what waits stays as it is; past the deadline, come what may."""
        is_mine = self._one_at_a_time.acquire(timeout=max(deadline.left_s(), 0.0))
        try:
            while is_mine and not self._begins_alone() and deadline.left_s() > 0:
                time.sleep(LOOK_AGAIN_S)
            yield
        finally:
            if is_mine:
                self._ends_alone()
                self._one_at_a_time.release()

    def flush(self, deadline: Deadline) -> int:
        """Send what waits, whoever kept it, until the deadline; returns how many still wait."""
        while (waiting := self.waiting()) and deadline.left_s() > 0:
            self.deliver_kept(deadline)
            if self.waiting() == waiting:
                time.sleep(LOOK_AGAIN_S)
        return waiting

    def waiting(self) -> int:
        """Count the writes that wait."""
        try:
            waiting = self.spool.waiting()
        except DISK_FAILURES as error:
            self.complain_of_disk(error)
            return 0
        self._connection.tally.put_kept(str(self.spool.file), waiting)
        return waiting

    def _sent(self, call: Call[Receipt], deadline: Deadline) -> Receipt | None:
        """Send a report now, if that is worth it; None if it did not get there."""
        if not self._connection.is_there():
            return None
        try:
            receipt = self._connection.ask(call, deadline.left_s())
        except BotsClientError as error:
            self._connection.complain(error)
            return None
        self.last_step = receipt.step
        return receipt

    def _send_kept(self, deadline: Deadline, answers: dict[int | None, Receipt]) -> bool:
        """Send what waits until the deadline; says whether the service was there."""
        # A report begun with no time left would be given up, and taken for the service's failure.
        while deadline.left_s() > deadline.seconds * LEAST_SHARE and (kept := self.spool.first()) is not None:
            try:
                answer = self._connection.ask(_call_of(kept), deadline.left_s())
            except RequestError as error:
                self._connection.complain(error)
                if not _is_final(error, kept):
                    return True
                self._refuse(kept, error)
            except BotsClientError:
                return False
            else:
                self.last_step = answer.step
                if isinstance(answer, Receipt):
                    answers[kept.position] = answer
                self.spool.remove(kept.position)
                self._connection.tally.add(replayed=1)
        return True

    def _begins_alone(self) -> bool:
        """Say whether no other process delivers for now."""
        try:
            return not self.spool.file.exists() or self.spool.begin_delivery(self._who, ALONE_S)
        except DISK_FAILURES as error:
            self.complain_of_disk(error)
            return True

    def _ends_alone(self) -> None:
        try:
            if self.spool.file.exists():
                self.spool.end_delivery(self._who)
        except DISK_FAILURES as error:
            self.complain_of_disk(error)

    def _keep(self, call: Call[Receipt], *, closes: bool) -> int:
        """Put a write on disk; returns its position."""
        try:
            position, dropped = self.spool.add(call, closes=closes)
        except sqlite3.DatabaseError as error:
            if type(error) is not sqlite3.DatabaseError:
                raise
            position, dropped = self.spool.add(call, closes=closes)  # the damaged file was put aside
        self.waiting()
        if dropped:
            self._connection.tally.add(lost=dropped)
            self._connection.complain(f"reports are lost: {self.spool.file} has reached its limit; see spool_bytes=")
        return position

    def _refuse(self, kept: SpooledWrite, error: RequestError) -> None:
        """Put aside what will never be taken, for a person to look at: a report's flawed outcomes, else all of it."""
        self._connection.tally.add(refused=1)
        parts = split_report(kept.body, error.errors)
        if parts is None:
            self.spool.refuse(kept.position, str(error))
        else:
            sound, flawed = parts
            # Another body wants another key, and the same one from whoever else delivers this report just now.
            headers = {**kept.headers, KEY: hashlib.sha256(kept.headers[KEY].encode() + sound).hexdigest()}
            self.spool.split(kept, replace(kept, headers=headers, body=sound), flawed, str(error))

    def complain_of_disk(self, error: Exception) -> None:
        """Log that what waits cannot be read or changed."""
        self._connection.complain(f"the reports kept in {self.spool.file} cannot be read: {error}")


def _is_final(error: RequestError, kept: SpooledWrite) -> bool:
    """Say whether the same write would be refused for ever.

    A key that is not known yet, or a dataset that is restored next, can be mended while reports wait. A rewind to a
    step that is not there cannot.
    """
    if isinstance(error, NotFoundError):
        return kept.is_rewind
    return isinstance(error, REFUSALS) and error.type != BUSY


def _call_of(kept: SpooledWrite) -> Call[Receipt | Run]:
    """Return the call. Its answer must be understood: a proxy's page with status 200 says nothing of what was kept."""
    return Call("POST", kept.path, _RUN if kept.is_rewind else _RECEIPT, body=kept.body, headers=kept.headers)


def split_report(body: bytes, flaws: Sequence[FieldError]) -> tuple[bytes, bytes] | None:
    """Return a report without the outcomes that have flaws, and one with only these.

    Args:
        body: of the report, as it was sent.
        flaws: what the service said.

    Returns:
        None if a flaw lies elsewhere, or no outcome would be left.
    """
    flawed = {flaw.loc[2] for flaw in flaws if len(flaw.loc) > 2 and flaw.loc[:2] == OUTCOMES}
    report = json.loads(body)
    outcomes = report.get("outcomes", [])
    sound = [outcome for index, outcome in enumerate(outcomes) if index not in flawed]
    refused = [outcome for index, outcome in enumerate(outcomes) if index in flawed]
    if not refused or any(flaw.loc[:2] != OUTCOMES for flaw in flaws) or not sound:
        return None
    return _bytes({**report, "outcomes": sound}), _bytes({**report, "outcomes": refused})


def _bytes(report: dict[str, Any]) -> bytes:
    return json.dumps(report, separators=(",", ":")).encode()
