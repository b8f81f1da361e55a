"""POST evidence: let a run learn from rollouts of old logs, which are not its own."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, NamedTuple

import numpy as np
from msgspec import Meta, Struct

from bots_service.core.arrays import Floats, frozen
from bots_service.core.checks import TaskId
from bots_service.core.entries import PastEvidence
from bots_service.core.evidence import MAX_TRIALS
from bots_service.core.past_evidence import LARGEST_AGE, AgedEvidence
from bots_service.engine.catch_up import CatchUp
from bots_service.engine.open_runs import OpenRun, OpenRuns
from bots_service.errors import Flaw, InvalidInputError, InvalidOutcomesError
from bots_service.ports.journal import Journal
from bots_service.ports.records import IdempotencyKey, NewEntry
from bots_service.usecases.report_outcomes import MAX_OUTCOMES, Outcome, find_tasks, read_evidence

Moment = Annotated[datetime, Meta(tz=True)]


class PastOutcome(Struct, frozen=True, forbid_unknown_fields=True):
    """What rollouts of one task showed, some time ago: counts or rewards; and its age in steps or its time.

    task: the task's id.
    successes: how many trials succeeded; a fraction where trials succeed in part.
    trials: how many rollouts the task had, at most 4096.
    rewards: one for each trial, in the run's reward range; not used where there are counts.
    age: how many steps ago, at most a million; 0 as if with the step that closed last.
    at: when (RFC 3339), in place of the age.
    """

    task: TaskId
    successes: float | None = None
    trials: float | None = None
    rewards: Annotated[list[float], Meta(max_length=MAX_TRIALS)] | None = None
    age: float | None = None
    at: Moment | None = None


class EvidenceRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What old logs say.

    outcomes: at most 65,536; tasks may repeat.
    seconds_per_step: how long a step took, which turns times into ages.
    now: the time whose age is 0 (RFC 3339); left out, the newest time of the outcomes.
    """

    outcomes: Annotated[list[PastOutcome], Meta(max_length=MAX_OUTCOMES)]
    seconds_per_step: Annotated[float, Meta(gt=0)] | None = None
    now: Moment | None = None


class EvidenceResult(NamedTuple):
    """What became of evidence from old logs.

    seq: of its entry in the journal.
    step: how many steps had closed; the evidence closes none.
    outcomes, rollouts: how many it holds.
    capability: the model's place along the references afterwards; None if it is not known.
    duplicate: it is the first answer to the same key, given again.
    degraded: it is durable, but other replicas see it only once the shared store is back.
    """

    seq: int
    step: int
    outcomes: int
    rollouts: float
    capability: float | None
    duplicate: bool
    degraded: bool


@dataclass(frozen=True, slots=True)
class ImportEvidence:
    """Validate, append, catch up. Leases, attempts and totals stay as they are."""

    open_runs: OpenRuns
    journal: Journal
    catch_up: CatchUp

    async def __call__(
        self, dataset: str, run: str, request: EvidenceRequest, idempotency_key: IdempotencyKey | None
    ) -> EvidenceResult:
        """Return what became of the evidence.

        Raises:
            UnknownDatasetError, UnknownRunError: a name is not known.
            InvalidOutcomesError: an outcome or its age can't be true.
            KeyReusedError: the key came with another request before.
        """
        return await self.open_runs.using(dataset, run, lambda opened: self._import(opened, request, idempotency_key))

    async def _import(self, run: OpenRun, request: EvidenceRequest, key: IdempotencyKey | None) -> EvidenceResult:
        try:
            run, evidence = await self._read(run, request)
        except InvalidInputError:
            # What was true of it at first may not be by now: the reward range may have changed.
            first = None if key is None else await self.journal.find(run.row, key)
            if first is None or not isinstance(first.body, PastEvidence):
                raise
            return await self._result(run, first.seq, first.body.aged, duplicate=True)
        new_entry = NewEntry(PastEvidence(evidence), run.dataset.pool.profiles, idempotency_key=key)
        appended = await self.journal.append(run.row, new_entry)
        return await self._result(run, appended.entry.seq, evidence, duplicate=appended.duplicate)

    async def _read(self, run: OpenRun, request: EvidenceRequest) -> tuple[OpenRun, AgedEvidence]:
        """Return the evidence, and the run with its dataset as it must be to know all its tasks."""
        state = (await self.catch_up.newest(run)).state
        outcomes = [
            Outcome(one.task, one.successes, one.trials, None if one.rewards is None else [*one.rewards])
            for one in request.outcomes
        ]
        try:
            tasks = find_tasks(run, outcomes)
        except InvalidOutcomesError:  # another replica may have appended them just now
            run = await self.open_runs.fresh(run.dataset.row.name, run.row.name)
            tasks = find_tasks(run, outcomes)
        evidence, _ = read_evidence(tasks, outcomes, state.settings.reward_range)
        return run, AgedEvidence(evidence, read_ages(request))

    async def _result(self, run: OpenRun, seq: int, aged: AgedEvidence, *, duplicate: bool) -> EvidenceResult:
        folded = await self.catch_up.receipt(run, seq)
        rollouts = float(aged.evidence.successes.sum() + aged.evidence.failures.sum())
        step, capability = folded.receipt.step, folded.receipt.capability
        return EvidenceResult(seq, step, len(aged), rollouts, capability, duplicate, folded.degraded)


def read_ages(request: EvidenceRequest) -> Floats:
    """[P] Return the ages of the outcomes, in steps.

    Raises:
        InvalidOutcomesError: an age or a time is missing or can't be true; carries the first flaws.
    """
    times = [one.at for one in request.outcomes if one.at is not None]
    if times and request.seconds_per_step is None:
        missing = "missing: the outcomes have times (at), and it says how many seconds make one step"
        flaw = Flaw(("body", "seconds_per_step"), missing)
        raise InvalidOutcomesError("invalid outcomes", (flaw,))
    newest = request.now or max(times, default=datetime.max.replace(tzinfo=UTC))
    ages, flaws = [], []
    for place, one in enumerate(request.outcomes):
        try:
            ages.append(_age(one, newest, request.seconds_per_step or 1.0))
        except ValueError as error:
            flaws.append(Flaw(("body", "outcomes", place), f"task {one.task!r}: {error}"))
    if flaws:
        raise InvalidOutcomesError("invalid outcomes", tuple(flaws[:20]))
    return frozen(np.array(ages, np.float64))


def _age(one: PastOutcome, newest: datetime, seconds_per_step: float) -> float:
    """Return an outcome's age in steps; ValueError says what is wrong."""
    if one.age is not None and one.at is None:
        age = one.age
    elif one.at is not None and one.age is None:
        age = (newest - one.at).total_seconds() / seconds_per_step
    else:
        raise ValueError('give "age" in steps, or "at" as a time')
    if not 0.0 <= age <= LARGEST_AGE:
        raise ValueError(f"an age of {age:g} steps; it can be 0 to {LARGEST_AGE:g}")
    return age
