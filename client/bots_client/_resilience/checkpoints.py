"""The run's position in a trainer's checkpoint: saved with it, restored with it."""

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

    A report that waited on disk when the checkpoint was saved belongs to the checkpoint. If it has been delivered
    since, the run is rewound to the step that it closed, not to the step before.

    Args:
        connection: to the service.
        delivery: of the run's reports.
        dataset: name of the dataset.
        run: name of the run.
    """

    def __init__(self, connection: Connection, delivery: Delivery, dataset: str, run: str) -> None:
        self._connection = connection
        self._delivery = delivery
        self._dataset = dataset
        self._run = run

    def save(self, deadline: Deadline) -> dict[str, Any]:
        """Send the waiting reports, then return the run's position as JSON values.

        Args:
            deadline: for all requests together.
        """
        self._delivery.deliver_kept(deadline)
        with self._delivery.exclusive(_half_of(deadline)):
            kept_until = self._from_spool(self._delivery.spool.last_position)
            run = self._described(deadline)
            step = self._delivery.last_step if run is None else run.step
            closing = self._still_closing(kept_until)
        seq = None if run is None else run.seq
        return {"step": step, "seq": seq, "kept_until": kept_until, "kept_closing": closing}

    def load(self, saved: Mapping[str, Any], deadline: Deadline) -> None:
        """Rewind the run to a saved position; if the service is away, as soon as it is back.

        Args:
            saved: the result of `save`.
            deadline: for all requests together.
        """
        if saved["step"] is None:
            self._connection.log("the checkpoint has no position of the run: the run is not rewound")
            return
        if (run := self._described(deadline)) is not None and run.seq < (saved["seq"] or 0):
            self._connection.log(
                f"run {self._run!r} of {self._dataset!r} is not the run of the checkpoint: its journal has {run.seq}"
                f" entries, and had {saved['seq']} when the checkpoint was saved. Was the run deleted and created"
                f" again, or its database restored? The run is not rewound"
            )
            return
        with self._delivery.exclusive(_half_of(deadline)):
            delivered = saved["kept_closing"] - self._still_closing(saved["kept_until"])
            rewind = self._rewind(saved["step"] + delivered, saved["step"], deadline)
            try:
                self._delivery.spool.rewind(saved["kept_until"], _new_keys(), first=rewind)
            except DISK_FAILURES as error:
                self._delivery.log_disk_error(error)

    def _described(self, deadline: Deadline) -> Run | None:
        """Return the run; None if the service is away or fails."""
        if self._connection.is_available():
            try:
                return self._connection.ask(run_calls.run(self._dataset, self._run), deadline.left_s())
            except BotsClientError as error:
                self._connection.log(error)
        return None

    def _still_closing(self, kept_until: int) -> int:
        """Return how many waiting reports up to a position will close a step."""
        return self._from_spool(lambda: self._delivery.spool.waiting(until=kept_until, closing=True))

    def _from_spool(self, count: Callable[[], int]) -> int:
        """Return a number from the spool; 0 if it can't be read."""
        try:
            return count()
        except DISK_FAILURES as error:
            self._delivery.log_disk_error(error)
            return 0

    def _rewind(self, step: int, no_later: int, deadline: Deadline) -> Call[Run] | None:
        """Rewind to a step, or to `no_later` if the step is unknown; return the call if it still has to be sent."""
        call = run_calls.rewind(self._dataset, step, self._run)
        self._delivery.last_step = step
        if not self._connection.is_available():
            return call
        try:
            self._connection.ask(call, deadline.left_s())
        except NotFoundError as error:
            if no_later < step:
                return self._rewind(no_later, no_later, deadline)
            self._connection.log(error)
        except RequestError as error:
            self._connection.log(error)
        except BotsClientError:
            return call
        return None


def _half_of(deadline: Deadline) -> Deadline:
    return Deadline(deadline.left_s() / 2, time.monotonic)


def _new_keys() -> Iterator[str]:
    while True:
        yield uuid4().hex
