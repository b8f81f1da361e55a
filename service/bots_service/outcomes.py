"""Reports: what trainers say of rollouts, and the entry that it makes for the journal."""

import math
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct

from bots_service.core.arrays import Tasks, frozen, united, without
from bots_service.core.checks import Name, TaskId
from bots_service.core.entries import NO_PARTS, GroupParts, Report
from bots_service.core.evidence import (
    MAX_TRIALS,
    MOST_SPENT,
    Costs,
    Evidence,
    counts_of_rewards,
    counts_of_trials,
    rewards_differ,
)
from bots_service.core.state import RunState
from bots_service.core.walks import Walk
from bots_service.datasets import OpenRun, unknown_tasks
from bots_service.errors import Flaw, InvalidOutcomesError, StaleEpochError
from bots_service.selections import LONGEST_ID, read_id

MAX_OUTCOMES = 65_536

Spent = Annotated[float, Meta(ge=0, le=MOST_SPENT)]


class Outcome(Struct, frozen=True, forbid_unknown_fields=True):
    """What became of one selected task: counts, rewards or both; or nothing, because it was aborted.

    The belief learns from successes and trials, or from rewards where those are missing. A group has at most 4096
    trials, as counts or as rewards.

    task: the task's id.
    successes: how many trials succeeded; a fraction where trials succeed in part.
    trials: how many rollouts the task had.
    rewards: one for each trial, as the trainer optimises them. With counts they only say whether the group is
        effective, and may leave the run's reward range. Null: a rollout that broke; it is left out, and is no trial.
        Where all are null, the task is aborted.
    effective: whether the group has a gradient; left out, rewards say so, or counts without them.
    tokens: how many tokens all of these rollouts generated.
    seconds: how many accelerator seconds all of these rollouts took: one for each accelerator in each second.
    status: "aborted" if the task brought nothing; tokens and seconds may say what it cost.
    group_size: how many rollouts the whole group has, where this outcome brings only some of them. The parts of one
        selected task wait for each other, and count as one group when so many have come; when an outcome without a
        group size, or an abort, says that no more will come; or when the task's lease has run out.
    """

    task: TaskId
    successes: float | None = None
    trials: float | None = None
    rewards: Annotated[list[float | None], Meta(max_length=MAX_TRIALS)] | None = None
    effective: bool | None = None
    tokens: Spent | None = None
    seconds: Spent | None = None
    status: Literal["aborted"] | None = None
    group_size: Annotated[int, Meta(ge=1, le=MAX_TRIALS)] | None = None

    @property
    def given_rewards(self) -> list[float] | None:
        """The rewards of the rollouts that have one."""
        return None if self.rewards is None else [reward for reward in self.rewards if reward is not None]


class ReportRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What rollouts showed.

    outcomes: what became of each task.
    selection_id: the selection whose tasks these are.
    close_step: whether the training step closes now; left out, it does, unless the run's `tasks_per_step` closes steps.
    """

    dataset: Name
    outcomes: Annotated[list[Outcome], Meta(max_length=MAX_OUTCOMES)]
    run: Name = "default"
    selection_id: Annotated[str, Meta(max_length=LONGEST_ID)] | None = None
    close_step: bool | None = None


def read_report(request: ReportRequest, run: OpenRun, state: RunState, now: float) -> Report:
    """Return the journal entry of a report, once it is possible in the run's newest state.

    now: seconds since 1970, UTC.

    Raises InvalidOutcomesError: a task is unknown, or an outcome can't be true; InvalidSelectionError: the selection
    was not made by this run; StaleEpochError: the selection was made before the run was rewound.
    """
    ids = [outcome.task for outcome in request.outcomes]
    tasks = run.dataset.ids.find(ids)
    unknown = unknown_tasks(ids, tasks, "body", "outcomes", within=("task",))
    InvalidOutcomesError.refuse(f"dataset {run.dataset.row.name!r} has no such tasks", unknown)
    evidence, aborted, parts = read_outcomes(tasks, request.outcomes, state.settings.reward_range)
    made_at: int | None = None
    walks: tuple[Walk, ...] = ()
    selection = (0, 0)
    if request.selection_id is not None:
        origin = read_id(run.row, request.selection_id)
        if origin.epoch != state.epoch:
            raise StaleEpochError(
                f"evidence of epoch {origin.epoch}; run {run.row.name!r} was rewound to epoch {state.epoch}"
            )
        if origin.step > state.step:
            raise StaleEpochError(
                f"the selection was made at step {origin.step}, but run {run.row.name!r} stands at step {state.step}: "
                "the database was restored to an earlier time"
            )
        made_at, walks, selection = origin.step, origin.walks, (origin.seq, origin.ordinal)
    tokens = math.fsum([one.tokens for one in request.outcomes if one.tokens])
    seconds = math.fsum([one.seconds for one in request.outcomes if one.seconds])
    return Report(evidence, made_at, request.close_step, walks, Costs(tokens, seconds), aborted, parts, selection, now)


def read_outcomes(
    tasks: Tasks, outcomes: list[Outcome], reward_range: tuple[float, float]
) -> tuple[Evidence, Tasks, GroupParts]:
    """Return what outcomes show: of whole groups, and of parts of groups; between them, sorted, the aborted tasks.

    Raises InvalidOutcomesError: an outcome can't be true; carries the first flaws.
    """
    kept: list[int] = []
    aborted: list[int] = []
    groups: list[tuple[float, float, bool]] = []
    parts: list[tuple[float, ...]] = []
    flaws: list[Flaw] = []
    for place, outcome in enumerate(outcomes):
        try:
            if outcome.group_size is not None:
                parts.append((tasks[place], outcome.group_size, *_part(outcome, outcome.group_size, reward_range)))
            elif (shown := _shown(outcome, reward_range)) is None:
                aborted.append(place)
            else:
                kept.append(place)
                groups.append(shown)
        except ValueError as error:
            flaws.append(Flaw(("body", "outcomes", place), f"task {outcome.task!r}: {error}"))
    InvalidOutcomesError.refuse("invalid outcomes", flaws)
    successes, failures, effective = np.array(groups, np.float64).reshape(-1, 3).T.copy()
    evidence = Evidence(frozen(tasks[kept]), frozen(successes), frozen(failures), frozen(effective.astype(bool)))
    return evidence, frozen(without(united(tasks[aborted]), evidence.tasks)), _table_of(parts)


def _table_of(parts: list[tuple[float, ...]]) -> GroupParts:
    if not parts:
        return NO_PARTS
    tasks, *numbers = np.array(parts, np.float64).T.copy()
    return GroupParts(frozen(tasks.astype(np.int32)), *map(frozen, numbers))


def _part(outcome: Outcome, size: int, reward_range: tuple[float, float]) -> tuple[float, ...]:
    """Return what a part says, as in `GroupParts` from `rollouts` on; ValueError says what is wrong."""
    for name, value in (("effective", outcome.effective), ("status", outcome.status)):
        if value is not None:
            raise ValueError(f'"{name}" and "group_size" exclude each other')
    given = outcome.given_rewards
    if outcome.rewards and not given and outcome.successes is outcome.trials is None:
        successes = failures = lowest = highest = 0.0
    else:
        successes, failures = _counts(outcome, given, reward_range)
        lowest, highest = float(failures == 0), float(successes > 0)
    if given:
        rewards_differ(given, reward_range)  # raises where one is not finite
        width = reward_range[1] - reward_range[0]
        lowest, highest = min(given) / width, max(given) / width
    rollouts = successes + failures + len(outcome.rewards or ()) - len(given or ())
    if rollouts > size:
        raise ValueError(f"{rollouts:g} rollouts of a group of {size}")
    return (rollouts, successes, failures, lowest, highest)


def _shown(outcome: Outcome, reward_range: tuple[float, float]) -> tuple[float, float, bool] | None:
    """Return successes, failures, and whether the group has a gradient; None if nothing came of the task.

    Raises ValueError: the outcome can't be true; the message says why.
    """
    rewards, is_effective = outcome.given_rewards, outcome.effective
    is_uncounted = outcome.successes is outcome.trials is None
    if outcome.status is not None:
        if not is_uncounted or rewards is not None or is_effective is not None:
            raise ValueError('"status": "aborted" stands alone, without counts, rewards or "effective"')
        return None
    if is_uncounted and outcome.rewards and not rewards and is_effective is None:
        return None
    successes, failures = _counts(outcome, rewards, reward_range)
    shown = min(successes, failures) > 0 if rewards is None else rewards_differ(rewards, reward_range)
    return successes, failures, shown if is_effective is None else is_effective


def _counts(outcome: Outcome, rewards: list[float] | None, reward_range: tuple[float, float]) -> tuple[float, float]:
    """Return successes and failures. Raises ValueError: they can't be true; the message says why."""
    if outcome.successes is None and outcome.trials is None:
        if rewards is None:
            raise ValueError('give "successes" and "trials", or "rewards", or both, or "status": "aborted"')
        return counts_of_rewards(rewards, reward_range)
    if outcome.successes is None or outcome.trials is None:
        raise ValueError('"successes" and "trials" belong together')
    if rewards is not None and len(rewards) != outcome.trials:
        raise ValueError(f"{len(rewards)} rewards of {outcome.trials:g} trials; give one for each trial")
    return counts_of_trials(outcome.successes, outcome.trials)
