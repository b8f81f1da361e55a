"""What a process has of its own: its sockets, locks and counts are not carried over a fork."""

import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from bots_client._arguments import checked_str
from bots_client._call import Call
from bots_client._calls import run_calls
from bots_client._client import Client
from bots_client._errors import BotsClientError
from bots_client._models import Lease, Receipt, SelectedTask, Selection
from bots_client._resilience.breaker import Breaker
from bots_client._resilience.checkpoints import Checkpoints
from bots_client._resilience.connection import Connection
from bots_client._resilience.delivery import Delivery
from bots_client._resilience.health import Health, Tally
from bots_client._resilience.registration import MOST_EXCLUDED, register
from bots_client._resilience.spool import spool_of
from bots_client._resilience.uniform import LocalPool
from bots_client._resilience.watch import Watch
from bots_client._retry import Deadline

MOST_LEASES = 1000  # of a run, and tasks of each, that are asked for; what the service tells at most
DELIVERY_SHARE = 0.5  # of a selection's deadline may go to reports that wait

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """What a resilient client was asked to do; it can be pickled.

    The fields are the arguments of `ResilientClient`; look_deadline_s: for each look whether the service is back.
    """

    url: str | None
    api_key: str | None
    headers: Mapping[str, str] | None
    on_change: Callable[[Health], object] | None
    spool_bytes: int
    seed: int | None
    look_deadline_s: float


class ProcessState:
    """A process's connection, and what it knows of each run."""

    def __init__(self, options: ClientOptions, folder: Path) -> None:
        self.process = os.getpid()
        self.tally = Tally()
        client = Client(options.url, api_key=options.api_key, headers=options.headers)
        breaker = Breaker()
        self._watch = Watch(self._look, breaker.next_pause_s)
        self.connection = Connection(client, breaker, self._watch, self.tally, options.on_change)
        self._options = options
        self._folder = folder
        self._seed = secrets.token_hex() if options.seed is None else f"{options.seed}/{_place()}"
        self._lock = threading.Lock()
        self._runs: dict[tuple[str, str], LocalRun] = {}

    def run(self, dataset: str, run: str) -> "LocalRun":
        """Return what is known of a run."""
        checked_str(dataset, "dataset")
        checked_str(run, "run")
        with self._lock:
            known = self._runs.get((dataset, run))
            if known is None:
                limit_bytes = self._options.spool_bytes
                url = self.connection.client.url
                spool = spool_of(self._folder, url=url, dataset=dataset, run=run, limit_bytes=limit_bytes)
                known = LocalRun(self.connection, Delivery(self.connection, spool), dataset, run, self._seed)
                self._runs[dataset, run] = known
            return known

    def flush(self, deadline: Deadline) -> int:
        """Send what waits for any run of this process; returns how many reports still wait."""
        with self._lock:
            runs = list(self._runs.values())
        self._watch.look_now()
        waiting = 0
        for done, run in enumerate(runs):  # a share of the time for each: one that is refused must not use up all of it
            waiting += run.delivery.flush(Deadline(deadline.left_s() / (len(runs) - done), time.monotonic))
        return waiting

    def close(self, deadline: Deadline) -> None:
        """Send what waits, and close the connections."""
        self.flush(deadline)
        self._watch.close(deadline.left_s())
        self.connection.client.close()

    def _look(self) -> bool:
        """Say whether the service is back. What waits goes to it first, so that training need not send that."""
        with self._lock:
            runs = list(self._runs.values())
        seconds = self._options.look_deadline_s
        if not self.connection.reaches(*runs[-1].name, seconds):
            return False
        if not all(run.delivery.catch_up(seconds) for run in runs):
            return False
        self.connection.found()
        return True


class LocalRun:
    """One run, as this process sees it."""

    def __init__(self, connection: Connection, delivery: Delivery, dataset: str, run: str, seed: str) -> None:
        self.delivery = delivery
        self._connection = connection
        self.name = (dataset, run)
        self._seed = f"{seed}/{dataset}/{run}"
        self._checkpoints = Checkpoints(connection, delivery, dataset, run)
        self._lock = threading.Lock()
        self._pool: LocalPool | None = None
        self._strange: dict[str, None] = {}

    def excluded(self, unwanted: Sequence[str]) -> tuple[str, ...]:
        """Return which tasks the service is not to select: the unwanted, and those that it selected in vain before."""
        with self._lock:
            return (*unwanted, *self._strange)[:MOST_EXCLUDED]

    def select(self, call: Call[Selection], ids: Sequence[str], deadline: Deadline) -> Selection | None:
        """Return what the service selects, None if it is not to be asked now. What waits goes first.

        Raises:
            BotsClientError: it selects nothing.
        """
        if self.delivery.waiting():
            self.delivery.deliver_kept(Deadline(deadline.left_s() * DELIVERY_SHARE, time.monotonic))
            if self.delivery.waiting():
                return None
        if not self._connection.is_there():
            return None
        return self._only_known(self._connection.ask(call, deadline.left_s()), ids)

    def choose(self, count: int, ids: Sequence[str], exclude: Sequence[str], first: Sequence[str]) -> Selection:
        """Return a uniform choice, after those that are wanted first."""
        self._connection.tally.add(local_selects=1)
        unwanted = set(exclude)
        ahead = [task for task in dict.fromkeys(first) if task not in unwanted][:count]
        chosen = [*ahead, *self._chosen(count - len(ahead), ids, (*exclude, *ahead))]
        tasks = tuple(SelectedTask(id=task) for task in chosen)
        return Selection(selection_id="", dataset=self.name[0], run=self.name[1], tasks=tasks, degraded=True)

    def report(self, call: Call[Receipt], *, closes: bool, deadline: Deadline) -> Receipt | None:
        """Deliver a report; None if it waits, or will never be taken."""
        return self.delivery.deliver(call, closes=closes, deadline=deadline)

    def register(self, ids: Sequence[str]) -> list[str]:
        """Make the dataset hold these tasks; return the others that it has."""
        if not self._connection.is_there():
            return []
        return register(self._connection, *self.name, ids)

    def told(self, call: Call[T], seconds: float) -> T | None:
        """Return what the service answers; None if it is away.

        Raises:
            BotsClientError: it goes away now, or refuses.
        """
        return self._connection.ask(call, seconds) if self._connection.is_there() else None

    def in_flight(self, seconds: float) -> list[Lease]:
        """Return what the service has in flight, selected last first; nothing if it cannot tell."""
        if not self._connection.is_there():
            return []
        try:
            leases = self._connection.ask(run_calls.leases(*self.name, limit=MOST_LEASES, ids=MOST_LEASES), seconds)
        except BotsClientError as error:
            self._connection.complain(error)
            return []
        return list(reversed(leases.leases))

    def uniform_effective_task_ratio(self, seconds: float) -> float | None:
        """Return what uniform choice could expect by the newest outlook; None if the service cannot tell at once."""
        if not self._connection.is_there():
            return None
        call = replace(run_calls.outlooks(*self.name, points=1), retried=False)
        try:
            outlooks = self._connection.ask(call, seconds).outlooks
        except BotsClientError as error:
            self._connection.complain(error)
            return None
        return outlooks[-1].uniform_effective_task_ratio if outlooks else None

    def save(self, deadline: Deadline) -> dict[str, Any]:
        """Return where the run stands, as JSON values."""
        return self._checkpoints.save(deadline)

    def load(self, saved: Mapping[str, Any], deadline: Deadline) -> None:
        """Take the run back to where it stood."""
        self._checkpoints.load(saved, deadline)

    def _only_known(self, selection: Selection, ids: Sequence[str]) -> Selection:
        """Return the selection with tasks that the trainer does not have replaced by some that it has."""
        with self._lock:
            unknown = self._local(ids).unknown(selection.ids)
            is_new = not self._strange
            self._strange.update(dict.fromkeys(unknown))
        if not unknown:
            return selection
        if is_new:
            self._connection.complain(
                f"{len(unknown)} of {len(selection.tasks)} selected tasks, such as {unknown[0]!r}, are not among the"
                f" trainer's own ids; they are replaced, and such tasks not asked for again. Selector.register() at"
                f" the start keeps all of them from being selected"
            )
        self._connection.tally.add(replaced=len(unknown))
        known = [task for task in selection.tasks if task.id not in set(unknown)]
        others = self._chosen(len(unknown), ids, selection.ids)
        return replace(selection, tasks=(*known, *(SelectedTask(id=task) for task in others)))

    def _chosen(self, count: int, ids: Sequence[str], exclude: Sequence[str]) -> list[str]:
        with self._lock:
            return self._local(ids).choose(count, exclude)

    def _local(self, ids: Sequence[str]) -> LocalPool:
        own = tuple(ids)  # a list may be made anew for each call, or be changed between two
        if self._pool is None or (self._pool.ids is not own and self._pool.ids != own):
            self._pool = LocalPool(own, self._seed)
        return self._pool


def _place() -> str:
    """Return which process of its job this is, and which start of it, as torchrun tells them."""
    return "/".join(os.environ.get(name, "0") for name in ("RANK", "TORCHELASTIC_RESTART_COUNT"))
