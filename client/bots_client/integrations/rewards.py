"""Decorators for reward functions: they report rewards to the service from the place where a trainer computes them.

A decorated function returns exactly what it returned before, as fast as before: reports are sent on a separate thread,
and failures are logged. Only a mistake raises, such as a reward outside the run's range, from the next call. The
decorators need no trainer, so they work with all of them.
"""

import functools
import inspect
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, cast

from bots_client import Outcome, ResilientClient, Selector
from bots_client._resilience.connection import Reminder
from bots_client.integrations._background import BackgroundQueue, flush

__all__ = ["flush", "observe_groups", "reports_groups", "reports_rollouts"]

P = ParamSpec("P")
R = TypeVar("R")
Origin = TypeVar("Origin")
Rollout = tuple[str, str, float]  # its task, the id of its selection, its reward
Gather = Callable[[list[Rollout]], list[Rollout]]

GATHER_S = 1.0  # a step of 8192 rollouts in 8 processes then takes about a hundred journal entries, not 8192

logger = logging.getLogger("bots_client")


def reports_groups(
    selector: Selector,
    *,
    task_column: str = "task_id",
    selection_column: str = "selection_id",
    tasks_per_step: int | None = None,
    gather: Gather = list,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for functions of a batch: `(prompts, completions, **columns) -> list of rewards`.

    TRL, ms-swift and tunix call reward functions this way, with one value per rollout in every column of the dataset.
    The rewards of each task become its evidence, and the call closes the training step. None and NaN mean "not
    applicable": no evidence. Decorate only the function that measures success. Coroutine functions are supported.

    Args:
        selector: the job's selector.
        task_column: the column with the task's id.
        selection_column: the column with the id of its selection, as in `SelectedTasks`; if it is missing, the
            selector finds the selection.
        tasks_per_step: close a step after this many tasks, for trainers that score group by group; None: each call
            closes one.
        gather: collects the rollouts of all ranks on one of them if groups span ranks:
            `bots_client.integrations.torch.to_rank_zero`. By default each rank reports its own part of a group.
    """
    queue = BackgroundQueue(functools.partial(_observe_calls, selector, tasks_per_step or 0, [0]))

    def rollouts_of(result: object, columns: Mapping[str, Any]) -> list[Rollout]:
        tasks = [str(task) for task in _required(columns, task_column)]  # the column may hold numbers
        selections = columns.get(selection_column)
        if selections is None:
            selections = [""] * len(tasks)
        return list(zip(tasks, selections, _numbers(result), strict=True))

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
    task_key: str = "task_id",
    selection_key: str = "selection_id",
    score_key: str = "score",
    success_key: str = "acc",
    close_step: bool | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for functions of one rollout that return a number, or a mapping with one.

    The ids are read from the arguments: verl passes the row's `extra_info`, AReaL the row's columns. None and NaN mean
    "not applicable": no evidence. Coroutine functions are supported. It works in many processes at once; because none
    of them knows when a step ends, create the run with `tasks_per_step`, or let the trainer close the steps.

    Args:
        client: sends the reports.
        dataset: name of the dataset.
        run: name of the run.
        task_key: key of the task's id in the row.
        selection_key: key of its selection's id; without one the evidence counts for the current step.
        score_key: key of the optimised reward in a mapping.
        success_key: key of the degree of success, in [0, 1]; if present, the belief learns from it.
        close_step: None: the run's `tasks_per_step` decides; False: something else closes the steps.
    """

    def report(selection: str, outcomes: list[Outcome]) -> None:
        client.report(dataset, outcomes, run=run, selection=selection or None, close_step=close_step)

    rollouts = Rollouts(report)

    def take(result: object, given: Mapping[str, Any]) -> None:
        extra = given.get("extra_info")
        row = extra if isinstance(extra, Mapping) else given
        origin, task = row.get(selection_key) or "", str(_required(row, task_key))
        rollouts.add(origin, task, *score_and_success(result, score_key, success_key))

    return lambda function: looked_at(function, take, rollouts.queue)


class Rollouts(Generic[Origin]):
    """Collects the rewards of single rollouts for a moment, then sends one report for each origin.

    Args:
        report: called with an origin, such as a selection, and the outcomes of its tasks.
    """

    def __init__(self, report: Callable[[Origin, list[Outcome]], object]) -> None:
        self._report = report
        self.queue = BackgroundQueue(self._report_all, GATHER_S)

    def add(self, origin: Origin, task: str, reward: object, success: object = None) -> None:
        """Add the reward of one rollout; None and NaN are not evidence.

        Args:
            origin: rollouts with the same origin share a report.
            task: id of the task.
            reward: the optimised reward, in the run's reward range unless a success is given.
            success: degree of success, in [0, 1]; None and NaN: the reward is used.

        Raises:
            InvalidRequestError, TypeError, ValueError: a value is not a finite number; the rollout is left out.
        """
        earned, solved = _number(reward), _number(success)
        if not math.isnan(earned):
            _outcome_of(task, [(earned, solved)])
            self.queue.add((origin, task, earned, solved))

    def _report_all(self, rollouts: list[tuple[Origin, str, float, float]]) -> None:
        by_origin: dict[Origin, dict[tuple[str, bool], list[tuple[float, float]]]] = {}
        for origin, task, *earned in rollouts:
            group = (task, math.isnan(earned[1]))
            by_origin.setdefault(origin, {}).setdefault(group, []).append((earned[0], earned[1]))
        for origin, groups in by_origin.items():
            self._report(origin, [_outcome_of(task, group) for (task, _), group in groups.items()])


def _outcome_of(task: str, rollouts: Sequence[tuple[float, float]]) -> Outcome:
    """Return the outcome of (reward, success) pairs; the successes are all NaN if there are none."""
    rewards, successes = zip(*rollouts, strict=True)
    if math.isnan(successes[0]):
        return Outcome.rewards(task, rewards)
    return Outcome.counts(task, math.fsum(successes), len(rewards), rewards=rewards)


def score_and_success(result: object, score_key: str, success_key: str) -> tuple[object, object]:
    """Return the reward in a reward function's result, and its success if the result is a mapping that has one."""
    if isinstance(result, Mapping):
        return result[score_key], result.get(success_key)
    return result, None


def observe_groups(
    selector: Selector, tasks: Iterable[str], rewards: Iterable[float], selections: Iterable[str] | None = None
) -> int:
    """Pass the rewards of rollouts to a selector, grouped by task; return the number of tasks with evidence.

    Args:
        selector: the job's selector.
        tasks: the task of each rollout.
        rewards: of each rollout; NaN: not applicable. A task with only NaN is reported as aborted.
        selections: the id of each rollout's selection; "" and None: the selector finds it.
    """
    groups: dict[tuple[str, str], list[float]] = {}
    tasks = list(tasks)
    if selections is None:
        selections = [""] * len(tasks)
    for task, selection, reward in zip(tasks, selections, rewards, strict=True):
        groups.setdefault((task, selection), []).append(reward)
    applied = 0
    for (task, selection), all_rewards in groups.items():
        applicable = [reward for reward in all_rewards if not math.isnan(reward)]
        if applicable:
            selector.observe(task, applicable, selection=selection or None)
            applied += 1
        else:
            selector.abort(task, selection=selection or None)
    return applied


def _observe_calls(selector: Selector, tasks_per_step: int, open_tasks: list[int], calls: list[list[Rollout]]) -> None:
    for call in calls:
        tasks, selections, rewards = zip(*call, strict=True)
        open_tasks[0] += observe_groups(selector, tasks, rewards, selections)
        if open_tasks[0] and open_tasks[0] >= tasks_per_step:
            selector.step()
            open_tasks[0] = 0


def looked_at(
    function: Callable[P, R], take: Callable[[object, Mapping[str, Any]], None], queue: BackgroundQueue[Any]
) -> Callable[P, R]:
    """Return the function wrapped so that `take` sees its results and its arguments by name.

    Args:
        function: the trainer's.
        take: its failures are logged, the same one once a minute.
        queue: whose mistakes the function raises.
    """
    name = getattr(function, "__name__", type(function).__name__)
    parameters = list(inspect.signature(function).parameters)
    said = Reminder()

    def look(result: object, positional: tuple[object, ...], named: Mapping[str, Any]) -> None:
        try:
            take(result, {**dict(zip(parameters, positional, strict=False)), **named})
        except Exception as error:  # a reward function must not fail because of reporting
            if said.is_due(str(error)):
                logger.warning("rewards of %s are not reported: %s", name, error)
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


def _numbers(result: object) -> list[float]:
    """Return a copy of the rewards of a batch.

    Raises:
        TypeError: they are not a sequence; an iterator would be used up.
    """
    values = result.tolist() if hasattr(result, "tolist") else result
    if not isinstance(values, Sequence):
        raise TypeError(f"rewards must be a list or an array, got {type(result).__name__}")
    return [_number(value) for value in values]


def _number(value: object) -> float:
    return math.nan if value is None else float(cast(float, value))
