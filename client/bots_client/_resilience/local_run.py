"""One run, as one process sees it. It must not be shared with a fork."""

import random
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from bots_client._client import Client
from bots_client._errors import BUSY, BotsClientError, InvalidRequestError, RequestError
from bots_client._http import Call, Deadline
from bots_client._inputs import Outcome
from bots_client._models import SelectedTask, Selection
from bots_client._resilience.connection import Connection
from bots_client._resilience.delivery import RANGE_FIX, Delivery, Mistakes, is_about_subset
from bots_client._resilience.registration import Registration, register
from bots_client._resilience.spool import Spool

DELIVERY_SHARE = 0.5  # share of a selection's deadline for sending waiting reports first
TASKS_PER_GROUP = 2  # for each wanted effective group: about half of uniformly sampled groups are effective

T = TypeVar("T")


class LocalPool:
    """The trainer's own task ids, sampled uniformly while the service is away.

    Args:
        ids: in the trainer's order.
        seed: the same ids and seed give the same order.

    Raises:
        ValueError: ids is empty.
    """

    def __init__(self, ids: Sequence[str], seed: str) -> None:
        if not ids:  # fail at the first call, not hours later when the service goes away
            raise ValueError("ids is empty; pass the ids of all tasks that the trainer has")
        self.ids = ids
        self._known: frozenset[str] | None = None
        self._random = random.Random(seed)  # noqa: S311 - not a secret
        self._deck: list[str] = []  # in random order; each id comes once before any repeats

    def unknown(self, ids: Sequence[str]) -> list[str]:
        """Return the ids that the trainer does not have."""
        if self._known is None:
            self._known = frozenset(self.ids)
        return [task for task in ids if task not in self._known]

    def choose(self, count: int, exclude: Collection[str] = ()) -> list[str]:
        """Return a uniform sample of ids, without repeats as long as enough ids are left.

        Args:
            count: number of ids; more than the pool's size repeats some.
            exclude: ids to leave out, unless no others are left.
        """
        chosen: list[str] = []
        excluded = frozenset(exclude)
        unwanted = set(excluded)
        for _ in range(2 * len(self.ids)):  # two passes over the deck see every id
            if len(chosen) == count:
                return chosen
            if not self._deck:
                self._deck = self._random.sample(self.ids, len(self.ids))
            task = self._deck.pop()
            if task not in unwanted:
                chosen.append(task)
                unwanted.add(task)
        wanted = [task for task in self.ids if task not in excluded] or self.ids
        return chosen + [wanted[place % len(wanted)] for place in range(count - len(chosen))]


class LocalRun:
    """One run, as this process sees it: what waits for the service, and the draw while it is away.

    repeatable: whether a selection is known to hold a task several times where it wants more than there are.
    """

    def __init__(
        self,
        connection: Connection,
        spool: Spool,
        name: tuple[str, str],
        *,
        raises_mistakes: bool,
        report_deadline_s: float,
        seed: str,
    ) -> None:
        self.name = name
        self.mistakes = Mistakes(connection, raises=raises_mistakes)
        self.delivery = Delivery(connection, spool, self.mistakes, *name)
        self.repeatable = False
        self._connection = connection
        self._report_deadline_s = report_deadline_s
        self._seed = f"{seed}/{'/'.join(name)}"
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
        if not self.mistakes.raises or self._outside(rewards) is None:
            return
        run = self.ask(lambda bots: bots.run(*self.name), mistakes=False)  # somebody may have changed the range since
        if run is None:
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
        try:
            dataset, subset, run = register(self._connection, *self.name, wanted)
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

    def save(self) -> dict[str, Any]:
        """Send the waiting writes, then return the run's position as JSON values, within a report's deadline."""
        return self.delivery.save(Deadline(self._report_deadline_s))

    def load(self, saved: Mapping[str, Any]) -> None:
        """Rewind the run to a saved position, within a report's deadline; if the service is away, once it is back."""
        self.delivery.load(saved, Deadline(self._report_deadline_s))

    def ask(self, question: Callable[[Client], T], *, mistakes: bool = True) -> T | None:
        """Return the answer to a question about the run, within a report's deadline; None if the service is away.

        Args:
            question: see `Connection.ask`.
            mistakes: whether a refusal may be a mistake.
        """
        ask = partial(self.mistakes.ask, "run") if mistakes else self._connection.ask
        return self._connection.tried(lambda: ask(question, self._report_deadline_s))

    def ask_once(self, question: Callable[[Client], T], *, spent_s: float) -> T | None:
        """Return the answer to a question that training can do without; it is asked once.

        Args:
            question: see `Connection.ask`.
            spent_s: seconds of a report's deadline that are used up; it takes at most the rest.

        Returns:
            None if the service is away, fails, or does not answer in time.
        """
        ask, seconds = self._connection.ask, self._report_deadline_s - spent_s
        with self._connection.counters.timed("report_seconds"):
            return self._connection.tried(lambda: ask(question, seconds, once=True))

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
