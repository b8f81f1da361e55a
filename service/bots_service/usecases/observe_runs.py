"""Shows, again and again, where the runs stand that trainers use here. No scrape waits for a store."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from time import monotonic

import structlog

from bots_service.core.outlook import QUANTILES, outlook
from bots_service.core.state import RunState
from bots_service.errors import BotsError, UnknownDatasetError, UnknownRunError
from bots_service.metrics.run_series import RunsAtWork, RunSeries
from bots_service.ports.hot import Leases
from bots_service.ports.journal import Journal
from bots_service.usecases.background import repeating
from bots_service.usecases.catch_up import CatchUp
from bots_service.usecases.open_run import OpenRun, OpenRuns

log = structlog.get_logger(__name__)

EVERY_S = 5.0
IDLE_EVERY_S = 60.0  # for runs that are not at work here, but may be at another replica


class ObserveRuns:
    """Looks at each run that has series of its own: its newest state, its journal's head, its leases."""

    def __init__(
        self,
        open_runs: OpenRuns,
        catch_up: CatchUp,
        journal: Journal,
        leases: Leases,
        at_work: RunsAtWork,
        *,
        every_s: float = EVERY_S,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Observe nothing yet.

        Args:
            open_runs: finds the runs.
            catch_up: knows their states.
            journal: knows their heads.
            leases: knows which tasks are in flight.
            at_work: which runs are observed, and where it shows.
            every_s: time between two looks.
            clock: seconds that only grow, the same as for `at_work`.
        """
        self._open_runs = open_runs
        self._catch_up = catch_up
        self._journal = journal
        self._leases = leases
        self._at_work = at_work
        self._every_s = every_s
        self._clock = clock
        self._looked: dict[tuple[str, str], float] = {}  # -> when
        self._shown: dict[tuple[str, str], tuple[str, int, int]] = {}  # -> uid, epoch and seq

    def working(self) -> AbstractAsyncContextManager[None]:
        """Observe in the background."""
        return repeating(self.once, every_s=self._every_s, or_log="runs_not_observed")

    async def once(self) -> None:
        """Look once at the runs that were at work since the last time; what can't be seen for now stays as it was."""
        last_used, now = self._at_work.last_used(), self._clock()
        self._looked = {run: at for run, at in self._looked.items() if run in last_used}
        self._shown = {run: shown for run, shown in self._shown.items() if run in last_used}
        for (dataset, run), used in last_used.items():
            looked = self._looked.get((dataset, run), -IDLE_EVERY_S)
            if used < looked and now - looked < IDLE_EVERY_S:
                continue  # nothing happened here since the last look
            try:
                await self._observe(dataset, run)
                self._looked[dataset, run] = now
            except (UnknownDatasetError, UnknownRunError):
                self._at_work.forget(dataset, run)
            except BotsError as error:
                log.debug("run_not_observed", dataset=dataset, run=run, reason=str(error))

    async def _observe(self, dataset: str, name: str) -> None:
        run = await self._open_runs(dataset, name)
        head = await self._journal.head(run.row)  # before the state, or what comes between would count as lacking
        state = await self._catch_up.newest_or_known(run)
        leased = await self._leases.leased(run.row)
        series = self._at_work.series(dataset, name)
        if series is None:
            return  # deleted meanwhile
        series.step.set(state.step)
        series.unfolded_entries.set(max(0, head.seq - state.seq))
        series.leased_tasks.set(len(leased))
        if state.belief.capability is not None:
            series.capability.set(state.belief.capability)
        version = (run.row.uid, state.epoch, state.seq)
        if self._shown.get((dataset, name)) != version:
            await self._show_outlook(run, state, series)
            self._shown[dataset, name] = version

    async def _show_outlook(self, run: OpenRun, state: RunState, series: RunSeries) -> None:
        pool = (await self._open_runs.fitting(run, state)).dataset.pool
        found = await asyncio.to_thread(outlook, state.belief, pool, rollouts_of(state))
        names = (run.dataset.row.name, run.row.name)
        if found is not None and self._at_work.series(*names) is series:  # else it was deleted meanwhile
            series.uniform_effective_task_ratio.set(found.effective_task_ratio)
            for quantile, mean in zip(QUANTILES, found.means, strict=True):
                series.set_belief_mean(quantile, mean)


def rollouts_of(state: RunState) -> float:
    """Return how many rollouts a task gets: as many as it got so far, else as the settings say."""
    totals = state.totals
    return totals.rollouts / totals.reported if totals.reported else state.settings.rollouts_per_task
