"""Delivery of a run's reports and rewinds: at once, or through the spool on disk while the service is away."""

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from bots_client._client import Client, unsent
from bots_client._errors import (
    BUSY,
    BotsClientError,
    ConflictError,
    FieldError,
    InvalidRequestError,
    NotFoundError,
    RequestError,
)
from bots_client._http import KEY, Call, Deadline, into, nothing
from bots_client._models import Receipt, Run
from bots_client._resilience.connection import OUTCOMES, Connection, Mistakes
from bots_client._resilience.spool import POLL_S, Spool, SpooledWrite

T = TypeVar("T")

MIN_SHARE = 0.1  # of a delivery's deadline: with less time left, no further report is sent
REFUSALS = (InvalidRequestError, ConflictError)  # the content is wrong: sending it again can't succeed
DISK_FAILURES = (sqlite3.Error, OSError)


class Delivery:
    """Delivers one run's writes in the order in which this process submitted them, and saves the run's position."""

    def __init__(
        self, connection: Connection, spool: Spool, mistakes: Mistakes, name: tuple[str, str], *, deadline_s: float
    ) -> None:
        self.spool = spool
        self._connection = connection
        self._mistakes = mistakes
        self._name = name
        self._deadline_s = deadline_s
        self._last_step: int | None = None  # of the run, in the last answer that this process received
        self._own: set[int] = set()  # positions; the spool also holds what other processes and earlier jobs reported

    def deliver(self, call: Call[Receipt], *, closes: bool, deadline: Deadline) -> Receipt | None:
        """Send a report after those that wait; None if it waits in the spool then, or was refused for good."""
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

    def deliver_later(self, call: Call[None], deadline: Deadline) -> None:
        """Send a write that has no answer, after those that wait; where the service is away, it waits, too."""
        self._on_disk(lambda: self._keep(call, closes=False), 0)
        self.deliver_kept(deadline)

    def deliver_kept(self, deadline: Deadline) -> dict[int | None, Receipt]:
        """Send the waiting writes, oldest first, unless the service is away or someone else is sending them.

        Returns receipts by position in the spool.
        """
        answers: dict[int | None, Receipt] = {}
        if self._connection.is_available():
            self._deliver(deadline, answers)
        return answers

    def catch_up(self) -> bool:
        """Send all waiting writes to a service that is just back; return whether it is still there afterwards.

        Passes over the spool repeat while it shrinks; each has a report's deadline.
        """
        while waiting := self.waiting():
            if not self._deliver(Deadline(self._deadline_s), {}):
                return False
            if self.waiting() >= waiting:  # someone else sends, the service refuses for now, or new reports arrive
                break
        return True

    def flush(self, deadline: Deadline) -> int:
        """Send all waiting writes, also those of other processes, until the deadline; return how many still wait."""
        while (waiting := self.waiting()) and deadline.left_s() > 0:
            self.deliver_kept(deadline)
            if self.waiting() == waiting:
                time.sleep(POLL_S)
        return waiting

    def waiting(self) -> int:
        """Return the number of waiting writes, and publish it as `Health.kept`; 0 if the spool can't be read."""
        waiting = self._on_disk(self.spool.waiting, None)
        if waiting is None:
            return 0
        self._connection.counters.set_kept(str(self.spool.file), waiting)
        return waiting

    def save(self) -> dict[str, Any]:
        """Send the waiting writes, then return the run's position as JSON values, for a trainer's checkpoint.

        A report that waits on disk now belongs to the checkpoint. If it is delivered before the checkpoint is loaded,
        the run is rewound to the step that it closed, not to the step before.
        """
        deadline = Deadline(self._deadline_s)
        self.deliver_kept(deadline)
        with self._exclusive(deadline):
            kept_until = self._on_disk(self.spool.last_position, 0)
            run = self._described(deadline)
            step, seq = (self._last_step, None) if run is None else (run.step, run.seq)
            closing = self._still_closing(kept_until)
        return {"step": step, "seq": seq, "kept_until": kept_until, "kept_closing": closing}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Rewind the run to a position that `save` returned; if the service is away, as soon as it is back."""
        if saved["step"] is None:
            self._connection.log("the checkpoint has no position of the run: the run is not rewound")
            return
        deadline = Deadline(self._deadline_s)
        if (run := self._described(deadline)) is not None and run.seq < (saved["seq"] or 0):
            self._connection.log(
                f"run {run.run!r} of {run.dataset!r} is not the run of the checkpoint: its journal has {run.seq}"
                f" entries, and had {saved['seq']} when the checkpoint was saved. Was the run deleted and created"
                f" again, or its database restored? The run is not rewound"
            )
            return
        with self._exclusive(deadline):
            delivered = saved["kept_closing"] - self._still_closing(saved["kept_until"])
            rewind = self._rewind(saved["step"] + delivered, saved["step"], deadline)
            self._on_disk(lambda: self.spool.rewind(saved["kept_until"], rewind), None)

    def _rewind(self, step: int, no_later: int, deadline: Deadline) -> Call[Run] | None:
        """Rewind to a step, or to `no_later` if the step is unknown; return the call if it still has to be sent."""
        dataset, run = self._name
        call = unsent(Client.rewind)(dataset, step, run)
        self._last_step = step
        if not self._connection.is_available():
            return call
        try:
            self._connection.ask(lambda bots: bots.send(call), deadline.left_s())
        except NotFoundError as error:
            if no_later < step:
                return self._rewind(no_later, no_later, deadline)
            self._connection.log(error)
        except RequestError as error:
            self._connection.log(error)
        except BotsClientError:
            return call
        return None

    def _described(self, deadline: Deadline) -> Run | None:
        ask = self._connection.ask
        return self._connection.tried(lambda: ask(lambda bots: bots.run(*self._name), deadline.left_s()))

    def _still_closing(self, kept_until: int) -> int:
        return self._on_disk(lambda: self.spool.waiting(until=kept_until, closing=True), 0)

    @contextmanager
    def _exclusive(self, deadline: Deadline) -> Iterator[None]:
        """Keep others from delivering, so that the spool does not change; enter anyway when half the time is over."""
        alone = self.spool.turn(wait_s=max(deadline.left_s() / 2, 0.0))
        with ExitStack() as stack:
            self._on_disk(lambda: stack.enter_context(alone), otherwise=False)
            yield

    def _deliver(self, deadline: Deadline, answers: dict[int | None, Receipt]) -> bool:
        """Send the waiting writes, unless someone else is sending; return False if the service is away."""

        def in_turn() -> bool:
            with self.spool.turn() as is_mine:
                return not is_mine or self._send_kept(deadline, answers)

        try:
            return self._on_disk(in_turn, otherwise=True)
        finally:
            self.waiting()

    def _send_kept(self, deadline: Deadline, answers: dict[int | None, Receipt]) -> bool:
        """Send the waiting writes until the deadline; return False if the service is away."""
        # A report sent with no time left would time out, and count as a failure of the service.
        while deadline.left_s() > deadline.seconds * MIN_SHARE and (kept := self.spool.first()) is not None:
            try:
                answer = self._answer_to(kept, deadline.left_s())
            except RequestError as error:
                self._connection.log(error)
                if not _is_final(error, kept):
                    return True
                self._refuse(kept, error)
            except BotsClientError:
                return False
            else:
                if isinstance(answer, Receipt):
                    answers[kept.position] = answer
                self.spool.remove(kept.position)
                self._own.discard(kept.position)
                if answer is not None:  # an evaluation is always sent from disk
                    self._last_step = answer.step
                    self._connection.counters.add(replayed=1)
        return True

    def _answer_to(self, kept: SpooledWrite, seconds: float) -> Receipt | Run | None:
        """Send a spooled write. Its answer is parsed, because a proxy's page with status 200 proves nothing."""
        if kept.is_rewind:
            rewind = Call("POST", kept.path, into(Run), body=kept.body, headers=kept.headers)
            return self._connection.ask(lambda bots: bots.send(rewind), seconds)
        kind = kept.path.rpartition("/")[2]  # report or evaluations
        parse: Callable[[bytes], Receipt | None] = into(Receipt) if kind == "report" else nothing
        write = Call("POST", kept.path, parse, body=kept.body, headers=kept.headers)
        return self._mistakes.ask(kind, lambda bots: bots.send(write), seconds, is_own=kept.position in self._own)

    def _sent(self, call: Call[Receipt], deadline: Deadline) -> Receipt | None:
        """Send a report now; return None if the service is away or the call fails."""
        ask = self._mistakes.ask
        receipt = self._connection.tried(lambda: ask("report", lambda bots: bots.send(call), deadline.left_s()))
        if receipt is not None:
            self._last_step = receipt.step
        return receipt

    def _keep(self, call: Call[Any], *, closes: bool) -> int:
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

    def _on_disk(self, act: Callable[[], T], otherwise: T) -> T:
        """Return what an action on the spool returns, or something else if the spool can't be read or changed."""
        try:
            return act()
        except DISK_FAILURES as error:
            self._connection.log(f"can't read or change the waiting reports in {self.spool.file}: {error}")
            return otherwise


def _is_final(error: RequestError, kept: SpooledWrite) -> bool:
    """Return whether sending the same write again can't succeed.

    An unknown key or a missing dataset can be fixed while reports wait. A rewind to an unknown step can't.
    """
    if isinstance(error, NotFoundError):
        return kept.is_rewind
    return isinstance(error, REFUSALS) and error.type != BUSY


def split_report(body: bytes, flaws: Sequence[FieldError]) -> tuple[bytes, bytes] | None:
    """Split a report, by the service's errors, into one that is valid and one with its invalid outcomes.

    In the first, the tasks of invalid outcomes are aborted, so that their leases end. None if an error is elsewhere, or
    no task is left.
    """
    flawed = {flaw.loc[2] for flaw in flaws if len(flaw.loc) > 2 and flaw.loc[:2] == OUTCOMES}
    unknown = {flaw.loc[2] for flaw in flaws if flaw.loc[3:4] == ("task",)}
    report = json.loads(body)
    sound, refused = [], []
    for index, outcome in enumerate(report.get("outcomes", [])):
        if index not in flawed:
            sound.append(outcome)
            continue
        refused.append(outcome)
        if index not in unknown and "status" not in outcome:
            sound.append({"task": outcome["task"], "status": "aborted"})
    if not (sound and refused) or any(flaw.loc[:2] != OUTCOMES for flaw in flaws):
        return None
    if report.get("close_step") and all("status" in outcome for outcome in sound):
        report["close_step"] = False  # a step needs evidence
    return _bytes({**report, "outcomes": sound}), _bytes({**report, "outcomes": refused})


def _bytes(report: dict[str, Any]) -> bytes:
    return json.dumps(report, separators=(",", ":")).encode()
