"""Decorators for reward functions: they report rewards to the service from the place where a trainer computes them.

A decorated function returns exactly what it returned before, as fast as before: reports are sent on a separate thread,
and failures are logged. Only a mistake raises, such as a reward outside the run's range, from the next call. The
decorators need no trainer, so they work with all of them.
"""

import functools
import inspect
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, Generic, ParamSpec, SupportsFloat, TypeVar, cast
from weakref import WeakSet

from bots_client import NotFoundError, Outcome, RequestError, ResilientClient, Selector
from bots_client._inputs import reward_of, rewards_of
from bots_client._resilience.connection import Reminder, is_mistake

__all__ = ["flush", "guarded", "named", "observe_groups", "reports_groups", "reports_rollouts", "rewards_of"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Origin = TypeVar("Origin")
Rollout = tuple[str, str, float | None]  # its task, the id of its selection, its reward if it has one
Gather = Callable[[list[Rollout]], list[Rollout]]

SELECTION_ID = "selection_id"  # key of a row: the selection that chose it
EQUAL = 1e-9  # rewards that differ by no more are equal; the service's value
WAYS: dict[str, Callable[[Sequence[float]], float]] = {"sum": sum, "last": lambda values: values[-1], "max": max}
GATHER_S = 1.0  # a step of 8192 rollouts in 8 processes then takes about a hundred journal entries, not 8192

logger = logging.getLogger("bots_client")
_said = Reminder()


@contextmanager
def guarded(what: str) -> Iterator[None]:
    """Log what reporting the named rewards raises within the block, once a minute: it never ends a training step.

    All adapters, decorators and recipes report within it. Only mistakes raise, such as a reward outside the run's
    range, unless the client has on_mistake="warn". It is also a decorator, though not of coroutine functions.
    """
    try:
        yield
    except Exception as error:
        if is_mistake(error):
            raise
        if _said.is_due(f"{what}: {error}"):
            logger.warning("%s are not reported: %s", what, error)


def named(reward: Any, name: str) -> Any:
    """Return one of a rollout's rewards by its name, or their sum: "sum", unless a reward has this name.

    reward: a mapping of names to numbers, arrays or tensors; anything else is returned as it is. A LookupError if none
        has the name.
    """
    if not isinstance(reward, Mapping):
        return reward
    return sum(reward.values()) if name == "sum" and name not in reward else _required(reward, name)


def reports_groups(
    selector: Selector,
    *,
    tasks_per_step: int | None = None,
    gather: Gather = list,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for functions of a batch: `(prompts, completions, **columns) -> list of rewards`.

    TRL, ms-swift and tunix call reward functions this way, with one value per rollout in every column of the dataset,
    of which `task_id` and `selection_id` are as in `SelectedTasks`: rows without a selection are of an evaluation, and
    are not reported.
    The rewards of each task become its evidence, and the call closes the training step. None, NaN and infinite mean
    "not applicable": no evidence. Decorate only the function that measures success. Coroutine functions are supported.

    Args:
        tasks_per_step: close a step after this many tasks, for trainers that score group by group; None: each call
            closes one.
        gather: collects the rollouts of all ranks on one of them if groups span ranks:
            `bots_client.integrations.torch.to_rank_zero`. By default each rank reports its own part of a group.
    """
    is_training = _telling_training()
    open_tasks = 0

    def report(calls: list[list[Rollout]]) -> None:
        nonlocal open_tasks
        for call in calls:
            tasks, selections, rewards = zip(*call, strict=True)
            open_tasks += observe_groups(selector, tasks, rewards, selections)
            if open_tasks and open_tasks >= (tasks_per_step or 0):
                selector.step()
                open_tasks = 0

    queue = BackgroundQueue(report)

    def rollouts_of(result: object, columns: Mapping[str, Any]) -> list[Rollout]:
        if not is_training(columns):
            return []
        tasks = [str(task) for task in _required(columns, "task_id")]  # the column may hold numbers
        if isinstance(result, Iterator):
            raise TypeError(f"rewards must be a list or an array, got {type(result).__name__}")  # it would be used up
        rollouts = zip(tasks, columns[SELECTION_ID], rewards_of(result), strict=True)
        return [rollout for rollout in rollouts if rollout[1] is not None]

    def take(result: object, columns: Mapping[str, Any]) -> None:
        own: list[Rollout] = []
        try:
            own = rollouts_of(result, columns)
        finally:  # even with no rollouts: otherwise the other ranks would wait without end
            rollouts = gather(own)
            if rollouts:
                queue.add(rollouts)

    return lambda function: looked_at(function, take, queue)


def reports_rollouts(
    client: ResilientClient,
    dataset: str,
    *,
    run: str = "default",
    group_size: int | None = None,
    close_step: bool | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for functions of one rollout that return a number, or a mapping with one under "score".

    If the mapping has "acc", the degree of success in [0, 1], the belief learns from it. The `task_id` and
    `selection_id` are read from the arguments: verl passes the row's `extra_info`, AReaL the row's columns. A row
    without a selection is of an evaluation, and is not reported. None, NaN and infinite mean "not applicable": no
    evidence. Coroutine functions are supported. It works in many processes at once; because none of them knows when a
    step ends, create the run with `tasks_per_step`, or let the trainer close steps.

    Args:
        group_size: number of rollouts of each task, such as 8. A group then counts once, when all of its rollouts have
            come, however far apart they end. None: those that end within a second count together.
        close_step: None: the run's `tasks_per_step` decides; False: something else closes the steps.
    """
    about = {"dataset": dataset, "run": run, "close_step": close_step}
    rollouts = Rollouts[str](lambda selection: (client, {**about, "selection": selection or None}))
    is_training = _telling_training()

    def take(result: object, given: Mapping[str, Any]) -> None:
        extra = given.get("extra_info")
        row = extra if isinstance(extra, Mapping) else given
        if is_training(row):
            task = str(_required(row, "task_id"))
            rollouts.add(row[SELECTION_ID], task, *score_and_success(result), group_size=group_size)

    return lambda function: looked_at(function, take, rollouts.queue)


def _telling_training() -> Callable[[Mapping[str, Any]], bool]:
    """Return what tells whether a row, or the columns of several, are of the training.

    Those name the selection that chose them, if only as "" in an outage. A LookupError if none did so far.
    """
    has_met_one = False

    def is_training(row: Mapping[str, Any]) -> bool:
        nonlocal has_met_one
        named = row.get(SELECTION_ID) is not None
        has_met_one |= named
        if not has_met_one:
            raise LookupError(
                f"rows without {SELECTION_ID!r} are taken for those of an evaluation, and no others have come so far;"
                f" SelectedTasks adds it to the rows of a training, here are {', '.join(row)}"
            )
        return named

    return is_training


class BackgroundQueue(Generic[T]):
    """A queue whose items are processed in batches on its own thread.

    A process exits only after all items are processed, even one started by multiprocessing. After a fork the queue is
    empty.

    deal_with: called with the items in order; its exceptions are logged, and mistakes kept for `raise_mistake`.
    gather_s: how long the first item of a batch waits for others.
    """

    def __init__(self, deal_with: Callable[[list[T]], None], gather_s: float = 0.0) -> None:
        self._deal_with = deal_with
        self._gather_s = gather_s
        self._begin()
        _queues.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._hurry = threading.Event()
        self._things: list[T] = []
        self._work: Future[None] | None = None  # the last batch
        self._mistake: RequestError | None = None
        # Not a daemon thread: a process waits for it, and atexit handlers don't run in all processes.
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="bots-rewards")

    def add(self, thing: T) -> None:
        with self._lock:
            self._things.append(thing)
            if len(self._things) == 1:
                self._work = self._executor.submit(self._run)

    def wait(self, seconds: float) -> bool:
        """Wait until all items are processed; return False on a timeout."""
        self._hurry.set()
        _, waiting = wait([self._work] if self._work else [], seconds)
        self._hurry.clear()
        return not waiting

    def raise_mistake(self) -> None:
        """Raise the last mistake of a batch, such as a reward outside the run's range, if there is one."""
        error, self._mistake = self._mistake, None
        if error is not None:
            raise error

    def _run(self) -> None:
        self._hurry.wait(self._gather_s)
        with self._lock:
            things, self._things = self._things, []
        try:
            self._deal_with(things)
        except Exception as error:
            logger.exception("the rewards of %d calls are not reported", len(things))
            # A dataset that is missing is raised by the next selection; here the trainer may be about to create it.
            if isinstance(error, RequestError) and not isinstance(error, NotFoundError):
                self._mistake = error


def flush(deadline_s: float = 10.0) -> bool:
    """Wait until the rewards of this process are reported, as its exit does too; return False on a timeout."""
    until = time.monotonic() + deadline_s
    return all(queue.wait(max(0.0, until - time.monotonic())) for queue in list(_queues))


def _begin_all() -> None:
    for queue in list(_queues):
        queue._begin()


_queues: WeakSet[BackgroundQueue[Any]] = WeakSet()  # a queue with items is kept alive by its work
if hasattr(os, "register_at_fork"):  # Windows has no fork; locks and threads do not survive one
    os.register_at_fork(after_in_child=_begin_all)


class Rollouts(Generic[Origin]):
    """Collects the rewards of single rollouts for a moment, then sends one report for each origin.

    reporting_of: returns the client that reports the rollouts of an origin, such as a selection, and how: what its
        `report` takes besides the outcomes.
    """

    def __init__(self, reporting_of: Callable[[Origin], tuple[ResilientClient, dict[str, Any]]]) -> None:
        self._reporting_of = reporting_of
        self.queue = BackgroundQueue(self._report_all, GATHER_S)

    def add(
        self, origin: Origin, task: str, reward: object, success: object = None, *, group_size: int | None = None
    ) -> None:
        """Add the reward of one rollout; rollouts with the same origin share a report.

        reward: the optimised one, in the run's reward range unless a success, in [0, 1], is given; None, NaN or
            infinite: the rollout is left out.
        group_size: number of rollouts of the whole group; None: all those of it that are at hand are the group.
        """
        self.queue.add((origin, task, group_size, reward_of(reward), reward_of(success)))

    def _report_all(self, rollouts: list[tuple[Origin, str, int | None, float | None, float | None]]) -> None:
        by_origin: dict[Origin, dict[tuple[str, int | None, bool], list[tuple[float | None, float | None]]]] = {}
        for origin, task, size, reward, success in rollouts:
            groups = by_origin.setdefault(origin, {})
            groups.setdefault((task, size, success is None), []).append((reward, success))
        for origin, groups in by_origin.items():
            client, how = self._reporting_of(origin)
            outcomes = [_outcome_of(task, group, size) for (task, size, _), group in groups.items()]
            # Where every rollout at hand is left out, others of the group may still run: its lease stays.
            lost = [outcome for outcome in outcomes if outcome.is_aborted and outcome.group_size is None]
            client._leave_out(sum(outcome.left_out for outcome in lost))
            if rest := [outcome for outcome in outcomes if outcome not in lost]:
                client.report(outcomes=rest, **how)


def _outcome_of(task: str, rollouts: Sequence[tuple[float | None, float | None]], group_size: int | None) -> Outcome:
    """Return the outcome of (reward, success) pairs; all have a success, or none."""
    if rollouts[0][1] is None:
        return Outcome.rewards(task, [reward for reward, _ in rollouts], group_size=group_size)
    rewards, successes = counted(rollouts)
    return Outcome.counts(task, successes, len(rewards), rewards=rewards, group_size=group_size)


def counted(rollouts: Iterable[tuple[object, object]]) -> tuple[list[float | None], float]:
    """Return the rewards of (reward, success) pairs, and the sum of the successes.

    A rollout without a usable success has no reward either, so that it is left out.
    """
    pairs = [(reward_of(reward), reward_of(success)) for reward, success in rollouts]
    rewards = [None if success is None else reward for reward, success in pairs]
    return rewards, math.fsum(success for reward, success in pairs if reward is not None and success is not None)


def differ(rewards: Iterable[float | None]) -> bool:
    """Return whether those rewards of a group that there are give a gradient."""
    known = [reward for reward in rewards if reward is not None]
    return bool(known) and max(known) - min(known) > EQUAL


def score_and_success(result: object) -> tuple[object, object]:
    """Return the reward in a reward function's result, and its success if the result is a mapping that has one."""
    return named(result, "score"), result.get("acc") if isinstance(result, Mapping) else None


def observe_groups(
    selector: Selector,
    tasks: Iterable[str],
    rewards: Iterable[SupportsFloat | None],
    selections: Iterable[str] | None = None,
) -> int:
    """Pass the rewards of rollouts to a selector, grouped by task; return the number of tasks with evidence.

    tasks, rewards: of each rollout; None, NaN and infinite: left out. A task with no others is reported as aborted.
    selections: the id of each rollout's selection; "" and None: the selector finds it.

    Raises ValueError: a reward is not a number.
    """
    groups: dict[tuple[str, str], list[float | None]] = {}
    tasks = list(tasks)
    if selections is None:
        selections = [""] * len(tasks)
    for task, selection, reward in zip(tasks, selections, rewards_of(rewards), strict=True):
        groups.setdefault((task, selection), []).append(reward)
    for (task, selection), of_task in groups.items():
        selector.observe(task, of_task, selection=selection or None)
    return sum(any(reward is not None for reward in of_task) for of_task in groups.values())


class SplitRollouts:
    """Makes one reward of those of a rollout's samples, such as its sub-agents' or the parts around a compaction.

    rollout_reward: "sum", for rewards that are divided among the samples, "last" or "max". None: equal ones are one;
        where they differ the last one counts, and this is logged. A ValueError if it is none of these.
    option: what the trainer's configuration calls it, for messages.
    """

    def __init__(self, rollout_reward: str | None, *, option: str) -> None:
        if rollout_reward not in (None, *WAYS):
            raise ValueError(f"{option} is {rollout_reward!r}; pass {', '.join(WAYS)}, or leave it out")
        self._way = rollout_reward
        self._option = option
        self._said = Reminder()

    def reward(self, samples: Sequence[object]) -> float | None:
        """Return the reward of a rollout; None if a sample has none, so that the rollout is left out."""
        values = [value for value in map(reward_of, samples) if value is not None]
        if not values or len(values) < len(samples):
            return None
        if self._way is None and max(values) - min(values) > EQUAL and self._said.is_due(self._option):
            logger.warning(
                "the samples of a rollout have different rewards, such as %s: the last one counts; set %s to %s to say"
                " which it is",
                ", ".join(f"{value:g}" for value in values[:8]),
                self._option,
                " or ".join(WAYS),
            )
        return WAYS[self._way or "last"](values)

    def measured(
        self, rewards: Sequence[Sequence[object]], successes: Sequence[Sequence[object]] | None
    ) -> tuple[list[float | None], float | None]:
        """Return the reward of each rollout of a group, None for one that is left out, and the number of successes.

        rewards, successes: of the samples of each rollout; without successes, which the rewards then stand for, no
            number is returned.
        """
        of_rollouts = [self.reward(samples) for samples in rewards]
        if successes is None:
            return of_rollouts, None
        return counted(zip(of_rollouts, map(self.success, successes), strict=True))

    def success(self, samples: Sequence[object]) -> float | None:
        """Return the success of a rollout, in [0, 1]: the samples have it whole, or in parts."""
        success = self.reward(samples)
        return success if success is None or self._way != "sum" else min(1.0, success)


def looked_at(
    function: Callable[P, R], take: Callable[[object, Mapping[str, Any]], None], queue: BackgroundQueue[Any]
) -> Callable[P, R]:
    """Return the function wrapped so that `take` sees its results and its arguments by name, guarded.

    queue: whose mistakes the function raises.
    """
    name = getattr(function, "__name__", type(function).__name__)
    parameters = list(inspect.signature(function).parameters)

    def look(result: object, positional: tuple[object, ...], by_name: Mapping[str, Any]) -> None:
        with guarded(f"rewards of {name}"):
            take(result, {**dict(zip(parameters, positional, strict=False)), **by_name})
        queue.raise_mistake()

    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):

        @functools.wraps(function)
        async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
            result = await cast(Any, function)(*args, **kwargs)
            look(result, args, kwargs)
            return result

        awaited.__name__ = name
        return cast(Callable[P, R], awaited)

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        result = function(*args, **kwargs)
        look(result, args, kwargs)
        return result

    called.__name__ = name  # trainers use it in logs, and a callable object has none
    return called


def _required(row: Mapping[str, Any], name: str) -> Any:
    if name not in row:
        raise LookupError(f"{name!r} is not one of {', '.join(row)}")
    return row[name]
