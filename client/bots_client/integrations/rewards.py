"""Decorators for reward functions: what rollouts earned reaches the service from where every trainer computes it.

What is decorated returns exactly what it returned before, as fast as before: reports go out on a thread of their own,
and what goes wrong with them is logged. Needs no trainer, so it goes with all of them.
"""

import functools
import inspect
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, cast

from bots_client import Outcome, ResilientClient, Selector
from bots_client.integrations._background import BackgroundQueue, flush

__all__ = ["flush", "observe_groups", "reports_groups", "reports_rollouts"]

P = ParamSpec("P")
R = TypeVar("R")
Origin = TypeVar("Origin")
Rollout = tuple[str, str, float]  # its task, the id of its selection, its reward
Gather = Callable[[list[Rollout]], list[Rollout]]

GATHER_S = 1.0  # a step of 8192 rollouts from 8 processes then makes some hundred journal entries, not 8192

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

    TRL, ms-swift and tunix call such, with a value per rollout in every column of the dataset. The rewards of each task
    become its evidence, and the call closes the training step. None and NaN mean "not applicable": no evidence.
    Decorate one function, the one that tells success; coroutine functions stay such.

    Args:
        selector: of the job.
        task_column: the column with the task's id.
        selection_column: the column with the id of its selection, as `SelectedTasks` gives it; without one the
            selector knows.
        tasks_per_step: closes the step only after so many tasks, for trainers that score group by group; None: each
            call closes one.
        gather: brings the rollouts of all ranks to one of them, where groups lie on several ranks:
            `bots_client.integrations.torch.to_rank_zero`. By default each rank reports its own part of a group.
    """
    queue = BackgroundQueue(functools.partial(_observe_calls, selector, tasks_per_step or 0, [0]))

    def rollouts_of(result: object, columns: Mapping[str, Any]) -> list[Rollout]:
        tasks = [str(task) for task in _required(columns, task_column)]  # a column of numbers holds no texts
        selections = columns.get(selection_column)
        if selections is None:
            selections = [""] * len(tasks)
        return list(zip(tasks, selections, _numbers(result), strict=True))

    def take(result: object, columns: Mapping[str, Any]) -> None:
        own: list[Rollout] = []
        try:
            own = rollouts_of(result, columns)
        finally:  # with none, if it came to that: the other ranks would wait for ever
            rollouts = gather(own)
            if rollouts:
                queue.add(rollouts)

    return lambda function: looked_at(function, take)


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
    """Return a decorator for functions of one rollout, which give a number, or a mapping with one.

    verl calls such with the row's `extra_info`, AReaL with the row's columns; there the ids are looked for. None and
    NaN mean "not applicable": no evidence. Coroutine functions stay such. It works in any process, many at once, so
    none of them knows when a step is over: create the run with `tasks_per_step`, or let the trainer close the steps.

    Args:
        client: sends the reports.
        dataset: the pool.
        run: of it.
        task_key: under which the row holds the task's id.
        selection_key: under which it holds the id of its selection; without one the evidence counts as of now.
        score_key: under which a mapping holds the reward that is optimised.
        success_key: under which it may hold how far the task was solved, in [0, 1]; the belief then learns that.
        close_step: None leaves it to the run's `tasks_per_step`; False where something else closes the steps.
    """

    def report(selection: str, outcomes: list[Outcome]) -> None:
        client.report(dataset, outcomes, run=run, selection=selection or None, close_step=close_step)

    rollouts = Rollouts(report)

    def take(result: object, given: Mapping[str, Any]) -> None:
        extra = given.get("extra_info")
        row = extra if isinstance(extra, Mapping) else given
        origin, task = row.get(selection_key) or "", str(_required(row, task_key))
        rollouts.add(origin, task, *score_and_success(result, score_key, success_key))

    return lambda function: looked_at(function, take)


class Rollouts(Generic[Origin]):
    """Rewards of single rollouts on their way to the service: gathered for a moment, then a report for each origin.

    Args:
        report: gets an origin, such as a selection, and what came of its tasks.
    """

    def __init__(self, report: Callable[[Origin, list[Outcome]], object]) -> None:
        self._report = report
        self._queue = BackgroundQueue(self._report_all, GATHER_S)

    def add(self, origin: Origin, task: str, reward: object, success: object = None) -> None:
        """Take what one rollout earned; a reward that is None or NaN is no evidence.

        Args:
            origin: what it is reported with.
            task: its id.
            reward: what is optimised, in the run's reward range unless a success is given.
            success: how far the task was solved, in [0, 1]; None and NaN: the reward says so.

        Raises:
            InvalidRequestError, TypeError, ValueError: one is no finite number, and left out.
        """
        earned, solved = _number(reward), _number(success)
        if not math.isnan(earned):
            _outcome_of(task, [(earned, solved)])
            self._queue.add((origin, task, earned, solved))

    def _report_all(self, rollouts: list[tuple[Origin, str, float, float]]) -> None:
        by_origin: dict[Origin, dict[tuple[str, bool], list[tuple[float, float]]]] = {}
        for origin, task, *earned in rollouts:
            group = (task, math.isnan(earned[1]))
            by_origin.setdefault(origin, {}).setdefault(group, []).append((earned[0], earned[1]))
        for origin, groups in by_origin.items():
            self._report(origin, [_outcome_of(task, group) for (task, _), group in groups.items()])


def _outcome_of(task: str, rollouts: Sequence[tuple[float, float]]) -> Outcome:
    """Return what the rewards and successes of some rollouts show; NaN instead of all successes: there are none."""
    rewards, successes = zip(*rollouts, strict=True)
    if math.isnan(successes[0]):
        return Outcome.rewards(task, rewards)
    return Outcome.counts(task, math.fsum(successes), len(rewards), rewards=rewards)


def score_and_success(result: object, score_key: str, success_key: str) -> tuple[object, object]:
    """Return what a reward function said of a rollout: its reward and, from a mapping that has it, its success."""
    if isinstance(result, Mapping):
        return result[score_key], result.get(success_key)
    return result, None


def observe_groups(
    selector: Selector, tasks: Iterable[str], rewards: Iterable[float], selections: Iterable[str] | None = None
) -> int:
    """Hand a selector the rewards of rollouts, grouped by their tasks; returns how many tasks there was evidence of.

    Args:
        selector: of the job.
        tasks: the task of each rollout.
        rewards: of each rollout; NaN: not applicable. A task with no other gives its lease back.
        selections: the id of each rollout's selection; "" and None: the selector knows.
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


def looked_at(function: Callable[P, R], take: Callable[[object, Mapping[str, Any]], None]) -> Callable[P, R]:
    """Return the function, whose results and arguments, by name, are taken a look at.

    Whatever goes wrong with that is logged, once.
    """
    name = getattr(function, "__name__", type(function).__name__)
    parameters = list(inspect.signature(function).parameters)
    said = [""]

    def look(result: object, positional: tuple[object, ...], named: Mapping[str, Any]) -> None:
        try:
            take(result, {**dict(zip(parameters, positional, strict=False)), **named})
        except Exception as error:  # a reward function must go on, whatever its arguments lack
            if said[0] != str(error):
                logger.warning("rewards of %s are not reported: %s", name, error)
            said[0] = str(error)

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

    called.__name__ = name  # trainers log by it, and an object that is called has none
    return called


def _required(row: Mapping[str, Any], name: str) -> Any:
    if name not in row:
        raise LookupError(f"there is no {name!r} among {', '.join(row)}")
    return row[name]


def _numbers(result: object) -> list[float]:
    """Return a copy of the rewards of a batch.

    Raises:
        TypeError: they are no sequence; an iterator must not be used up.
    """
    values = result.tolist() if hasattr(result, "tolist") else result
    if not isinstance(values, Sequence):
        raise TypeError(f"rewards came as {type(result).__name__}, where a list or an array is needed")
    return [_number(value) for value in values]


def _number(value: object) -> float:
    return math.nan if value is None else float(cast(float, value))
