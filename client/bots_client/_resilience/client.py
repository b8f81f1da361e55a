"""`ResilientClient`: select and report from a training job, which no outage blocks for long or stops."""

import logging
import math
import os
import random
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from bots_client._client import Client, unsent
from bots_client._errors import BUSY, BotsClientError, ConflictError, InvalidRequestError, NotFoundError, RequestError
from bots_client._http import FILE_URL, NDJSON, Call, Deadline
from bots_client._inputs import Outcome, checked, checked_list, wrong_type
from bots_client._models import Receipt, Run, SelectedTask, Selection
from bots_client._resilience.connection import RANGE_FIX, Connection, Health, Mistakes, is_about_subset
from bots_client._resilience.delivery import Delivery
from bots_client._resilience.spool import Spool, spool_folder, spool_of

if TYPE_CHECKING:
    from bots_client._resilience.local import LocalService

T = TypeVar("T")
ClientT = TypeVar("ClientT", bound="ResilientClient")
OF_A_PROCESS = {"_lock", "_runs", "_random_seed", "_own_connection", "_process"}  # attributes that no pickle holds
DELIVERY_SHARE = 0.5  # share of a selection's deadline for sending waiting reports first
TASKS_PER_GROUP = 2  # for each wanted effective group: about half of uniformly sampled groups are effective
CALL_S = 10.0
UPLOAD_S = 600.0  # a million tasks take about 10 s
PROGRESS_S = 5.0  # between two lines about how far an upload is
CHUNK_TASKS = 10_000  # of an upload
ATTEMPTS = 5  # to add tasks while other processes of the job do the same

logger = logging.getLogger("bots_client")


class LocalPool:
    """The trainer's own task ids, sampled uniformly while the service is away; a seed makes it reproducible."""

    def __init__(self, ids: Sequence[str], seed: str) -> None:
        if not ids:  # fail at the first call, not hours later when the service goes away
            raise ValueError("ids is empty; pass the ids of all tasks that the trainer has")
        self.ids = ids
        self._known = frozenset(ids)
        self._random = random.Random(seed)  # noqa: S311 - not a secret
        self._deck: list[str] = []  # in random order; each id comes once before any repeats

    def unknown(self, ids: Sequence[str]) -> list[str]:
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


@dataclass(slots=True)
class Registration:
    """The ids of all tasks of a trainer, and the reward range for its run; None: the run keeps its own.

    subset: the name under which the service knows these tasks; None until it was told.
    """

    ids: Sequence[str]
    reward_range: tuple[float, float] | None
    subset: str | None = None


class LocalRun:
    """One run, as this process sees it: what waits for the service, and the draw while it is away."""

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
        self._connection = connection
        self._report_deadline_s = report_deadline_s
        self._seed = f"{seed}/{'/'.join(name)}"
        self._lock = threading.Lock()
        self._pool: LocalPool | None = None
        self._reward_range: tuple[float, float] | None = None
        self._unregistered: Registration | None = None

    def select(
        self, call: Call[Selection], ids: Sequence[str], deadline: Deadline, among: Registration | None
    ) -> Selection | None:
        """Send the waiting reports, then return the service's selection; None if either fails."""
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
                self._unregistered = among  # the dataset was deleted and made again, or restored from a backup
                self._connection.probe()  # registers; the training must not wait for it
            self._connection.log(error)
            return None
        return self._only_known(selection, ids)

    def require_count(self, count: int, ids: Sequence[str], exclude: Sequence[str]) -> None:
        """Note that the trainer wants more tasks than it has."""
        if count <= len(ids) - len(exclude):
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

    def register(self, wanted: Registration) -> None:
        """Make the tasks a subset of the dataset, which gets the missing ones: now, or once the service is back."""
        self._unregistered = wanted
        if not self._connection.is_available():
            return
        try:
            self._register(wanted)
        except RequestError as error:
            if error.type != BUSY:
                self.mistakes.note(error)
        except BotsClientError as error:
            self._connection.log(error)

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

    def _register(self, wanted: Registration) -> None:
        try:
            run = register(self._connection, *self.name, wanted)
        except (RequestError, ValueError):
            self._unregistered = None  # it would fail again
            raise
        self._reward_range = run.settings.reward_range
        self._unregistered = None

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


def register(connection: Connection, name: str, run: str, wanted: Registration) -> Run:
    """Make a trainer's tasks a subset of a dataset, which gets the missing ones, and give the run its reward range.

    Creates the dataset and the run if they don't exist. A ValueError if the dataset has none of these tasks.
    """
    ask, ids = connection.ask, wanted.ids
    _found_or_made(
        f"dataset {name} with the trainer's {len(ids)} tasks",
        lambda: ask(lambda bots: bots.dataset(name), CALL_S),
        lambda: ask(_upload(Client.create_dataset, name, ids, f"creating dataset {name}"), UPLOAD_S),
    )
    wanted.subset = _subset(connection, name, ids)
    found = _found_or_made(
        f"run {run} of dataset {name} with default settings",
        lambda: ask(lambda bots: bots.run(name, run), CALL_S),
        lambda: ask(lambda bots: bots.create_run(name, run), CALL_S),
    )
    before, after = found.settings.reward_range, wanted.reward_range
    if after is not None and after != before:
        logger.warning("changed the reward range of run %s of dataset %s from %s to %s", run, name, before, after)
        found = ask(lambda bots: bots.update_run(name, run, reward_range=after), CALL_S)
    return found


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


class ResilientClient:
    """A client for training jobs. Whatever happens to the service, calls keep their deadlines and training continues.

    Mistakes of the calling program are raised as a RequestError that names the fix: an unknown dataset, run or task, a
    wrong key, a reward outside the run's range. If the service was away at first, the next call after its return raises
    them. A dataset that is deleted later, or a key that is revoked, is an outage, and logged once a minute.

        bots = ResilientClient()
        selection = bots.select("guru", 32, ids=list(rows))
        bots.report("guru", [Outcome.rewards(id, train(rows[id])) for id in selection.ids], selection=selection)

    While the service is away, tasks are sampled uniformly from the trainer's own ids, and reports are kept on disk. As
    soon as it is back, the reports are sent in order, and each counts once. The client can be shared between threads,
    forked and pickled. Reports on disk survive kill -9; the next job on this machine sends them too.

    Args:
        url, api_key, headers: as in `Client`. A pickle contains the key. A url such as sqlite:///guru.db starts the
            service of this file: see `Selector.local`.
        on_mistake: "warn" logs mistakes once a minute and continues as in an outage; what the service refused stays on
            disk for inspection.
        select_deadline_s, report_deadline_s: longest duration of a selection, and of a report.
        spool: folder for waiting reports; None: BOTS_SPOOL, or bots/ in XDG_STATE_HOME (~/.local/state).
        spool_bytes: maximum size of one run's waiting reports; beyond it the oldest are dropped.
        seed: random seed of local samples; None: a random one per process, so that ranks and restarts sample different
            tasks. A number makes samples reproducible: they depend on it and on the environment's RANK and
            TORCHELASTIC_RESTART_COUNT. A restart that does not raise this count repeats the samples.

    Raises ValueError: the url, the key or the folder is invalid.
    """

    def __init__(  # noqa: PLR0913 - each with a default
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        on_mistake: Literal["raise", "warn"] = "raise",
        select_deadline_s: float = 2.0,
        report_deadline_s: float = 5.0,
        spool: str | os.PathLike[str] | None = None,
        spool_bytes: int = 256 * 2**20,
        headers: Mapping[str, str] | None = None,
        seed: int | None = None,
    ) -> None:
        if on_mistake not in ("raise", "warn"):
            raise ValueError(f'on_mistake must be "raise" or "warn", got {on_mistake!r}')
        self.spool = spool_folder(spool)
        self._connect = partial(Client, url, api_key=api_key, headers=headers)
        self._service = _service_of(url or os.environ.get("BOTS_URL") or "")
        if self._service is not None:
            self._connect = partial(self._service.client, headers)
        self._raises_mistakes = on_mistake == "raise"
        self._select_deadline_s = select_deadline_s
        self._report_deadline_s = report_deadline_s
        self._spool_bytes = spool_bytes
        self._seed = seed
        self._begin()

    def _begin(self) -> None:
        """Begin in this process: locks and sockets are not for others."""
        self._lock = threading.Lock()
        self._runs: dict[tuple[str, str], LocalRun] = {}
        self._random_seed = secrets.token_hex() if self._seed is None else f"{self._seed}/{_place()}"
        self._own_connection = Connection(self._connect(), self._catch_up)
        self._process = os.getpid()

    @property
    def _connection(self) -> Connection:
        if self._process != os.getpid():  # forked
            self._begin()
        return self._own_connection

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in OF_A_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._begin()

    def __enter__(self: ClientT) -> ClientT:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def direct(self) -> Client:
        """The plain client, with every call of the service; its calls raise."""
        return self._connection.client

    @property
    def health(self) -> Health:
        """The health as seen by this process."""
        return self._connection.counters.health

    def flush(self, deadline_s: float = 10.0, *, runs: Iterable[tuple[str, str]] = ()) -> int:
        """Send the waiting reports; return how many still wait.

        runs: (dataset, run) pairs to include that this process has not used.
        """
        for dataset, run in runs:
            self._local(dataset, run)
        return self._flush(Deadline(deadline_s))

    def close(self) -> None:
        """Send the waiting reports, within a report's deadline, then close the connections."""
        deadline = Deadline(self._report_deadline_s)
        self._flush(deadline)
        self._connection.close(deadline.left_s())
        if self._service is not None:
            self._service.release(deadline.left_s())

    def _flush(self, deadline: Deadline) -> int:
        self._connection.probe_now()
        runs, waiting = self._known_runs(), 0
        for done, run in enumerate(runs):  # divide the time: one run must not use up all of it
            waiting += run.delivery.flush(Deadline(deadline.left_s() / (len(runs) - done)))
        return waiting

    def _catch_up(self) -> bool:
        """Return whether the service is back; first do what waited for it, so that training needn't."""
        runs = self._known_runs()
        try:
            if self._service is not None and self._service.find():
                self._connection.client = self._connect()
            self._connection.ask(lambda bots: bots.run(*runs[-1].name), self._report_deadline_s)
        except RequestError:  # that is an answer, too
            pass
        except BotsClientError:
            return False
        if not all(run.catch_up() for run in runs):
            return False
        self._connection.found()
        return True

    def _known_runs(self) -> list[LocalRun]:
        with self._lock:
            return list(self._runs.values())

    def select(  # noqa: PLR0913 - two that matter, the others by keyword
        self,
        dataset: str,
        count: int | None = None,
        *,
        ids: Sequence[str],
        run: str = "default",
        among: Registration | None = None,
        tags: Iterable[str] | None = None,
        exclude: Sequence[str] = (),
        first: Sequence[str] = (),
        want_effective: int | None = None,
        idempotency_key: str | None = None,
    ) -> Selection:
        """Select the tasks to train on next; while the service is away, sample them uniformly.

        The arguments are those of `Client.select`, with these differences.

        Args:
            ids: of all tasks that the trainer has, in the same order each time. Selected tasks that are not among them
                are replaced. A ValueError if there are none.
            among: the registration of a `Selector`, whose tasks alone are selected; None: any of the dataset's.
            tags, idempotency_key: ignored while the service is away.
            want_effective: while the service is away, twice as many tasks as wanted groups are selected.

        Raises RequestError: a mistake, such as an unknown dataset, or more tasks than the trainer has.
        """
        if isinstance(ids, str):
            raise wrong_type("ids", "a list of str", ids)
        local_run = self._local(dataset, run)
        local_run.mistakes.raise_found()
        call = unsent(Client.select)(
            dataset,
            count,
            run=run,
            subset=None if among is None else among.subset,
            tags=tags,
            exclude=exclude or None,
            first=first or None,
            want_effective=want_effective,
            idempotency_key=idempotency_key,
        )
        counters = self._connection.counters
        counters.add(selects=1)
        with counters.timed("select_seconds"):
            selection = local_run.select(call, ids, Deadline(self._select_deadline_s), among)
        local_run.require_count(count or 0, ids, exclude)
        local_run.mistakes.raise_found()
        if selection is not None:
            return selection
        wanted = TASKS_PER_GROUP * (want_effective or 0) if count is None else count
        if count is None:
            wanted = min(wanted, len(ids))
        return local_run.choose(wanted, ids, exclude, first)

    def report(
        self,
        dataset: str,
        outcomes: Iterable[Outcome],
        *,
        run: str = "default",
        selection: Selection | str | None = None,
        close_step: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Receipt | None:
        """Report rollout outcomes. Once this returns, they are in the service's journal or on this machine's disk.

        The arguments are those of `Client.report`. Returns None if the report waits on disk, or was refused for good;
        `health.last_error` says why.

        Raises RequestError: a mistake, such as a reward outside the run's range. Outcomes without one are reported.
        """
        local_run = self._local(dataset, run)
        outcomes = checked_list(outcomes, Outcome, "outcomes")
        counters = self._connection.counters
        counters.add(reports=1)
        self._leave_out(sum(outcome.left_out for outcome in outcomes))
        receipt = None
        with counters.timed("report_seconds"):
            try:
                call = unsent(Client.report)(
                    dataset,
                    outcomes,
                    run=run,
                    selection=selection.selection_id or None if isinstance(selection, Selection) else selection or None,
                    close_step=close_step,
                    idempotency_key=idempotency_key,
                )
            except InvalidRequestError as error:
                counters.add(refused=1)
                local_run.mistakes.note(error)
            else:
                deadline = Deadline(self._report_deadline_s)
                receipt = local_run.delivery.deliver(call, closes=bool(close_step), deadline=deadline)
        local_run.mistakes.raise_found()
        return receipt

    def put_probe(self, dataset: str, values: Mapping[str, float], run: str = "default") -> Run | None:
        """Put a probe as `Client.put_probe` does, within a report's deadline; None if the service is away.

        Raises RequestError: a mistake, such as an unknown task.
        """
        local_run = self._local(dataset, run)
        put = local_run.ask(lambda bots: bots.put_probe(dataset, values, run))
        local_run.mistakes.raise_found()
        return put

    def evaluate(
        self, dataset: str, values: Mapping[str, float | None], run: str = "default", *, step: int | None = None
    ) -> None:
        """Keep what was measured of the run's model; where the service is away, on this machine's disk, as a report.

        The arguments are those of `Client.evaluate`. A value that is None or not finite is left out.
        """
        if finite := {name: value for name, value in values.items() if value is not None and math.isfinite(value)}:
            call = unsent(Client.evaluate)(dataset, finite, run=run, step=step)
            self._local(dataset, run).delivery.deliver_later(call, Deadline(self._report_deadline_s))
            self._local(dataset, run).mistakes.raise_found()

    def _leave_out(self, rollouts: int) -> None:
        self._connection.counters.add(left_out_rollouts=rollouts)

    def _local(self, dataset: str, run: str) -> LocalRun:
        connection, name = self._connection, (checked(dataset, str, "dataset"), checked(run, str, "run"))
        with self._lock:
            if name not in self._runs:
                spool = spool_of(
                    self.spool,
                    url=self._service.url if self._service else connection.client.url,
                    dataset=dataset,
                    run=run,
                    limit_bytes=self._spool_bytes,
                    on_loss=connection.lose,
                )
                self._runs[name] = LocalRun(
                    connection,
                    spool,
                    name,
                    raises_mistakes=self._raises_mistakes,
                    report_deadline_s=self._report_deadline_s,
                    seed=self._random_seed,
                )
            return self._runs[name]


def _service_of(url: str) -> "LocalService | None":
    if not url.startswith(FILE_URL):
        return None
    from bots_client._resilience.local import LocalService  # it needs locks that Windows lacks

    return LocalService(url)


def _place() -> str:
    """Return this process's rank and number of restarts, from torchrun's environment variables."""
    return "/".join(os.environ.get(name, "0") for name in ("RANK", "TORCHELASTIC_RESTART_COUNT"))
