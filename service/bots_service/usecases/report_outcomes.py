"""POST /report: record what rollouts showed. Journal first, posterior second: what is acknowledged is never lost."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Literal, cast

import numpy as np
from msgspec import Meta, Struct

from bots_service.core.arrays import Tasks, frozen
from bots_service.core.checks import Name, TaskId
from bots_service.core.entries import Report
from bots_service.core.evidence import (
    MAX_TRIALS,
    MOST_SPENT,
    Costs,
    Evidence,
    counts_of_rewards,
    counts_of_trials,
    rewards_differ,
)
from bots_service.core.groups import NO_PARTS, GroupParts
from bots_service.core.receipt import Receipt
from bots_service.core.state import RunState
from bots_service.engine.catch_up import CatchUp
from bots_service.engine.open_runs import OpenRun, OpenRuns
from bots_service.errors import Flaw, InvalidInputError, InvalidOutcomesError, StaleEpochError
from bots_service.metrics.training import TrainingMetrics
from bots_service.ports.hot import Leases
from bots_service.ports.journal import Journal
from bots_service.ports.records import IdempotencyKey, NewEntry
from bots_service.usecases.selection_id import LONGEST_ID, Origin, read_id

MAX_OUTCOMES = 65_536


Spent = Annotated[float, Meta(ge=0, le=MOST_SPENT)]
LARGEST_STEP = 2**31 - 1  # as steps are stored
Age = Annotated[int, Meta(ge=0, le=LARGEST_STEP)]


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
        if self.rewards is None or None not in self.rewards:
            return cast("list[float] | None", self.rewards)
        return [reward for reward in self.rewards if reward is not None]


class ReportRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What rollouts showed.

    outcomes: what became of each task.
    selection_id: the selection whose tasks these are.
    age: of outcomes that are not of a selection: they count as if their tasks had been selected so many steps ago, and
        too late as if they had come too late. Left out: 0.
    close_step: whether the training step closes now; left out, it does, unless the run's `tasks_per_step` closes steps.
    """

    dataset: Name
    outcomes: Annotated[list[Outcome], Meta(max_length=MAX_OUTCOMES)]
    run: Name = "default"
    selection_id: Annotated[str, Meta(max_length=LONGEST_ID)] | None = None
    age: Age | None = None
    close_step: bool | None = None


@dataclass(frozen=True, slots=True)
class ReportResult:
    """What became of a report.

    receipt: what folding it did.
    duplicate: it is the first answer to the same key, given again.
    degraded: it is durable, but other replicas see it only once the shared store is back.
    """

    receipt: Receipt
    duplicate: bool
    degraded: bool


@dataclass(frozen=True, slots=True)
class ReportOutcomes:
    """Validate, append, catch up, end the leases."""

    open_runs: OpenRuns
    journal: Journal
    catch_up: CatchUp
    leases: Leases
    metrics: TrainingMetrics
    clock: Callable[[], float] = time.time

    async def __call__(self, request: ReportRequest, idempotency_key: IdempotencyKey | None) -> ReportResult:
        """Return what the report did.

        Raises:
            UnknownDatasetError, UnknownRunError: a name is not known.
            InvalidOutcomesError: an outcome or the age can't be true.
            InvalidSelectionError: the selection was not made by this run.
            StaleEpochError: the selection was made before the run was rewound.
            KeyReusedError: the key came with another report before.
        """
        try:
            reported = await self.open_runs.using(
                request.dataset, request.run, lambda run: self._report(run, request, idempotency_key)
            )
        except StaleEpochError:
            self.metrics.fenced(request.dataset, request.run)
            raise
        self.metrics.reported(
            request.dataset, request.run, reported.receipt, duplicate=reported.duplicate, degraded=reported.degraded
        )
        return reported

    async def _report(self, run: OpenRun, request: ReportRequest, key: IdempotencyKey | None) -> ReportResult:
        try:
            return await self._append(run, request, key)
        except (InvalidInputError, StaleEpochError):
            # What was true of it at first may not be by now. Looked up only here: most reports come once.
            first = None if key is None else await self.journal.find(run.row, key)
            if first is None:
                raise
            folded = await self.catch_up.receipt(run, first.seq)
            return ReportResult(folded.receipt, duplicate=True, degraded=folded.degraded)

    async def _append(self, run: OpenRun, request: ReportRequest, key: IdempotencyKey | None) -> ReportResult:
        state = await self._settings_state(run, request.outcomes)
        run = await self.open_runs.matching(run, state)  # another replica may have appended tasks
        origin = None if request.selection_id is None else read_id(run.row, request.selection_id)
        run, tasks = await self._tasks(run, request.outcomes)
        evidence, aborted = read_evidence(tasks, request.outcomes, state.settings.reward_range)
        parts = read_parts(tasks, request.outcomes, state.settings.reward_range)
        if origin is not None and _is_ahead(origin, state):
            state = (await self.catch_up.newest(run)).state
            if _is_ahead(origin, state):  # the selection may come from a replica that can't publish
                state = (await self.catch_up.current(run)).state
            if _is_ahead(origin, state):
                raise _from_the_future(run, origin, state.step)
        body = Report(
            evidence,
            None,
            request.close_step,
            costs=read_costs(request.outcomes),
            aborted=aborted,
            parts=parts,
            at=self.clock(),
        )
        if request.age is not None:
            body = replace(body, made_at=await self._made_at(run, request))
        if origin is not None:
            selection = (origin.seq, origin.ordinal)
            body = replace(body, made_at=origin.step, walks=origin.walks, selection=selection)
        epoch = None if origin is None else origin.epoch
        try:
            appended = await self.journal.append(run.row, NewEntry(body, run.dataset.pool.profiles, epoch, key))
        except StaleEpochError:
            await self.catch_up.current(run)  # else selections would follow a state from before a rewind
            raise
        folded = await self.catch_up.receipt(run, appended.entry.seq)
        if not appended.duplicate:  # at a retry the same tasks may be on lease to a later selection
            await self.leases.release(run.row, self._done(run, tasks, parts.tasks))
        return ReportResult(folded.receipt, appended.duplicate, folded.degraded)

    async def _made_at(self, run: OpenRun, request: ReportRequest) -> int:
        """Return the step that outcomes of this age are of.

        Raises:
            InvalidOutcomesError: the run is younger, or a selection says the step.
        """
        step, age = (await self.catch_up.newest(run)).state.step, request.age or 0
        if request.selection_id is not None:
            message = '"age" and "selection_id" exclude each other'
        elif age > step:
            message = f"{age} steps; {step} have closed: report what is older first, each step of it as one of its own"
        else:
            return step - age
        raise InvalidOutcomesError("invalid outcomes", (Flaw(("body", "age"), message),))

    def _done(self, run: OpenRun, tasks: Tasks, in_parts: Tasks) -> Tasks:
        """Return the tasks of a report that may be selected again: not those whose groups wait for more rollouts."""
        if not len(in_parts):
            return tasks
        known = self.catch_up.known(run)
        waiting = in_parts if known is None else known.state.unfinished.parts.tasks
        return np.setdiff1d(tasks, np.intersect1d(in_parts, waiting))

    async def _settings_state(self, run: OpenRun, outcomes: list[Outcome]) -> RunState:
        """Return a state whose settings say how to read these outcomes: rewards need the newest."""
        if all(outcome.rewards is None for outcome in outcomes):
            known = self.catch_up.known(run)
            if known is not None:
                return known.state
        return (await self.catch_up.newest(run)).state

    async def _tasks(self, run: OpenRun, outcomes: list[Outcome]) -> tuple[OpenRun, Tasks]:
        """Return the task of each outcome, and the run with its dataset as it must be to know them all."""
        try:
            return run, find_tasks(run, outcomes)
        except InvalidOutcomesError:  # another replica may have appended them just now
            fresh = await self.open_runs.fresh(run.dataset.row.name, run.row.name)
            return fresh, find_tasks(fresh, outcomes)


def _is_ahead(origin: Origin, state: RunState) -> bool:
    return origin.epoch == state.epoch and origin.step > state.step


def find_tasks(run: OpenRun, outcomes: list[Outcome]) -> Tasks:
    """Return the task of each outcome.

    Raises:
        InvalidOutcomesError: a task is unknown.
    """
    tasks = run.dataset.ids.find([outcome.task for outcome in outcomes])
    if (tasks < 0).any():
        flaws = tuple(
            Flaw(("body", "outcomes", place, "task"), f"no task {outcomes[place].task[:80]!r}")
            for place in np.flatnonzero(tasks < 0).tolist()
        )
        raise InvalidOutcomesError(f"dataset {run.dataset.row.name!r} has no such tasks", flaws[:20])
    return tasks


def read_evidence(tasks: Tasks, outcomes: list[Outcome], reward_range: tuple[float, float]) -> tuple[Evidence, Tasks]:
    """Return what the outcomes of whole groups show, and, sorted, the tasks that were aborted.

    Raises:
        InvalidOutcomesError: an outcome can't be true; carries the first flaws.
    """
    kept: list[int] = []
    aborted: list[int] = []
    counts: list[tuple[float, float]] = []
    effective: list[bool] = []
    flaws: list[Flaw] = []
    for place, outcome in enumerate(outcomes):
        if outcome.group_size is not None:
            continue
        try:
            if _is_aborted(outcome):
                aborted.append(place)
                continue
            counted = _counts(outcome, reward_range)
            flag = _is_effective(outcome, counted, reward_range)
        except ValueError as error:
            flaws.append(Flaw(("body", "outcomes", place), f"task {outcome.task!r}: {error}"))
            continue
        kept.append(place)
        counts.append(counted)
        effective.append(flag)
    if flaws:
        raise InvalidOutcomesError("invalid outcomes", tuple(flaws[:20]))
    successes, failures = np.array(counts, np.float64).reshape(-1, 2).T.copy()
    evidence = Evidence(frozen(tasks[kept]), frozen(successes), frozen(failures), frozen(np.array(effective, bool)))
    return evidence, frozen(np.setdiff1d(tasks[aborted], evidence.tasks))


def read_parts(tasks: Tasks, outcomes: list[Outcome], reward_range: tuple[float, float]) -> GroupParts:
    """Return what the outcomes with a group size show: parts of groups.

    Raises:
        InvalidOutcomesError: an outcome can't be true; carries the first flaws.
    """
    rows: list[tuple[float, ...]] = []
    flaws: list[Flaw] = []
    for place, outcome in enumerate(outcomes):
        if outcome.group_size is None:
            continue
        try:
            rows.append((tasks[place], outcome.group_size, *_part(outcome, reward_range)))
        except ValueError as error:
            flaws.append(Flaw(("body", "outcomes", place), f"task {outcome.task!r}: {error}"))
    if flaws:
        raise InvalidOutcomesError("invalid outcomes", tuple(flaws[:20]))
    if not rows:
        return NO_PARTS
    part_tasks, *numbers = np.array(rows, np.float64).T.copy()
    return GroupParts(frozen(part_tasks.astype(np.int32)), *map(frozen, numbers))


def _part(outcome: Outcome, reward_range: tuple[float, float]) -> tuple[float, ...]:
    """Return what a part says, as in `GroupParts` from `rollouts` on; ValueError says what is wrong."""
    for name, value in (("effective", outcome.effective), ("status", outcome.status)):
        if value is not None:
            raise ValueError(f'"{name}" and "group_size" exclude each other')
    size, given = outcome.group_size or 0, outcome.given_rewards
    if outcome.rewards and not given and outcome.successes is outcome.trials is None:
        successes = failures = lowest = highest = 0.0
    else:
        successes, failures = _counts(outcome, reward_range)
        lowest, highest = float(failures == 0), float(successes > 0)
    if given:
        rewards_differ(given, reward_range)  # raises where one is not finite
        width = reward_range[1] - reward_range[0]
        lowest, highest = min(given) / width, max(given) / width
    rollouts = successes + failures + len(outcome.rewards or ()) - len(given or ())
    if rollouts > size:
        raise ValueError(f"{rollouts:g} rollouts of a group of {size}")
    return (rollouts, successes, failures, lowest, highest)


def read_costs(outcomes: list[Outcome]) -> Costs:
    """Return what all outcomes cost, those that were aborted too."""
    return Costs(*(math.fsum(getattr(one, name) or 0.0 for one in outcomes) for name in Costs._fields))


def _is_aborted(outcome: Outcome) -> bool:
    """Return whether nothing came of the task; ValueError says what is wrong."""
    if outcome.status is None:
        nothing = bool(outcome.rewards) and not outcome.given_rewards
        return nothing and outcome.successes is outcome.trials is outcome.effective is None
    if any(each is not None for each in (outcome.successes, outcome.trials, outcome.rewards, outcome.effective)):
        raise ValueError('"status": "aborted" stands alone, without counts, rewards or "effective"')
    return True


def _counts(outcome: Outcome, reward_range: tuple[float, float]) -> tuple[float, float]:
    """Return successes and failures; ValueError says what is wrong."""
    if outcome.successes is None and outcome.trials is None:
        rewards = outcome.given_rewards
        if rewards is None:
            raise ValueError('give "successes" and "trials", or "rewards", or both, or "status": "aborted"')
        return counts_of_rewards(rewards, reward_range)
    if outcome.successes is None or outcome.trials is None:
        raise ValueError('"successes" and "trials" belong together')
    rewards = outcome.given_rewards
    if rewards is not None and len(rewards) != outcome.trials:
        raise ValueError(f"{len(rewards)} rewards of {outcome.trials:g} trials; give one for each trial")
    return counts_of_trials(outcome.successes, outcome.trials)


def _is_effective(outcome: Outcome, counts: tuple[float, float], reward_range: tuple[float, float]) -> bool:
    """Return whether the group has a gradient; ValueError says what is wrong.

    Args:
        outcome: what is known of the group.
        counts: its successes and failures.
        reward_range: whose width is the scale of the spread.
    """
    rewards = outcome.given_rewards
    shown = min(counts) > 0 if rewards is None else rewards_differ(rewards, reward_range)
    return shown if outcome.effective is None else outcome.effective


def _from_the_future(run: OpenRun, origin: Origin, step: int) -> StaleEpochError:
    return StaleEpochError(
        f"the selection was made at step {origin.step}, but run {run.row.name!r} stands at step {step}: "
        "the database was restored to an earlier time"
    )
