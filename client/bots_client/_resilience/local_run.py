"""State of one process: its runs, and what it knows of each. It must not be shared with a fork."""

import os
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from bots_client._client import Client
from bots_client._errors import BUSY, BotsClientError, InvalidRequestError, RequestError
from bots_client._http import Call, Deadline
from bots_client._inputs import Outcome, checked
from bots_client._models import SelectedTask, Selection
from bots_client._resilience.connection import Connection, Health
from bots_client._resilience.delivery import RANGE_FIX, Delivery, Mistakes, is_about_subset
from bots_client._resilience.registration import Registrar, Registration
from bots_client._resilience.spool import spool_of
from bots_client._resilience.uniform import LocalPool

DELIVERY_SHARE = 0.5  # share of a selection's deadline for sending waiting reports first

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Arguments of a `ResilientClient`, which describes them; can be pickled."""

    url: str | None
    api_key: str | None
    headers: Mapping[str, str] | None
    raises_mistakes: bool
    select_deadline_s: float
    report_deadline_s: float
    spool: Path
    spool_bytes: int
    on_change: Callable[[Health], object] | None
    seed: int | None


class ProcessState:
    """A process's connection and its runs."""

    def __init__(self, options: ClientOptions) -> None:
        self.process = os.getpid()
        client = Client(options.url, api_key=options.api_key, headers=options.headers)
        self.connection = Connection(client, self._catch_up, options.on_change)
        self._options = options
        self._seed = secrets.token_hex() if options.seed is None else f"{options.seed}/{_place()}"
        self._lock = threading.Lock()
        self._runs: dict[tuple[str, str], LocalRun] = {}

    def run(self, dataset: str, run: str) -> "LocalRun":
        """Return this process's state of a run."""
        checked(dataset, str, "dataset")
        checked(run, str, "run")
        with self._lock:
            known = self._runs.get((dataset, run))
            if known is None:
                known = LocalRun(self.connection, self._options, dataset, run, self._seed)
                self._runs[dataset, run] = known
            return known

    def flush(self, deadline: Deadline) -> int:
        """Send the waiting writes of all runs of this process; return how many still wait."""
        with self._lock:
            runs = list(self._runs.values())
        self.connection.probe_now()
        waiting = 0
        for done, run in enumerate(runs):  # divide the time: one run must not use up all of it
            waiting += run.delivery.flush(Deadline(deadline.left_s() / (len(runs) - done)))
        return waiting

    def close(self, deadline: Deadline) -> None:
        """Send the waiting writes, then close the connections."""
        self.flush(deadline)
        self.connection.close(deadline.left_s())

    def _catch_up(self) -> bool:
        """Return whether the service is back; first do what waited for it, so that training needn't."""
        with self._lock:
            runs = list(self._runs.values())
        seconds = self._options.report_deadline_s
        if not self.connection.reaches(*runs[-1].name, seconds):
            return False
        if not all(run.catch_up(seconds) for run in runs):
            return False
        self.connection.found()
        return True


class LocalRun:
    """One run, as this process sees it: what waits for the service, and the draw while it is away.

    repeatable: whether a selection is known to hold a task several times where it wants more than there are.
    """

    def __init__(self, connection: Connection, options: ClientOptions, dataset: str, run: str, seed: str) -> None:
        self.name = (dataset, run)
        self.mistakes = Mistakes(connection, raises=options.raises_mistakes)
        spool = spool_of(
            options.spool,
            url=connection.client.url,
            dataset=dataset,
            run=run,
            limit_bytes=options.spool_bytes,
            on_loss=connection.lose,
        )
        self.delivery = Delivery(connection, spool, self.mistakes, dataset, run)
        self.repeatable = False
        self._connection = connection
        self._report_deadline_s = options.report_deadline_s
        self._seed = f"{seed}/{dataset}/{run}"
        self._lock = threading.Lock()
        self._pool: LocalPool | None = None
        self._reward_range: tuple[float, float] | None = None
        self._unregistered: Registration | None = None
        self._subset: str | None = None  # that was registered last
        self._lost: str | None = None  # subset that the service no longer has
        self._renewed: dict[str, str] = {}  # lost subset -> the one that holds the same tasks now

    def present_subset(self, subset: str | None) -> str | None:
        """Return the name that a subset has now; None: of the one that was registered last, if any was."""
        return self._subset if subset is None else self._renewed.get(subset, subset)

    def select(
        self, call: Call[Selection], ids: Sequence[str], deadline: Deadline, *, subset: str | None
    ) -> Selection | None:
        """Send the waiting reports, then return the service's selection; None if either fails.

        Args:
            call: of the selection.
            ids: of all tasks that the trainer has.
            deadline: for all requests together.
            subset: as the caller named it.
        """
        if self.delivery.waiting():
            self.delivery.deliver_kept(Deadline(deadline.left_s() * DELIVERY_SHARE))
            if self.delivery.waiting():
                return None
        if self._unregistered is not None or not self._connection.is_available():
            return None
        try:
            selection = self.mistakes.ask("select", lambda bots: bots.send(call), deadline.left_s())
        except BotsClientError as error:
            if isinstance(error, InvalidRequestError) and is_about_subset(error):
                # The dataset was deleted and made again, or restored from a backup.
                self._unregistered, self._lost = Registration(ids, None), subset
                self._connection.probe()  # registers; the training must not wait for it
            self._connection.log(error)
            return None
        self.repeatable |= len(set(selection.ids)) < len(selection.ids)
        return self._only_known(selection, ids)

    def require_count(self, count: int, ids: Sequence[str], exclude: Sequence[str]) -> None:
        """Note that the trainer wants more tasks than it has, unless they are repeatable."""
        if self.repeatable or count <= len(ids) - len(exclude):
            return
        left = len(set(ids).difference(exclude))
        if count > left:
            wanted = f"{count} tasks are wanted, and the trainer's ids have only {left}: select fewer"
            self.mistakes.note(InvalidRequestError(wanted))

    def check_rewards(self, outcome: Outcome) -> None:
        """Check the rewards from which the belief is to learn, as far as the run's range is known.

        With on_mistake="warn" nothing is checked: the service refuses it, and it stays on disk for inspection.

        Raises:
            InvalidRequestError: a reward is outside.
        """
        rewards = () if "successes" in dict(outcome.evidence) else dict(outcome.evidence).get("rewards", ())
        if not self.mistakes.raises or self._outside(rewards) is None or not self._connection.is_available():
            return
        try:  # somebody may have changed the range since
            run = self._connection.ask(lambda bots: bots.run(*self.name), self._report_deadline_s)
        except BotsClientError:
            return  # the service will say it
        self._reward_range = low, high = run.settings.reward_range
        if (reward := self._outside(rewards)) is not None:
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

    def register(self, wanted: Registration) -> str | None:
        """Make the tasks a subset of the dataset, which gets the missing ones; return the subset's name.

        If the service is away, do it later and return None.

        Raises:
            ValueError: the dataset has none of these tasks.
        """
        self._unregistered = wanted
        if not self._connection.is_available():
            return None
        try:
            return self._register(wanted)
        except RequestError as error:
            if error.type != BUSY:
                self.mistakes.note(error)
        except BotsClientError as error:
            self._connection.log(error)
        return None

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
        registrar = Registrar(self._connection, *self.name, wanted)
        try:
            dataset, subset, run = registrar.dataset(), registrar.subset(), registrar.run()
        except (RequestError, ValueError):
            self._unregistered = None  # it would fail again
            raise
        self._subset, lost, self._lost = subset, self._lost, None
        if lost is not None:
            self._renewed[lost] = subset
        self.repeatable |= dataset.repeatable
        self._reward_range = run.settings.reward_range
        self._unregistered = None
        return subset

    def ask(self, question: Callable[[Client], T], *, mistakes: bool = True) -> T | None:
        """Return the answer to a question about the run, within a report's deadline; None if the service is away.

        Args:
            question: see `Connection.ask`.
            mistakes: whether a refusal may be a mistake.
        """
        seconds = self._report_deadline_s
        try:
            if not self._connection.is_available():
                return None
            return self.mistakes.ask("run", question, seconds) if mistakes else self._connection.ask(question, seconds)
        except BotsClientError as error:
            self._connection.log(error)
            return None

    def ask_once(self, question: Callable[[Client], T], *, spent_s: float) -> T | None:
        """Return the answer to a question that training can do without; it is asked once.

        Args:
            question: see `Connection.ask`.
            spent_s: seconds of a report's deadline that are used up; it takes at most the rest.

        Returns:
            None if the service is away, fails, or does not answer in time.
        """
        with self._connection.counters.timed("report_seconds"):
            try:
                if self._connection.is_available():
                    return self._connection.ask(question, self._report_deadline_s - spent_s, once=True)
            except BotsClientError as error:
                self._connection.log(error)
            return None

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
        return replace(selection, tasks=(*known, *(SelectedTask(id=task) for task in others)))

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
