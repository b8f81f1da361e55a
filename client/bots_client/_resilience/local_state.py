"""State of one process: sockets, locks and counters, which must not be shared with a fork."""

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from bots_client._arguments import checked_str
from bots_client._call import Call
from bots_client._calls import run_calls
from bots_client._client import Client
from bots_client._errors import BotsClientError, InvalidRequestError, RequestError
from bots_client._inputs import Outcome
from bots_client._models import Lease, Receipt, SelectedTask, Selection
from bots_client._resilience.breaker import Breaker
from bots_client._resilience.checkpoints import Checkpoints
from bots_client._resilience.connection import Connection
from bots_client._resilience.delivery import Delivery
from bots_client._resilience.health import Health, HealthCounters
from bots_client._resilience.mistakes import RANGE_FIX, Mistakes, is_about_subset
from bots_client._resilience.recovery_probe import RecoveryProbe
from bots_client._resilience.registration import Registration, register
from bots_client._resilience.spool import spool_of
from bots_client._resilience.uniform import LocalPool
from bots_client._retry import Deadline

MAX_LEASES = 1000  # of a run, and tasks per lease; the service's own maximum
DELIVERY_SHARE = 0.5  # share of a selection's deadline for sending waiting reports first

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Arguments of a `ResilientClient`; can be pickled.

    probe_deadline_s: for each probe whether the service is back.
    raises_mistakes: whether mistakes of the calling program are raised.
    """

    url: str | None
    api_key: str | None
    headers: Mapping[str, str] | None
    on_change: Callable[[Health], object] | None
    spool_bytes: int
    seed: int | None
    probe_deadline_s: float
    raises_mistakes: bool


class ProcessState:
    """A process's connection and its runs."""

    def __init__(self, options: ClientOptions, folder: Path) -> None:
        self.process = os.getpid()
        self.counters = HealthCounters()
        client = Client(options.url, api_key=options.api_key, headers=options.headers)
        breaker = Breaker()
        self._probe = RecoveryProbe(self._probe_once, breaker.next_pause_s)
        self.connection = Connection(client, breaker, self._probe, self.counters, options.on_change)
        self._options = options
        self._folder = folder
        self._seed = secrets.token_hex() if options.seed is None else f"{options.seed}/{_place()}"
        self._lock = threading.Lock()
        self._runs: dict[tuple[str, str], LocalRun] = {}

    def run(self, dataset: str, run: str) -> "LocalRun":
        """Return this process's state of a run."""
        checked_str(dataset, "dataset")
        checked_str(run, "run")
        with self._lock:
            known = self._runs.get((dataset, run))
            if known is None:
                limit_bytes = self._options.spool_bytes
                url = self.connection.client.url
                lose = self.connection.lose
                spool = spool_of(self._folder, url=url, dataset=dataset, run=run, limit_bytes=limit_bytes, on_loss=lose)
                mistakes = Mistakes(self.connection, raises=self._options.raises_mistakes)
                delivery = Delivery(self.connection, spool, mistakes)
                known = LocalRun(self.connection, mistakes, delivery, dataset, run, self._seed)
                self._runs[dataset, run] = known
            return known

    def flush(self, deadline: Deadline) -> int:
        """Send the waiting writes of all runs of this process; return how many still wait."""
        with self._lock:
            runs = list(self._runs.values())
        self._probe.probe_now()
        waiting = 0
        for done, run in enumerate(runs):  # divide the time: one run must not use up all of it
            waiting += run.delivery.flush(Deadline(deadline.left_s() / (len(runs) - done), time.monotonic))
        return waiting

    def close(self, deadline: Deadline) -> None:
        """Send the waiting writes, then close the connections."""
        self.flush(deadline)
        self._probe.close(deadline.left_s())
        self.connection.client.close()

    def _probe_once(self) -> bool:
        """Return whether the service is back; first do what waited for it, so that training needn't."""
        with self._lock:
            runs = list(self._runs.values())
        seconds = self._options.probe_deadline_s
        if not self.connection.reaches(*runs[-1].name, seconds):
            return False
        if not all(run.catch_up(seconds) for run in runs):
            return False
        self.connection.found()
        return True


class LocalRun:
    """One run, as this process sees it.

    repeatable: whether a selection is known to hold a task several times where it wants more than there are.
    """

    def __init__(
        self, connection: Connection, mistakes: Mistakes, delivery: Delivery, dataset: str, run: str, seed: str
    ) -> None:
        self.mistakes = mistakes
        self.delivery = delivery
        self.repeatable = False
        self._subset: str | None = None  # that was registered last
        self._lost: str | None = None  # subset that the service no longer has
        self._renewed: dict[str, str] = {}  # lost subset -> the one that holds the same tasks now
        self._connection = connection
        self.name = (dataset, run)
        self._seed = f"{seed}/{dataset}/{run}"
        self._checkpoints = Checkpoints(connection, delivery, dataset, run)
        self._lock = threading.Lock()
        self._pool: LocalPool | None = None
        self._unregistered: Registration | None = None
        self._reward_range: tuple[float, float] | None = None

    def present_subset(self, subset: str | None) -> str | None:
        """Return the name that a subset has now; None: of the one that was registered last, if any was."""
        return self._subset if subset is None else self._renewed.get(subset, subset)

    def select(
        self, call: Call[Selection], ids: Sequence[str], deadline: Deadline, *, subset: str | None
    ) -> Selection | None:
        """Send the waiting reports, then return the service's selection; None if either is not possible now.

        Args:
            call: of the selection.
            ids: of all tasks that the trainer has.
            deadline: for all requests together.
            subset: as the caller named it.

        Raises:
            BotsClientError: the selection failed.
        """
        if self.delivery.waiting():
            self.delivery.deliver_kept(Deadline(deadline.left_s() * DELIVERY_SHARE, time.monotonic))
            if self.delivery.waiting():
                return None
        if self._unregistered is not None or not self._connection.is_available():
            return None
        try:
            selection = self.mistakes.ask(call, deadline.left_s())
        except InvalidRequestError as error:
            if is_about_subset(error):  # the dataset was deleted and made again, or restored from a backup
                self._unregistered, self._lost = Registration(ids, None), subset
                self._connection.probe()  # registers; the training must not wait for it
            raise
        self.repeatable |= len(set(selection.ids)) < len(selection.ids)
        return self._only_known(selection, ids)

    def check_count(self, count: int, ids: Sequence[str], exclude: Sequence[str]) -> None:
        """Check that the trainer has as many tasks as it wants, unless they are repeatable.

        Raises:
            InvalidRequestError: it does not.
        """
        if self.repeatable or count <= len(ids) - len(exclude):
            return
        left = len(set(ids).difference(exclude))
        if count > left:
            raise InvalidRequestError(f"{count} tasks are wanted, and the trainer's ids have only {left}: select fewer")

    def check_rewards(self, outcome: Outcome, seconds: float) -> None:
        """Check the rewards from which the belief is to learn, as far as the run's range is known.

        Raises:
            InvalidRequestError: a reward is outside.
        """
        rewards = () if "successes" in dict(outcome.evidence) else dict(outcome.evidence).get("rewards", ())
        if self._outside(rewards) is None or not self._connection.is_available():
            return
        try:  # somebody may have changed the range since
            self._reward_range = self._connection.ask(run_calls.run(*self.name), seconds).settings.reward_range
        except BotsClientError:
            return  # the service will say it
        if (reward := self._outside(rewards)) is not None and self._reward_range is not None:
            low, high = self._reward_range
            raise InvalidRequestError(
                f"reward {reward} of task {outcome.task!r} is outside the run's reward range [{low:g}, {high:g}]:"
                f" {RANGE_FIX}"
            )

    def _outside(self, rewards: Iterable[float]) -> float | None:
        """Return a reward outside of the run's range; None if there is none, or the range is not known."""
        if self._reward_range is None:
            return None
        low, high = self._reward_range
        return next((reward for reward in rewards if not low <= reward <= high), None)

    def choose(self, count: int, ids: Sequence[str], exclude: Sequence[str], first: Sequence[str]) -> Selection:
        """Return a local selection: the `first` tasks, then a uniform sample."""
        self._connection.counters.add(local_selects=1)
        unwanted = set(exclude)
        ahead = [task for task in dict.fromkeys(first) if task not in unwanted][:count]
        chosen = [*ahead, *self._chosen(count - len(ahead), ids, (*exclude, *ahead))]
        tasks = tuple(SelectedTask(id=task) for task in chosen)
        return Selection(selection_id="", dataset=self.name[0], run=self.name[1], tasks=tasks, degraded=True)

    def report(self, call: Call[Receipt], *, closes: bool, deadline: Deadline) -> Receipt | None:
        """Deliver a report; return None if it waits in the spool, or was refused for good."""
        return self.delivery.deliver(call, closes=closes, deadline=deadline)

    def register(self, wanted: Registration) -> str | None:
        """Make the tasks a subset of the dataset, which gets the missing ones; return the subset's name.

        If the service is away, do it later and return None.

        Raises:
            ValueError, BotsClientError: it failed; after an outage it is done later.
        """
        self._unregistered = wanted
        return self._register(wanted) if self._connection.is_available() else None

    def catch_up(self, seconds: float) -> bool:
        """Register and send all waiting writes, once the service is back; return whether it is there afterwards.

        Args:
            seconds: deadline of each pass over the spool.
        """
        if (wanted := self._unregistered) is not None:
            try:
                self._register(wanted)
            except (RequestError, ValueError) as error:
                self.mistakes.note(error)
            except BotsClientError:
                return False
        return self.delivery.catch_up(seconds)

    def _register(self, wanted: Registration) -> str:
        try:
            registered = register(self._connection, *self.name, wanted)
        except (RequestError, ValueError):
            self._unregistered = None  # it would fail again
            raise
        self._subset, lost, self._lost = registered.subset, self._lost, None
        if lost is not None:
            self._renewed[lost] = registered.subset
        self.repeatable |= registered.repeatable
        self._reward_range = registered.reward_range
        self._unregistered = None
        return registered.subset

    def ask(self, call: Call[T], seconds: float) -> T | None:
        """Send a call and return the answer; None if the service is away.

        Raises:
            BotsClientError: the call failed.
        """
        return self.mistakes.ask(call, seconds) if self._connection.is_available() else None

    def in_flight(self, seconds: float) -> list[Lease]:
        """Return the run's leases, newest first; an empty list if the service is away or fails."""
        if not self._connection.is_available():
            return []
        try:
            leases = self._connection.ask(run_calls.leases(*self.name, limit=MAX_LEASES, ids=MAX_LEASES), seconds)
        except BotsClientError as error:
            self._connection.log(error)
            return []
        return list(reversed(leases.leases))

    def uniform_effective_task_ratio(self, seconds: float) -> float | None:
        """Return the newest estimate for uniform sampling; None if the service has none, is away, or fails."""
        found = self._asked_once(run_calls.outlooks(*self.name, points=1), seconds)
        return found.outlooks[-1].uniform_effective_task_ratio if found is not None and found.outlooks else None

    def estimates(self, seconds: float) -> Mapping[str, float]:
        """Return what the belief estimates about the model; nothing if the service is away, or fails."""
        found = self._asked_once(run_calls.run(*self.name), seconds)
        return {} if found is None else found.estimates

    def _asked_once(self, call: Call[T], seconds: float) -> T | None:
        """Return the answer to a request that training can do without; None if the service is away, or fails."""
        if not self._connection.is_available():
            return None
        try:
            return self._connection.ask(replace(call, retried=False), seconds)
        except BotsClientError as error:
            self._connection.log(error)
            return None

    def save(self, deadline: Deadline) -> dict[str, Any]:
        """Return the run's position as JSON values."""
        return self._checkpoints.save(deadline)

    def load(self, saved: Mapping[str, Any], deadline: Deadline) -> None:
        """Rewind the run to a saved position."""
        self._checkpoints.load(saved, deadline)

    def _only_known(self, selection: Selection, ids: Sequence[str]) -> Selection:
        """Return the selection with unknown tasks replaced by a uniform sample of the trainer's own."""
        with self._lock:
            unknown = self._local(ids).unknown(selection.ids)
        if not unknown:
            return selection
        self._connection.log(
            f"selected tasks such as {unknown[0]!r} are not in the trainer's ids; uniformly sampled ones replace them."
            f" Call Selector.register() at the start: the service then selects among the trainer's tasks alone"
        )
        self._connection.counters.add(replaced=len(unknown))
        dropped = set(unknown)
        known = [task for task in selection.tasks if task.id not in dropped]
        others = self._chosen(len(unknown), ids, selection.ids)
        replaced = (SelectedTask(id=task) for task in others)
        return replace(selection, tasks=(*known, *replaced))

    def _chosen(self, count: int, ids: Sequence[str], exclude: Sequence[str]) -> list[str]:
        with self._lock:
            return self._local(ids).choose(count, exclude)

    def _local(self, ids: Sequence[str]) -> LocalPool:
        own = tuple(ids)  # the caller may pass a new list each time, or change its list between calls
        if self._pool is None or (self._pool.ids is not own and self._pool.ids != own):
            self._pool = LocalPool(own, self._seed)
        return self._pool


def _place() -> str:
    """Return this process's rank and number of restarts, from torchrun's environment variables."""
    return "/".join(os.environ.get(name, "0") for name in ("RANK", "TORCHELASTIC_RESTART_COUNT"))
