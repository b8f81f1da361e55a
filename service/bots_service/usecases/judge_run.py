"""Judge one run: its summary, with a verdict on what it shows."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from bots_service.core.coverage import coverage, narrow_advice
from bots_service.core.draw.strategies import BY_DIFFICULTY
from bots_service.core.outlook import BINS, Outlook, advice, outlook
from bots_service.core.pool import Pool
from bots_service.core.receipt import Calibration
from bots_service.core.state import RunState
from bots_service.core.summary.tags import (
    GroupCounts,
    StepEvidence,
    carried_by,
    evidence_of_steps,
    group_counts,
    listed_tags,
)
from bots_service.core.summary.verdict import EASY, HARD, RunFacts, RunProgress, RunVerdict, verdict_on
from bots_service.engine.catch_up import CatchUp
from bots_service.engine.open_runs import OpenRun, OpenRuns
from bots_service.engine.step_evidence import ReadStepEvidence
from bots_service.ports.hot import Leases
from bots_service.ports.journal import Journal
from bots_service.ports.records import StoredReceipt
from bots_service.usecases.observe_runs import rollouts_of
from bots_service.usecases.read_run import added
from bots_service.usecases.summarize_runs import SummarizeRuns, SummedRun

LOOKED_AT = 100  # steps, for what became of the groups of rollouts
CALIBRATED = 200  # steps, as a page of a calibration has them
KEPT = 64  # runs; an open page asks every 2 s, and most of the time the journal has not grown since


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """A run's summary, the number of its tasks in flight, and the verdict."""

    summed: SummedRun
    leased: int
    verdict: RunVerdict


@dataclass(frozen=True, slots=True)
class JudgeRun:
    """Summarize a run and judge it. What follows from its journal is computed once, and kept for the last runs."""

    open_runs: OpenRuns
    catch_up: CatchUp
    journal: Journal
    leases: Leases
    step_evidence: ReadStepEvidence
    summarize: SummarizeRuns
    clock: Callable[[], float] = time.time
    _known: OrderedDict[str, tuple[tuple[int, int, int, int], RunFacts]] = field(default_factory=OrderedDict)

    async def __call__(self, dataset: str, run: str) -> JudgedRun:
        """Return the run's summary with a verdict.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """
        facts = await self.open_runs.using(dataset, run, self._facts)
        summed = await self.summarize.one(dataset, run)
        leased = await self.leases.leased(summed.known.row)
        return JudgedRun(summed, len(leased), verdict_on(progress_of(summed, self.clock()), facts))

    async def _facts(self, opened: OpenRun) -> RunFacts:
        """Return what follows from the journal."""
        state = await self.catch_up.repair_receipts(opened)
        pool = (await self.open_runs.matching(opened, state)).dataset.pool
        version = (state.epoch, state.seq, len(pool), len(pool.retired))
        known = self._known.get(opened.row.uid)
        if known is None or known[0] != version:
            evidence = await self.step_evidence(opened, state, LOOKED_AT)
            after = max(opened.row.origin_step, state.step - CALIBRATED)
            stored = await self.journal.history(opened.row, after, CALIBRATED)
            known = version, await asyncio.to_thread(facts_of, state, pool, evidence, stored)
            self._known[opened.row.uid] = known
        self._known.move_to_end(opened.row.uid)
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        return known[1]


def facts_of(state: RunState, pool: Pool, evidence: list[StepEvidence], stored: list[StoredReceipt]) -> RunFacts:
    """Return what follows from a run's state and from its last steps."""
    spread, expected = coverage(state, pool), outlook(state.belief, pool, rollouts_of(state))
    todo = narrow_advice(state.settings)
    easy, hard = (0.0, 0.0) if expected is None else ends_of(expected)
    reported = sum(one.receipt.tally.reported for one in stored)
    return RunFacts(
        step=state.step,
        alarms=state.guard.described(pool),
        groups=groups_of(state, pool, evidence),
        narrow=None if spread.reason is None else (spread.reason.removesuffix(f" {todo}"), todo),
        calibration=calibration_of(stored),
        group_size=sum(one.receipt.tally.rollouts for one in stored) / reported if reported else 1.0,
        expected=None if expected is None else expected.effective_task_ratio,
        easy=easy,
        hard=hard,
        hints=advice(state, pool),
    )


def groups_of(state: RunState, pool: Pool, evidence: list[StepEvidence]) -> dict[str | None, GroupCounts]:
    """Return what became of the groups of rollouts, of the whole run first.

    A run that goes from easy tasks to hard ones and begins again with the easy ones falls by intent.
    """
    if state.settings.strategy in BY_DIFFICULTY:
        return {}
    whole = evidence_of_steps(evidence)
    found: dict[str | None, GroupCounts] = {None: group_counts(evidence)}
    for tag, _ in listed_tags(pool):
        found[tag] = group_counts(evidence, carried_by(pool, tag, whole))
    return found


def ends_of(expected: Outlook) -> tuple[float, float]:
    """Return the shares of the tasks that are solved nearly always, and nearly never."""
    shares = expected.distribution
    return sum(shares[round(EASY * BINS) :]), sum(shares[: round(HARD * BINS)])


def calibration_of(stored: list[StoredReceipt]) -> Calibration:
    """Return predictions and observations of the steps that have any."""
    return added([one.receipt.calibration for one in stored if one.receipt.calibration is not None])


def progress_of(run: SummedRun, now: float) -> RunProgress:
    """Return how a run goes at a time, in seconds since 1970, UTC."""
    course, gain = run.known.newest.course, run.gain
    is_stalled = run.status == "stalled" and course.last_step_at is not None
    return RunProgress(
        steps=course.steps,
        stalled_s=now - (course.last_step_at or now) if is_stalled else None,
        usual_gap_s=course.usual_gap_s,
        recent=course.recent,
        uniform=None if gain is None else gain.uniform_effective_task_ratio,
    )
