"""`Selector`, the interface for a training loop, and `AsyncSelector`, the same for trainers that run on asyncio."""

import asyncio
import logging
import math
import os
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, SupportsFloat, TypeVar

from bots_client._client import Client
from bots_client._errors import InvalidRequestError, RequestError
from bots_client._http import FILE_URL, nearest_name
from bots_client._inputs import Outcome, checked, checked_ids, checked_list, joined, plain
from bots_client._models import HistoryStep, Lease, Receipt, Run, Selection
from bots_client._resilience.client import LocalRun, Registration, ResilientClient

P = ParamSpec("P")
T = TypeVar("T")
Share = Callable[[Callable[[], Any]], Any]
ESTIMATE_EVERY = 10  # closed steps: what the service estimates changes slowly
MAX_SELECTIONS = 1024  # in flight; the oldest is dropped beyond that, and its evidence counts for the current step
MAX_LEASES = 1000  # of a run, and tasks per lease; the service's own maximum

logger = logging.getLogger("bots_client")


def single_process(ask: Callable[[], Any]) -> Any:
    return ask()


class Selector:
    """One training job's access to one run: the tasks to train on next, and their outcomes.

        selector = Selector(ResilientClient(), "guru", ids=list(rows))
        for _ in range(steps):
            for id in selector.next(32).ids:
                selector.observe(id, train(rows[id]))
            selector.step()

    It can be shared between threads and pickled; a pickle does not contain unreported outcomes.

    Mistakes, such as an unknown task, raise a RequestError, unless the client has on_mistake="warn". Where several
    ranks share selections, `next` raises those of rank 0 on all ranks at once, and those of the others are logged.

    Args:
        client: None: `ResilientClient()`.
        run: jobs that train different models use different runs.
        ids: of all tasks that the trainer has, after its own filters.
        tags: only tasks with one of these tags.
        reward_range: lowest and highest possible reward, such as (-1, 1) for DAPO and verl; `register` gives it to the
            run. None: the run keeps its own, which is (0, 1) for a new one.
        rank: of this process; None: the environment's RANK, or 0. Only rank 0 closes steps and rewinds.
        share: broadcasts rank 0's result to all ranks; the default is for a job of one process.

    Raises ValueError: ids is empty, has a repeated id, or has an id that is not a str; or reward_range is not one.
    """

    def __init__(
        self,
        client: ResilientClient | None,
        dataset: str,
        run: str = "default",
        *,
        ids: Iterable[str],
        tags: Iterable[str] | None = None,
        reward_range: tuple[float, float] | None = None,
        rank: int | None = None,
        share: Share = single_process,
    ) -> None:
        self.client = ResilientClient() if client is None else checked(client, ResilientClient, "client")
        self.dataset = checked(dataset, str, "dataset")
        self.run = checked(run, str, "run")
        self.ids = checked_ids(ids)
        self.reward_range = _checked_range(reward_range)
        self.rank = int(os.environ.get("RANK", "0")) if rank is None else rank
        self.tags = None if tags is None else checked_list(tags, str, "tags")
        self._registration: Registration | None = None
        self._share = share
        self._known_ids = frozenset(self.ids)
        self._gone: set[str] = set()
        self._process = InFlight()
        self._closed: Receipt | HistoryStep | None = None
        self._selection: Selection | None = None
        self._estimated: Run | None = None
        self._estimated_at: int | None = None

    @classmethod
    def local(
        cls, database: str | os.PathLike[str], run: str = "default", *, ids: Iterable[str], **others: Any
    ) -> "Selector":
        """Return a registered selector that needs no server: this process starts the service of a file beside it.

        All processes of the job on this machine share the service, which ends after the last of them. The
        file guru.db.service links to its page. Needs the package bots-service in the same environment, and Linux or
        macOS.

        database: SQLite file, which is created or continued; guru.db holds the dataset guru.
        others: as of `Selector`.

        Raises:
            ModuleNotFoundError: bots-service is not installed.
            ServiceError: the service can't start, or runs on another machine.
            ValueError, RequestError: as of `Selector` and `register`.
        """
        file = Path(database).absolute()
        selector = cls(ResilientClient(f"{FILE_URL}{file}"), nearest_name(file.stem), run, ids=ids, **others)
        selector.register()
        return selector

    def close(self) -> None:
        """Send the waiting reports, within a report's deadline, then close the client."""
        self.client.close()

    def register(self) -> None:
        """Tell the service which tasks this trainer has: it then selects among them alone. Call it once, at the start.

        Adds to the dataset what it does not have, and creates the dataset and the run if they don't exist. Logs what it
        did. If the service is away, the client does it once the service is back.

        Raises:
            ValueError: the dataset has none of these tasks.
            RequestError: a mistake, such as a key without the permission.
        """
        self._registration = Registration(self.ids, self.reward_range)
        self._local.register(self._registration)
        self._local.mistakes.raise_found()

    @property
    def is_shared(self) -> bool:
        """Whether rank 0's selections are broadcast to all ranks."""
        return self._share is not single_process

    def next(self, count: int | None = None, *, want_effective: int | None = None, key: str | None = None) -> Selection:
        """Return the tasks to train on next: `count` of them.

        Args:
            want_effective: instead of a count: as few tasks as are expected to give so many effective groups.
            key: Idempotency-Key; ranks that use the same key get the same tasks, unless the service is away.
        """
        at_least = count or want_effective or 0

        def ask() -> Selection | RequestError | ValueError:
            # With one key all ranks must send the same request, and only one of them knows the tasks in flight.
            first = self._in_flight.take_first(at_least) if key is None else ()
            try:
                return self.client.select(
                    self.dataset,
                    count,
                    ids=self.ids,
                    run=self.run,
                    among=self._registration,
                    tags=self.tags,
                    first=first,
                    want_effective=want_effective,
                    idempotency_key=key,
                )
            except (RequestError, ValueError) as error:  # shared too: the other ranks wait for rank 0
                return error

        answer = self._share(ask)
        if isinstance(answer, Exception):
            raise answer
        selection: Selection = answer
        self._selection = selection
        self._in_flight.begin(selection)
        return selection

    def give_back(self, selection: Selection) -> None:
        """Return an unused selection: `next` hands out its tasks again, before any others. Call it before `observe`."""
        self._in_flight.give_back(selection)

    def observe(
        self,
        task: str,
        rewards: Iterable[SupportsFloat | None] | SupportsFloat | None,
        *,
        successes: float | None = None,
        effective: bool | None = None,
        tokens: float | None = None,
        seconds: float | None = None,
        group_size: int | None = None,
        selection: Selection | str | None = None,
    ) -> None:
        """Record the rewards of a task's rollouts until `step` reports them; further calls add rollouts.

        Args:
            task: id of the task.
            rewards: the trainer's reward of each rollout, in the run's reward range; with successes, any number. A list
                or a tensor, or the number of one rollout. Rollouts with None, NaN or an infinite one are left
                out, and counted in `health`; without others the task is aborted.
            successes: number of rollouts that met the task's own criterion, from which the belief learns; None: it
                learns from the rewards. Pass it if rewards are shaped, such as correctness 1 + format 0.2.
            effective, tokens, seconds: as in `Outcome`.
            group_size: number of rollouts of the whole group, if others may come after the next `step`; the group then
                counts once, when all have come. None: what `step` reports is the whole group.
            selection: the task's selection, or its id; None: the oldest in flight that has the task.

        Raises RequestError: a mistake, such as an unknown task, or a reward outside the run's range.
        """
        if not self._is_own(task):
            return
        try:
            outcome = Outcome.rewards(
                task, rewards, effective=effective, tokens=tokens, seconds=seconds, group_size=group_size
            )
            if successes is not None and not outcome.is_aborted:
                trials = len(dict(outcome.evidence)["rewards"])
                counts = ("successes", plain(successes, of=task)), ("trials", trials)
                outcome = replace(outcome, evidence=(*counts, *outcome.evidence))
            self._local.check_rewards(outcome)
        except (InvalidRequestError, TypeError) as error:
            self._in_flight.add_outcome(Outcome.aborted(task), _id_of(selection))  # ends its lease
            self._mistake(error)
            return
        self._in_flight.add_outcome(outcome, _id_of(selection))
        self._raise_found()

    def abort(
        self,
        task: str,
        *,
        tokens: float | None = None,
        seconds: float | None = None,
        selection: Selection | str | None = None,
    ) -> None:
        """Report at once that a task's rollouts did not finish: nothing is learned, and it may be selected again.

        The arguments and errors are those of `observe`.
        """
        outcome = Outcome.aborted(task, tokens=tokens, seconds=seconds)
        if self._is_own(task):
            self._report([self._in_flight.end(outcome, _id_of(selection))], closes=False)

    def step(self) -> Receipt | None:
        """Report the recorded outcomes; on rank 0 this closes the training step, unless all tasks were aborted.

        Returns None if nothing was recorded, or the report waits for the service.

        Raises RequestError: a mistake, such as a reward outside the run's range. All other outcomes are reported.
        """
        begun = time.monotonic()
        observed = self._in_flight.take_outcomes()
        teaches = any(not outcome.is_aborted for _, outcomes in observed for outcome in outcomes)
        receipt = self._report(observed, closes=teaches and self.rank == 0)
        if observed:
            self._closed = receipt
        if receipt is not None and receipt.closed:
            self._refresh_estimates(begun)
        return receipt

    def _report(self, observed: list[tuple[str, list[Outcome]]], *, closes: bool) -> Receipt | None:
        """Report outcomes by selection; the last report closes the step if wanted. Return its receipt."""
        receipt, mistake = None, None
        for place, (selection, outcomes) in enumerate(observed, start=1):
            close_step = closes and place == len(observed)
            try:
                receipt = self.client.report(
                    self.dataset, joined(outcomes), run=self.run, selection=selection, close_step=close_step
                )
            except (RequestError, ValueError) as error:
                receipt, mistake = None, error
        if mistake is not None:
            self._mistake(mistake)
        self._raise_found()
        return receipt

    def close_step(self) -> Receipt | None:
        """Close a training step whose outcomes others reported, such as reward workers, and update `metrics`.

        A run with `tasks_per_step` closes its own steps; then only `metrics` are updated. Returns None if nothing was
        reported since the last step, or the service is away.
        """
        begun = time.monotonic()
        run = self._local.ask(lambda bots: bots.run(self.dataset, self.run))
        self._raise_found()
        if run is None:
            if self.client.health.is_away:
                self._closed = None
            return None
        if run.settings.tasks_per_step is not None:
            self._closed = self._last_of(run) or self._closed
            self._refresh_estimates(begun)
            return None
        if not run.pending:
            return None
        self._closed = receipt = self._report([("", [])], closes=True)
        self._refresh_estimates(begun)
        return receipt

    def _last_of(self, run: Run) -> HistoryStep | None:
        def last(bots: Client) -> HistoryStep | None:
            return next(bots.history(self.dataset, self.run, after_step=max(run.step - 1, 0), limit=1), None)

        step = self._local.ask(last)
        self._raise_found()
        return step

    def evaluate(self, values: Mapping[str, float | None], *, step: int | None = None) -> None:
        """Keep what was measured of the model, as `ResilientClient.evaluate` does; only rank 0 sends it."""
        if self.rank == 0:
            self.client.evaluate(self.dataset, values, run=self.run, step=step)

    def finish(self) -> None:
        """Send the waiting reports, and say that training ended; while the service is away, nobody hears that."""
        if self.rank == 0 and not self.client.flush():
            self._local.ask(lambda bots: bots.finish(self.dataset, self.run), mistakes=False)

    def state_dict(self, *, step: int | None = None, checkpoint: str | None = None) -> dict[str, Any]:
        """Return the run's position and the tasks in flight, as JSON values, for the trainer's checkpoint.

        step: the trainer's; checkpoint: a name or a digest that stays with the checkpoint wherever it is stored.
        """
        saved, in_flight = None, list[str]()
        if self.rank == 0:
            saved = self._local.delivery.save()
            flight, mine = self._in_flight, self._in_flight.tasks
            leased = (task for lease in self._leases() for task in flight.tasks_of(lease))
            in_flight = [task for task in dict.fromkeys(leased) if task in mine]
        about = {"dataset": self.dataset, "run": self.run, "step": step, "checkpoint": checkpoint}
        return {**about, "saved": saved, "in_flight": in_flight}

    def load_state_dict(
        self, state: Mapping[str, Any], *, step: int | None = None, checkpoint: str | None = None
    ) -> None:
        """Restore what `state_dict` saved: rank 0 rewinds the run; later selections and outcomes are dropped.

        `next` then returns first the tasks that were in flight when the checkpoint was saved, and those in flight now,
        for example after a crash; those that the trainer no longer has are logged and passed over. If `step` or
        `checkpoint` differs from the saved one, nothing is rewound; None is not compared.

        Raises:
            ValueError: the state belongs to another dataset, run, step or checkpoint. With
                on_mistake="warn", another step or checkpoint is only logged.
        """
        if (state.get("dataset"), state.get("run")) != (self.dataset, self.run):
            raise ValueError(
                f"the checkpoint has dataset {state.get('dataset')!r} and run {state.get('run')!r}; this selector has"
                f" {self.dataset!r} and {self.run!r}"
            )
        self._process = InFlight()
        for name, now in (("step", step), ("checkpoint", checkpoint)):
            if None not in (now, state[name]) and now != state[name]:
                error = ValueError(
                    f"the selector's state was saved with {name} {state[name]!r}, but the trainer resumes from"
                    f" {name} {now!r}: the run is not rewound. Load the state of the same checkpoint"
                )
                self._local.mistakes.note(error)
                self._local.mistakes.raise_found()
                return
        if self.rank != 0 or state["saved"] is None:
            return
        leases = self._leases()  # the rewind clears them
        self._still_there(state["in_flight"])
        first = dict.fromkeys([*state["in_flight"], *(task for lease in leases for task in lease.first)])
        self._process = InFlight(first=[task for task in first if task in self._known_ids])
        self._local.delivery.load(state["saved"])

    def handed_out(self, tasks: Iterable[str]) -> set[str]:
        """After `load_state_dict`, name the tasks that the trainer restores itself, so that `next` skips them.

        Returns those that the trainer still has; the others are logged once.
        """
        kept = self._still_there(tasks)
        self._in_flight.drop_first(kept)
        return kept

    def metrics(self) -> dict[str, float]:
        """Return metrics of the last step for W&B or TensorBoard, with names that begin with "bots/", always the same.

        What is not known is NaN, such as the effective task ratio while the service is away. The ability of the model
        (with the tracker), in logits, and the values for uniform sampling are estimates from the run's belief; rank 0
        requests them after every tenth closed step.
        """
        closed = self._closed
        means = [task.mean for task in self._selection.tasks if task.mean is not None] if self._selection else []
        ratio = None if closed is None else closed.effective_task_ratio
        estimated = None if closed is None else self._estimated
        uniform = None if estimated is None else estimated.uniform_effective_task_ratio
        values = {
            "selected_mean": sum(means) / len(means) if means else None,
            "effective_task_ratio": ratio,
            "capability": None if closed is None else closed.capability,
            "ability": None if estimated is None else estimated.estimates.get("ability"),
            "step": None if closed is None else closed.step,
            "uniform_effective_task_ratio": uniform,
            "times_uniform": ratio / uniform if uniform and ratio is not None else None,
        }
        known = {f"bots/{name}": math.nan if value is None else float(value) for name, value in values.items()}
        return {**known, **self.client.health.as_metrics()}

    def _refresh_estimates(self, begun: float) -> None:
        """Request what the service estimates after a closed step, unless it is recent, within the report's deadline.

        begun: monotonic time at which the step's report began.
        """
        if self.rank != 0 or self._closed is None:
            return
        step, at = self._closed.step, self._estimated_at
        if at is not None and at <= step < at + ESTIMATE_EVERY:
            return
        self._estimated_at = step
        name, local = (self.dataset, self.run), self._local
        self._estimated = local.ask_once(lambda bots: bots.run(*name), spent_s=time.monotonic() - begun)

    def _leases(self) -> list[Lease]:
        """Return the run's leases, newest first, with up to 1000 tasks each; none if the service is away or fails."""

        def ask(bots: Client) -> list[Lease]:
            return list(bots.leases(self.dataset, self.run, limit=MAX_LEASES, ids=MAX_LEASES).leases)

        return (self._local.ask(ask, mistakes=False) or [])[::-1]

    def _still_there(self, tasks: Iterable[str]) -> set[str]:
        """Return those tasks of a checkpoint that the trainer still has; rank 0 logs the others once."""
        wanted = set(tasks)
        kept = wanted & self._known_ids
        gone = wanted - kept - self._gone
        self._gone |= gone
        if gone and self.rank == 0:
            logger.warning(
                "%d tasks that were in flight at the checkpoint, such as %r, are not among the trainer's any more: they"
                " are passed over",
                len(gone),
                min(gone),
            )
        return kept

    @property
    def _in_flight(self) -> "InFlight":
        if self._process.process != os.getpid():
            self._process = self._process.after_fork()
        return self._process

    def _raise_found(self) -> None:
        """Raise a mistake, but in `next` alone where other ranks would else wait for this one without end."""
        if not self.is_shared or int(os.environ.get("WORLD_SIZE", "1")) == 1:
            self._local.mistakes.raise_found()

    def _mistake(self, error: Exception) -> None:
        self._local.mistakes.note(error)
        self._raise_found()

    @property
    def _local(self) -> LocalRun:
        return self.client._local(self.dataset, self.run)

    def _is_own(self, task: str) -> bool:
        """Return whether a task is among the ids; it is a mistake if not."""
        if task in self._known_ids:
            return True
        self._mistake(InvalidRequestError(f"task {task!r} is not among the ids of this selector"))
        return False


def _awaited(
    call: Callable[Concatenate[Selector, P], T],
) -> Callable[Concatenate["AsyncSelector", P], Coroutine[Any, Any, T]]:
    @wraps(call)
    async def method(self: "AsyncSelector", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._call(partial(call, self.selector, *args, **kwargs))

    return method


def _at_once(call: Callable[Concatenate[Selector, P], T]) -> Callable[Concatenate["AsyncSelector", P], T]:
    @wraps(call)
    def method(self: "AsyncSelector", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return call(self.selector, *args, **kwargs)

    return method


class AsyncSelector:
    """An asynchronous `Selector` with the same guarantees: calls keep their deadlines, and only mistakes raise.

    Its methods are those of `Selector`: `observe`, `handed_out` and `metrics` return at once, all others are awaited.
    The selector's blocking calls run on one worker thread, in the order of the calls, so that the event loop never
    waits. A call may therefore also wait for the deadlines of earlier calls. Use the selector only through this object.

    Every call can be cancelled. A call that has not started never runs. A call that has started is completed: a `step`
    sends its report, and the tasks of a `next` are the first ones that the following `next` returns. Nothing is
    reported twice, lost or left in flight.
    """

    def __init__(self, selector: Selector) -> None:
        self.selector = checked(selector, Selector, "selector")
        self._worker: tuple[int, ThreadPoolExecutor] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"selector": self.selector, "_worker": None}

    async def __aenter__(self) -> "AsyncSelector":
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Send the waiting reports, within a report's deadline, then close the connections and the thread."""
        await self._call(self.selector.client.close)
        _, executor = self._worker or (0, None)
        self._worker = None
        if executor is not None:
            executor.shutdown(wait=False)

    async def next(
        self, count: int | None = None, *, want_effective: int | None = None, key: str | None = None
    ) -> Selection:
        """Return the tasks to train on next; after a cancelled call the same key returns the same tasks."""
        ask = partial(self.selector.next, count, want_effective=want_effective, key=key)
        return await self._call(ask, self.selector.give_back if key is None else None)

    register = _awaited(Selector.register)
    abort = _awaited(Selector.abort)
    step = _awaited(Selector.step)
    close_step = _awaited(Selector.close_step)
    evaluate = _awaited(Selector.evaluate)
    finish = _awaited(Selector.finish)
    state_dict = _awaited(Selector.state_dict)
    load_state_dict = _awaited(Selector.load_state_dict)
    observe = _at_once(Selector.observe)
    handed_out = _at_once(Selector.handed_out)
    metrics = _at_once(Selector.metrics)

    async def _call(self, act: Callable[[], T], undo: Callable[[T], None] | None = None) -> T:
        """Run a blocking call on the worker thread; undo what it returned if the awaiting task was cancelled."""
        try:
            job = self._executor().submit(act)
        except RuntimeError:  # too many threads, or the interpreter is shutting down: run it here
            self._worker = None
            return act()
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            job.add_done_callback(lambda done: self._settle(done, undo))
            raise

    def _settle(self, done: "Future[T]", undo: Callable[[T], None] | None) -> None:
        """Undo a call that nobody waits for any more; keep its mistake for the next call."""
        error = None if done.cancelled() else done.exception()
        if isinstance(error, RequestError):
            self.selector._local.mistakes.note(error)
        elif undo is not None and error is None and not done.cancelled():
            undo(done.result())

    def _executor(self) -> ThreadPoolExecutor:
        if self._worker is None or self._worker[0] != os.getpid():  # after a fork the thread exists only in the parent
            self._worker = os.getpid(), ThreadPoolExecutor(1, thread_name_prefix="bots-selector")
        return self._worker[1]


class InFlight:
    """One process's selections in flight and unreported outcomes. Safe to share between threads."""

    def __init__(self, selected: Mapping[str, set[str]] | None = None, *, first: Iterable[str] = ()) -> None:
        self.process = os.getpid()
        self._lock = threading.Lock()
        self._selected: OrderedDict[str, set[str]] = OrderedDict(selected or {})
        self._observed: defaultdict[str, list[Outcome]] = defaultdict(list)
        self._parts: dict[tuple[str, str], float] = {}  # rollouts of groups in parts, by selection and task
        self._first = list(first)

    def __reduce__(self) -> tuple[type["InFlight"], tuple[()]]:
        return InFlight, ()  # another process has nothing in flight

    @property
    def tasks(self) -> set[str]:
        with self._lock:
            return set().union(*self._selected.values())

    def tasks_of(self, lease: Lease) -> list[str]:
        """Return the tasks of a lease; if it doesn't name all, add those of its selection that are in flight here."""
        if lease.tasks == len(lease.first):
            return list(lease.first)
        with self._lock:
            own = (sorted(tasks) for tasks in self._selected.values() if not tasks.isdisjoint(lease.first))
            return [*lease.first, *(task for tasks in own for task in tasks)]

    def take_first(self, count: int) -> list[str]:
        with self._lock:
            taken, self._first = self._first[:count], self._first[count:]
            return taken

    def drop_first(self, tasks: Collection[str]) -> None:
        with self._lock:
            self._first = [task for task in self._first if task not in tasks]

    def after_fork(self) -> "InFlight":
        """Return the state for a forked process: the parent reports the outcomes; its lock may stay locked."""
        return InFlight(self._selected)

    def begin(self, selection: Selection) -> None:
        if selection.is_local:
            return
        with self._lock:
            self._selected[selection.selection_id] = set(selection.ids)
            while len(self._selected) > MAX_SELECTIONS:
                self._selected.popitem(last=False)

    def give_back(self, selection: Selection) -> None:
        with self._lock:
            self._selected.pop(selection.selection_id, None)
            self._first[:0] = selection.ids

    def add_outcome(self, outcome: Outcome, selection: str | None) -> None:
        """Add an outcome; without a selection, to the oldest one in flight that has its task."""
        with self._lock:
            self._observed[self._selection_of(outcome.task, selection)].append(outcome)

    def end(self, aborted: Outcome, selection: str | None) -> tuple[str, list[Outcome]]:
        """Return an aborted task's selection, where it is no longer in flight, and all its aborted outcomes."""
        with self._lock:
            selection = self._selection_of(aborted.task, selection)
            outcomes = [*self._observed.pop(selection, ()), aborted]
            ended = [outcome for outcome in outcomes if outcome.task == aborted.task and outcome.is_aborted]
            if left := [outcome for outcome in outcomes if outcome not in ended]:
                self._observed[selection] = left
            self._drop(selection, {aborted.task})
            return selection, ended

    def _selection_of(self, task: str, selection: str | None) -> str:
        if selection is not None:
            return selection
        return next((key for key, tasks in self._selected.items() if task in tasks), "")

    def _drop(self, selection: str, tasks: set[str]) -> None:
        left = self._selected.get(selection, set())
        left -= tasks
        if not left:
            self._selected.pop(selection, None)

    def take_outcomes(self) -> list[tuple[str, list[Outcome]]]:
        """Remove and return the outcomes, grouped by selection, oldest first.

        Their tasks are no longer in flight, unless more rollouts of their groups are to come.
        """
        with self._lock:
            observed, self._observed = self._observed, defaultdict(list)
            for selection, outcomes in observed.items():
                self._drop(selection, {outcome.task for outcome in outcomes if self._is_whole(selection, outcome)})
            return list(observed.items())

    def _is_whole(self, selection: str, outcome: Outcome) -> bool:
        """Return whether no more rollouts of the outcome's group are to come."""
        came = self._parts.pop((selection, outcome.task), 0.0) + outcome.rollouts
        if outcome.group_size is None or came >= outcome.group_size:
            return True
        self._parts[selection, outcome.task] = came
        return False


def _id_of(selection: Selection | str | None) -> str | None:
    return selection.selection_id if isinstance(selection, Selection) else selection


def _checked_range(reward_range: Any) -> tuple[float, float] | None:
    """Return a reward range, which a configuration file may give as a list."""
    if reward_range is None:
        return None
    try:
        low, high = map(float, reward_range)
    except (TypeError, ValueError):
        low = high = math.nan
    if not low < high:
        raise ValueError(f"reward_range is {reward_range!r}; pass the lowest reward and the highest, such as (-1, 1)")
    return low, high
