"""Delivery of a run's reports and rewinds to the service: at once, or through the spool on disk while it is away."""

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
from bots_client._resilience.mistakes import OUTCOMES, Mistakes
from bots_client._resilience.spool import Spool, SpooledWrite
from bots_client._retry import Deadline

KEY = "Idempotency-Key"
GRACE_S = 1.0  # how late a delivery may be before another process takes it over
EXCLUSIVE_S = 10.0  # longest wait of other processes while a checkpoint is saved or loaded
POLL_S = 0.02
MIN_SHARE = 0.1  # of a delivery's deadline: with less time left, no further report is sent
REFUSALS = (InvalidRequestError, ConflictError)  # the content is wrong: sending it again can't succeed
DISK_FAILURES = (sqlite3.Error, OSError)
_RECEIPT, _RUN = into(Receipt), into(Run)


class Delivery:
    """Delivers one run's writes in the order in which this process submitted them.

    Args:
        connection: to the service.
        spool: holds the writes that wait for the service.
        mistakes: of this process about the run.

    last_step: the run's step in the last answer that this process received.
    """

    def __init__(self, connection: Connection, spool: Spool, mistakes: Mistakes) -> None:
        self.spool = spool
        self.last_step: int | None = None
        self._connection = connection
        self._mistakes = mistakes
        self._own: set[int] = set()  # positions; the spool also holds what other processes and earlier jobs reported
        self._who = f"{os.getpid()}-{uuid4().hex}"
        self._one_at_a_time = threading.Lock()

    def deliver(self, call: Call[Receipt], *, closes: bool, deadline: Deadline) -> Receipt | None:
        """Send a report after those that wait; if that fails, put it into the spool.

        Args:
            call: the report, with an Idempotency-Key and a JSON body.
            closes: whether it closes a training step.
            deadline: for sending all of them.

        Returns:
            None if the report waits in the spool, or the service refused it for good.
        """
        if self.waiting() == 0 and (receipt := self._sent(call, deadline)) is not None:
            return receipt
        try:
            position = self._keep(call, closes=closes)
        except DISK_FAILURES as error:
            receipt = self._sent(call, deadline)  # better out of order than not at all
            if receipt is None:
                self._connection.lose(1, f"a report is lost: it can't be written to {self.spool.file}: {error}")
            return receipt
        return self.deliver_kept(deadline).get(position)

    def deliver_kept(self, deadline: Deadline) -> dict[int | None, Receipt]:
        """Send the waiting writes, oldest first, unless the service is away or someone else is sending them.

        Returns:
            Receipts by position in the spool.
        """
        answers: dict[int | None, Receipt] = {}
        if self._connection.is_available():
            self._deliver(deadline, answers)
        return answers

    def catch_up(self, seconds: float) -> bool:
        """Send all waiting writes to a service that is just back; return whether it is still there afterwards.

        Args:
            seconds: deadline of each pass over the spool; passes repeat while the spool shrinks.
        """
        while waiting := self.waiting():
            if not self._deliver(Deadline(seconds, time.monotonic), {}):
                return False
            if self.waiting() >= waiting:  # someone else sends, the service refuses for now, or new reports arrive
                break
        return True

    def _deliver(self, deadline: Deadline, answers: dict[int | None, Receipt]) -> bool:
        """Send the waiting writes, unless someone else is sending; return False if the service is away."""
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
            self.log_disk_error(error)
        finally:
            self._one_at_a_time.release()
        return True

    @contextmanager
    def exclusive(self, deadline: Deadline) -> Iterator[None]:
        """Keep others from delivering, so that the spool does not change; enter anyway when the deadline has passed."""
        is_mine = self._one_at_a_time.acquire(timeout=max(deadline.left_s(), 0.0))
        try:
            while is_mine and not self._begin_exclusive() and deadline.left_s() > 0:
                time.sleep(POLL_S)
            yield
        finally:
            if is_mine:
                self._end_exclusive()
                self._one_at_a_time.release()

    def flush(self, deadline: Deadline) -> int:
        """Send all waiting writes, also those of other processes, until the deadline; return how many still wait."""
        while (waiting := self.waiting()) and deadline.left_s() > 0:
            self.deliver_kept(deadline)
            if self.waiting() == waiting:
                time.sleep(POLL_S)
        return waiting

    def waiting(self) -> int:
        """Return the number of waiting writes, and publish it as `Health.kept`."""
        try:
            waiting = self.spool.waiting()
        except DISK_FAILURES as error:
            self.log_disk_error(error)
            return 0
        self._connection.counters.set_kept(str(self.spool.file), waiting)
        return waiting

    def _sent(self, call: Call[Receipt], deadline: Deadline) -> Receipt | None:
        """Send a report now; return None if the service is away or the call fails."""
        if not self._connection.is_available():
            return None
        try:
            receipt = self._mistakes.ask(call, deadline.left_s())
        except BotsClientError as error:
            self._connection.log(error)
            return None
        self.last_step = receipt.step
        return receipt

    def _send_kept(self, deadline: Deadline, answers: dict[int | None, Receipt]) -> bool:
        """Send the waiting writes until the deadline; return False if the service is away."""
        # A report sent with no time left would time out, and count as a failure of the service.
        while deadline.left_s() > deadline.seconds * MIN_SHARE and (kept := self.spool.first()) is not None:
            try:
                answer = self._ask(kept, deadline.left_s())
            except RequestError as error:
                self._connection.log(error)
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
                self._own.discard(kept.position)
                self._connection.counters.add(replayed=1)
        return True

    def _ask(self, kept: SpooledWrite, seconds: float) -> Receipt | Run:
        call = _call_of(kept)
        if kept.is_rewind:
            return self._connection.ask(call, seconds)
        return self._mistakes.ask(call, seconds, is_own=kept.position in self._own)

    def _begin_exclusive(self) -> bool:
        """Return whether other processes are kept from delivering."""
        try:
            return not self.spool.file.exists() or self.spool.begin_delivery(self._who, EXCLUSIVE_S)
        except DISK_FAILURES as error:
            self.log_disk_error(error)
            return True

    def _end_exclusive(self) -> None:
        try:
            if self.spool.file.exists():
                self.spool.end_delivery(self._who)
        except DISK_FAILURES as error:
            self.log_disk_error(error)

    def _keep(self, call: Call[Receipt], *, closes: bool) -> int:
        """Write a call to the spool; return its position."""
        try:
            position, dropped = self.spool.add(call, closes=closes)
        except sqlite3.DatabaseError as error:
            if type(error) is not sqlite3.DatabaseError:
                raise
            position, dropped = self.spool.add(call, closes=closes)  # into a new file: the damaged one was moved
        self._own.add(position)
        self.waiting()
        if dropped:
            self._connection.lose(dropped, f"reports are lost: {self.spool.file} is full; raise spool_bytes=")
        return position

    def _refuse(self, kept: SpooledWrite, error: RequestError) -> None:
        """Set aside what the service refused: the invalid outcomes if it named some, otherwise the whole write."""
        self._connection.counters.add(refused=1)
        parts = split_report(kept.body, error.errors)
        if parts is None:
            self.spool.refuse(kept.position, str(error))
        else:
            sound, flawed = parts
            # Another body needs another key, and every process that delivers this report must compute the same one.
            headers = {**kept.headers, KEY: hashlib.sha256(kept.headers[KEY].encode() + sound).hexdigest()}
            self.spool.split(kept, replace(kept, headers=headers, body=sound), flawed, str(error))

    def log_disk_error(self, error: Exception) -> None:
        """Log that the spool can't be read or changed."""
        self._connection.log(f"can't read the waiting reports in {self.spool.file}: {error}")


def _is_final(error: RequestError, kept: SpooledWrite) -> bool:
    """Return whether sending the same write again can't succeed.

    An unknown key or a missing dataset can be fixed while reports wait. A rewind to an unknown step can't.
    """
    if isinstance(error, NotFoundError):
        return kept.is_rewind
    return isinstance(error, REFUSALS) and error.type != BUSY


def _call_of(kept: SpooledWrite) -> Call[Receipt | Run]:
    """Return a spooled write as a call. Its answer is parsed, because a proxy's page with status 200 proves nothing."""
    return Call("POST", kept.path, _RUN if kept.is_rewind else _RECEIPT, body=kept.body, headers=kept.headers)


def split_report(body: bytes, flaws: Sequence[FieldError]) -> tuple[bytes, bytes] | None:
    """Split a report into one that is valid and one with its invalid outcomes.

    In the first, the tasks of invalid outcomes are aborted, so that their leases end.

    Args:
        body: the report as it was sent.
        flaws: the service's errors.

    Returns:
        None if an error is elsewhere, or no task is left.
    """
    flawed = {flaw.loc[2] for flaw in flaws if len(flaw.loc) > 2 and flaw.loc[:2] == OUTCOMES}
    unknown = {flaw.loc[2] for flaw in flaws if flaw.loc[3:4] == ("task",)}
    report = json.loads(body)
    outcomes = report.get("outcomes", [])
    refused = [outcome for index, outcome in enumerate(outcomes) if index in flawed]
    if not refused or any(flaw.loc[:2] != OUTCOMES for flaw in flaws):
        return None
    given_back = {
        index: {"task": outcome["task"], "status": "aborted"}
        for index, outcome in enumerate(outcomes)
        if index in flawed - unknown and "status" not in outcome
    }
    sound = [
        given_back.get(index, outcome)
        for index, outcome in enumerate(outcomes)
        if index not in flawed or index in given_back
    ]
    if not sound:
        return None
    if report.get("close_step") and all("status" in outcome for outcome in sound):
        report["close_step"] = False  # a step needs evidence
    return _bytes({**report, "outcomes": sound}), _bytes({**report, "outcomes": refused})


def _bytes(report: dict[str, Any]) -> bytes:
    return json.dumps(report, separators=(",", ":")).encode()
