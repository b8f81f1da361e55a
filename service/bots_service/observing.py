"""Shows the runs that trainers use here as metrics, in the background. No scrape waits for a store."""

import asyncio
import math
from contextlib import AbstractAsyncContextManager
from time import monotonic

import structlog

from bots_service.background import repeating
from bots_service.core.summary import coverage, narrow
from bots_service.errors import BotsError, UnknownDatasetError, UnknownRunError
from bots_service.metrics import RunAtWork, RunsAtWork
from bots_service.runs import Runs

log = structlog.get_logger(__name__)

EVERY_S = 5.0  # Prometheus looks every 15 s
IDLE_EVERY_S = 60.0  # for runs that are not at work here, but may be at another replica
MOST_OF_TIME = 1 / 20  # requests have the rest
MOST_PAUSE_S = 60.0  # after a round that waited for a store that hung


class ObserveRuns:
    """Looks at each run that has series of its own: at its newest state and its leases."""

    def __init__(self, runs: Runs, at_work: RunsAtWork) -> None:
        self._runs, self._at_work = runs, at_work
        self._due = monotonic()

    def in_background(self) -> AbstractAsyncContextManager[None]:
        """Observe in the background."""
        return repeating(self.when_due, every_s=EVERY_S, failure_event="runs_not_observed")

    async def when_due(self) -> None:
        """Look once, unless it is so soon that looking would take more than MOST_OF_TIME."""
        began = monotonic()
        if began < self._due:
            return
        try:
            await self.once()
        finally:
            self._due = began + min((monotonic() - began) / MOST_OF_TIME, MOST_PAUSE_S)

    async def once(self) -> None:
        """Look once at the runs that were at work since the last time; what can't be seen for now stays as it was."""
        now = monotonic()
        for (dataset, run), seen in self._at_work.all().items():
            if not self._at_work.has(seen) or (seen.used < seen.looked and now - seen.looked < IDLE_EVERY_S):
                continue  # nothing happened here since the last look
            try:
                await self._look(dataset, run, seen)
                seen.looked = now
            except (UnknownDatasetError, UnknownRunError):
                self._at_work.forget(dataset, run)
            except BotsError as error:
                log.debug("run_not_observed", dataset=dataset, run=run, reason=str(error))
            except Exception:  # a defect that one run brings out must not hide all the others
                log.exception("run_not_observed", dataset=dataset, run=run)
                seen.looked = now

    async def _look(self, dataset: str, name: str, seen: RunAtWork) -> None:
        """Look at a run and note what was seen; one that is deleted meanwhile shows nothing."""
        run = await self._runs.open(dataset, name)
        state, _ = await self._runs.newest_or_known(run)
        leased = (await self._runs.live.leases(run.row)).tasks
        if not self._at_work.has(seen):
            return
        series = seen.series
        series.step.set(state.step)
        series.leased_tasks.set(len(leased))
        version = (run.row.uid, state.epoch, state.seq)
        if seen.shown != version:
            series.set_strategy(state.settings.strategy)
            series.verifier_alarms.set(len(state.guard.alarms))
            pool = (await self._runs.datasets.matching(run, state)).dataset.pool
            covered = await asyncio.to_thread(coverage, state, pool)
            uniform = (await self._runs.store.journal.head(run.row)).uniform.ratio
            if self._at_work.has(seen):
                series.uniform_effective_task_ratio.set(math.nan if uniform is None else uniform)
                series.reached_share.set(math.nan if covered.reached_share is None else covered.reached_share)
                series.narrow.set(narrow(covered, state.settings) is not None)
            seen.shown = version
