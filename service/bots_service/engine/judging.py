"""Judges runs: finds what their journals say against them, and keeps it in SQL for all processes.

A judgement takes the run's state and the evidence of its last steps: about 60 ms, and seconds where the state has to be
folded from the journal first. So a list of runs shows the judgements that are kept, and lets those that are missing or
outdated be made in the background.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from contextvars import Context
from time import monotonic

import structlog

from bots_service.core.pool import Pool
from bots_service.core.receipt import Receipt
from bots_service.core.state import RunState
from bots_service.core.summary.facts import facts_of
from bots_service.core.summary.tags import StepEvidence
from bots_service.core.summary.verdict import RunFindings, findings_of
from bots_service.engine.background import ended
from bots_service.engine.catch_up import CatchUp
from bots_service.engine.open_runs import OpenDatasets, OpenRun, OpenRuns
from bots_service.engine.run_courses import KnownCourse
from bots_service.engine.step_evidence import ReadStepEvidence
from bots_service.errors import BotsError, StorageUnavailableError
from bots_service.ports.courses import Courses, Judgement, RunHead
from bots_service.ports.journal import Journal

log = structlog.get_logger(__name__)

LOOKED_AT = 100  # steps, for what became of the groups of rollouts
CALIBRATED = 200  # steps, as a page of a calibration has them
PATIENCE_S = 0.25  # that a list waits: enough for the runs that moved since the last look, where few are at work
REST = 3.0  # times as long as a judgement took, while no list waits: requests have the rest
MOST_TASKS = 1_000_000  # of a dataset that is opened for this alone; a larger one takes seconds, and displaces others


class JudgeRuns:
    """Judges one run at once, or many in the background. At the end of `in_background`, those under way are stopped."""

    def __init__(
        self,
        open_datasets: OpenDatasets,
        open_runs: OpenRuns,
        catch_up: CatchUp,
        journal: Journal,
        step_evidence: ReadStepEvidence,
        courses: Courses,
    ) -> None:
        self._open_datasets, self._open_runs = open_datasets, open_runs
        self._catch_up, self._journal = catch_up, journal
        self._step_evidence, self._courses = step_evidence, courses
        self._wanted = deque[KnownCourse]()
        self._work = list[asyncio.Task[None]]()  # one at most
        self._lists_waiting = 0
        self._failed: dict[int, RunHead] = {}  # where runs stood that could not be judged

    async def judge(self, dataset: str, run: str) -> Judgement:
        """Judge a run as it is now, and keep the judgement.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """
        await self._open_datasets.fresh(dataset)
        return await self._open_runs.using(dataset, run, self._judge)

    async def judge_soon(self, runs: Iterable[KnownCourse]) -> bool:
        """Judge these runs in the background, in this order; return once all are, and after PATIENCE_S at the latest.

        What was still to be judged for an earlier list is forgotten.

        Args:
            runs: whose receipts are all stored.

        Returns:
            Whether there was anything to judge.
        """
        self._wanted = deque(run for run in runs if self._failed.get(run.head.run_id) != run.head)
        if not self._wanted:
            return False
        if not self._work or self._work[0].done():
            self._work = [asyncio.create_task(self._judge_wanted(), context=Context())]  # it outlives the request
        self._lists_waiting += 1
        try:
            await asyncio.wait(self._work, timeout=PATIENCE_S)
        finally:
            self._lists_waiting -= 1
        return True

    @asynccontextmanager
    async def in_background(self) -> AsyncIterator[None]:
        """Stop at the end."""
        try:
            yield
        finally:
            await ended(self._work)

    async def _judge_wanted(self) -> None:
        while self._wanted:
            run = self._wanted.popleft()
            began = monotonic()
            try:
                if await self._open_datasets.opens_soon(run.head.dataset, MOST_TASKS):
                    await self.judge(run.head.dataset, run.row.name)
            except StorageUnavailableError:
                return  # the next list asks again
            except BotsError as error:
                self._failed[run.head.run_id] = run.head
                log.debug("run_not_judged", dataset=run.head.dataset, run=run.row.name, reason=str(error))
            except Exception:  # a defect that one run brings out must not hide all the others
                self._failed[run.head.run_id] = run.head
                log.exception("run_not_judged", dataset=run.head.dataset, run=run.row.name)
            if not self._lists_waiting:
                await asyncio.sleep(REST * (monotonic() - began))

    async def _judge(self, opened: OpenRun) -> Judgement:
        state = await self._catch_up.repair_receipts(opened)
        opened = await self._open_runs.matching(opened, state)
        evidence = await self._step_evidence(opened, state, LOOKED_AT)
        after = max(opened.row.origin_step, state.step - CALIBRATED)
        receipts = [one.receipt for one in await self._journal.history(opened.row, after, CALIBRATED)]
        findings = await asyncio.to_thread(_findings, state, opened.dataset.pool, evidence, receipts)
        judgement = Judgement(state.epoch, state.seq, opened.dataset.row.version, findings)
        try:
            await self._courses.keep_judgement(opened.row, judgement)
        except StorageUnavailableError as error:  # it can be made again
            log.debug("judgement_not_kept", run=opened.row.name, reason=str(error))
        return judgement


def _findings(state: RunState, pool: Pool, evidence: list[StepEvidence], receipts: list[Receipt]) -> RunFindings:
    return findings_of(facts_of(state, pool, evidence, receipts))
