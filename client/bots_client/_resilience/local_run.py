"""One run, as one process sees it. It must not be shared with a fork."""

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from json.encoder import encode_basestring_ascii
from typing import TypeVar

from bots_client._client import Client
from bots_client._errors import BUSY, BotsClientError, ConflictError, InvalidRequestError, NotFoundError, RequestError
from bots_client._http import NDJSON, Call, Deadline
from bots_client._inputs import Outcome
from bots_client._models import Dataset, Run, SelectedTask, Selection
from bots_client._resilience.connection import RANGE_FIX, Connection, Mistakes, is_about_subset
from bots_client._resilience.delivery import Delivery
from bots_client._resilience.spool import Spool

DELIVERY_SHARE = 0.5  # share of a selection's deadline for sending waiting reports first
TASKS_PER_GROUP = 2  # for each wanted effective group: about half of uniformly sampled groups are effective
CALL_S = 10.0
UPLOAD_S = 600.0  # a million tasks take about 10 s
PROGRESS_S = 5.0  # between two lines about how far an upload is
CHUNK_TASKS = 10_000  # of an upload
ATTEMPTS = 5  # to add tasks while other processes of the job do the same

logger = logging.getLogger("bots_client")

T = TypeVar("T")


class LocalPool:
    """The trainer's own task ids, sampled uniformly while the service is away; a seed makes it reproducible."""

    def __init__(self, ids: Sequence[str], seed: str) -> None:
        if not ids:  # fail at the first call, not hours later when the service goes away
            raise ValueError("ids is empty; pass the ids of all tasks that the trainer has")
        self.ids = ids
        self._known: frozenset[str] | None = None
        self._random = random.Random(seed)  # noqa: S311 - not a secret
        self._deck: list[str] = []  # in random order; each id comes once before any repeats

    def unknown(self, ids: Sequence[str]) -> list[str]:
        if self._known is None:
            self._known = frozenset(self.ids)
        return [task for task in ids if task not in self._known]

    def choose(self, count: int, exclude: Collection[str] = ()) -> list[str]:
        """Return a uniform sample of ids, without repeats and excluded ones as long as enough others are left."""
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


@dataclass(frozen=True, slots=True)
class Registration:
    """The ids of all tasks of a trainer, and the reward range for its run; None: the run keeps its own."""

    ids: Sequence[str]
    reward_range: tuple[float, float] | None


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
        self.delivery = Delivery(connection, spool, self.mistakes, name, deadline_s=report_deadline_s)
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
        """Raise InvalidRequestError if a reward to learn from is outside the run's range, as far as that is known.

        With on_mistake="warn" nothing is checked: the service refuses it, and it stays on disk for inspection.
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
        """Make the tasks a subset of the dataset, which gets the missing ones; return its name, or None: later.

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

    def catch_up(self) -> bool:
        """Register and send all waiting writes, once the service is back; return whether it is there afterwards."""
        if (wanted := self._unregistered) is not None:
            try:
                self._register(wanted)
            except (RequestError, ValueError) as error:
                self.mistakes.note(error)
            except BotsClientError:
                return False
        return self.delivery.catch_up()

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

    def ask(self, question: Callable[[Client], T], *, mistakes: bool = True) -> T | None:
        """Return the answer to a question about the run, within a report's deadline; None if the service is away.

        mistakes: whether a refusal may be a mistake.
        """
        ask = partial(self.mistakes.ask, "run") if mistakes else self._connection.ask
        return self._connection.tried(lambda: ask(question, self._report_deadline_s))

    def ask_once(self, question: Callable[[Client], T], *, spent_s: float) -> T | None:
        """Return the answer to a question that training can do without, or None; it is asked once.

        spent_s: seconds of a report's deadline that are used up; it takes at most the rest.
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


def register(connection: Connection, name: str, run: str, wanted: Registration) -> tuple[Dataset, str, Run]:
    """Make a trainer's tasks a subset of a dataset, which gets the missing ones, and give the run its reward range.

    Creates the dataset and the run if they don't exist. Returns the dataset as it was found, the subset, and the run.

    Raises:
        ValueError: the dataset has none of these tasks.
    """
    ask, ids = connection.ask, wanted.ids
    dataset = _found_or_made(
        f"dataset {name} with the trainer's {len(ids)} tasks",
        lambda: ask(lambda bots: bots.dataset(name), CALL_S),
        lambda: ask(_upload(Client.create_dataset, name, ids, f"creating dataset {name}"), UPLOAD_S),
    )
    subset = _subset(connection, name, ids)
    found = _found_or_made(
        f"run {run} of dataset {name} with default settings",
        lambda: ask(lambda bots: bots.run(name, run), CALL_S),
        lambda: ask(lambda bots: bots.create_run(name, run), CALL_S),
    )
    before, after = found.settings.reward_range, wanted.reward_range
    if after is not None and after != before:
        logger.warning("changed the reward range of run %s of dataset %s from %s to %s", run, name, before, after)
        found = ask(lambda bots: bots.update_run(name, run, reward_range=after), CALL_S)
    return dataset, subset, found


def _found_or_made(what: str, find: Callable[[], T], make: Callable[[], T]) -> T:
    try:
        return find()
    except NotFoundError:
        try:
            made = make()
        except ConflictError:  # another process of this job made it first
            return find()
    logger.warning("created %s: it did not exist", what)
    return made


def _subset(connection: Connection, name: str, ids: Sequence[str]) -> str:
    """Return the name of the subset of these tasks, once the dataset has all of them."""
    ask = connection.ask
    for _ in range(ATTEMPTS):
        made = ask(_upload(Client.make_subset, name, ids, f"registering with dataset {name}"), UPLOAD_S)
        if made.subset is not None:
            if made.others:
                text = "dataset %s has %d tasks that are not among the trainer's %d: they are not selected here"
                logger.warning(text, name, made.others, len(ids))
            if made.retired:
                text = "%d of the trainer's tasks are retired from dataset %s: they are not selected"
                logger.warning(text, made.retired, name)
            return made.subset
        if not made.tasks:
            first = ask(lambda bots: next(bots.tasks(name, limit=1), None), CALL_S)
            look = "its tasks are all retired;" if first is None else f"its ids look like {first.id!r},"
            raise ValueError(
                f"dataset {name!r} has none of the trainer's {len(ids)} tasks: {look} the trainer's like {ids[0]!r}."
                " Use another dataset, or build both ids from the same columns"
            )
        missing = [ids[place] for place in made.missing]
        try:
            ask(_upload(Client.append_tasks, name, missing, f"adding tasks to dataset {name}"), UPLOAD_S)
        except ConflictError:  # another process of this job added some of them first, and others may be missing
            continue
        logger.warning("added %d of the trainer's tasks to dataset %s", len(missing), name)
    raise ConflictError(f"dataset {name!r} does not have tasks that were added to it: it was deleted meanwhile")


def _upload(call: Callable[..., T], name: str, ids: Sequence[str], doing: str) -> Callable[[Client], T]:
    return lambda bots: call(bots, name, partial(_lines, ids, doing), media_type=NDJSON)


def _lines(ids: Sequence[str], doing: str) -> Iterator[bytes]:
    """Yield tasks as chunks of NDJSON; a line in the log says now and then how far the upload is."""
    said_at = time.monotonic()
    for begin in range(0, len(ids), CHUNK_TASKS):
        if time.monotonic() - said_at >= PROGRESS_S:
            said_at = time.monotonic()
            logger.warning("%s: sent %d of %d tasks", doing, begin, len(ids))
        part = ids[begin : begin + CHUNK_TASKS]
        yield "".join([f'{{"id":{encode_basestring_ascii(task)}}}\n' for task in part]).encode()
