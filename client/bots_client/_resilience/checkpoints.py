"""Where a run stands when the trainer saves a checkpoint, and going back there."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import uuid4

from bots_client._call import Call
from bots_client._calls import run_calls
from bots_client._errors import BotsClientError, NotFoundError, RequestError
from bots_client._models import Run
from bots_client._resilience.connection import Connection
from bots_client._resilience.delivery import DISK_FAILURES, Delivery
from bots_client._retry import Deadline


class Checkpoints:
    """Checkpoints of one run.

    A report that waited on disk when a checkpoint was made belongs to it. When the trainer comes back, the report may
    have been delivered meanwhile: then the run is taken back to the step that it closed, not to the one before it.

    Args:
        connection: to the service.
        delivery: of the run's reports.
        dataset: the pool.
        run: of it.
    """

    def __init__(self, connection: Connection, delivery: Delivery, dataset: str, run: str) -> None:
        self._connection = connection
        self._delivery = delivery
        self._dataset = dataset
        self._run = run

    def save(self, deadline: Deadline) -> dict[str, Any]:
        """Return where the run stands, as JSON values; what waits is sent first.

        Args:
            deadline: for all of it.
        """
        self._delivery.deliver_kept(deadline)
        with self._delivery.alone(_half_of(deadline)):
            kept_until = self._of_disk(self._delivery.spool.last_position)
            run = self._described(deadline)
            step = self._delivery.last_step if run is None else run.step
            closing = self._still_closing(kept_until)
        seq = None if run is None else run.seq
        return {"step": step, "seq": seq, "kept_until": kept_until, "kept_closing": closing}

    def load(self, saved: Mapping[str, Any], deadline: Deadline) -> None:
        """Take the run back to where it stood; if the service is away, once it is back.

        Args:
            saved: what `save` returned.
            deadline: for all of it.
        """
        if saved["step"] is None:
            self._connection.complain("the checkpoint does not say where the run stood: the run goes on as it is")
            return
        if (run := self._described(deadline)) is not None and run.seq < (saved["seq"] or 0):
            self._connection.complain(
                f"run {self._run!r} of {self._dataset!r} is not the one of the checkpoint: its journal has {run.seq}"
                f" entries, and had {saved['seq']} when the checkpoint was saved. Was it made anew, or its database"
                f" restored? It goes on as it is"
            )
            return
        with self._delivery.alone(_half_of(deadline)):
            delivered = saved["kept_closing"] - self._still_closing(saved["kept_until"])
            rewind = self._rewind(saved["step"] + delivered, saved["step"], deadline)
            try:
                self._delivery.spool.rewind(saved["kept_until"], _new_keys(), first=rewind)
            except DISK_FAILURES as error:
                self._delivery.complain_of_disk(error)

    def _described(self, deadline: Deadline) -> Run | None:
        """Return where the run stands; None if the service cannot tell."""
        if self._connection.is_there():
            try:
                return self._connection.ask(run_calls.run(self._dataset, self._run), deadline.left_s())
            except BotsClientError as error:
                self._connection.complain(error)
        return None

    def _still_closing(self, kept_until: int) -> int:
        """Count the reports up to a position that wait and will close a step."""
        return self._of_disk(lambda: self._delivery.spool.waiting(until=kept_until, closing=True))

    def _of_disk(self, count: Callable[[], int]) -> int:
        """Return what the spool tells, 0 if it cannot be read."""
        try:
            return count()
        except DISK_FAILURES as error:
            self._delivery.complain_of_disk(error)
            return 0

    def _rewind(self, step: int, no_later: int, deadline: Deadline) -> Call[Run] | None:
        """Take the run back to a step, or to the earlier one if it never got there; returns what is left to send."""
        call = run_calls.rewind(self._dataset, step, self._run)
        self._delivery.last_step = step
        if not self._connection.is_there():
            return call
        try:
            self._connection.ask(call, deadline.left_s())
        except NotFoundError as error:
            if no_later < step:
                return self._rewind(no_later, no_later, deadline)
            self._connection.complain(error)
        except RequestError as error:
            self._connection.complain(error)
        except BotsClientError:
            return call
        return None


def _half_of(deadline: Deadline) -> Deadline:
    return Deadline(deadline.left_s() / 2, time.monotonic)


def _new_keys() -> Iterator[str]:
    while True:
        yield uuid4().hex
