"""Notifies other replicas of changed datasets, and finds changes of which the hot store could not notify."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass

import structlog

from bots_service.engine.background import repeating
from bots_service.engine.catch_up import CatchUp
from bots_service.engine.open_runs import OpenRun, OpenRuns
from bots_service.errors import BotsError
from bots_service.metrics.run_series import RunsAtWork
from bots_service.ports.catalog import Runs
from bots_service.ports.hot import States
from bots_service.ports.journal import Journal
from bots_service.ports.records import DatasetRow, Head, RunRow

log = structlog.get_logger(__name__)


PAGE = 1000


async def all_runs(runs: Runs, dataset_id: int) -> AsyncIterator[RunRow]:
    """Yield every run of a dataset."""
    page = await runs.after(dataset_id, "", PAGE)
    while page:
        for row in page:
            yield row
        page = await runs.after(dataset_id, page[-1].name, PAGE)


@dataclass(frozen=True, slots=True)
class NotifyReplicas:
    """Notifies other replicas through the hot store, before a change is acknowledged."""

    runs: Runs
    states: States

    async def of_change(self, dataset: DatasetRow) -> None:
        """Make every replica read the dataset's runs, and so the dataset, from SQL before their next use.

        Replicas that can't be reached find the change within seconds.
        """
        async for run in all_runs(self.runs, dataset.id):
            await self.states.invalidate(run)

    async def of_new(self, dataset: DatasetRow) -> None:
        """Register the dataset's runs as new."""
        async for run in all_runs(self.runs, dataset.id):
            await self.states.register(run)


EVERY_S = 1.0


class FollowReplicas:
    """Periodically compares the runs in use with SQL.

    If another replica committed entries and then died, or could not reach the hot store, this folds and publishes them.
    If it replaced a run or changed a dataset, this removes them from the caches.
    """

    def __init__(
        self,
        journal: Journal,
        catch_up: CatchUp,
        open_runs: OpenRuns,
        at_work: RunsAtWork,
        *,
        is_needed: bool,
        every_s: float = EVERY_S,
    ) -> None:
        """Create it; `in_background` starts it.

        Args:
            journal: has the entries of all replicas.
            catch_up: folds them.
            open_runs: the runs in use.
            at_work: the runs with metrics, removed with a run.
            is_needed: whether this process relies on a shared store; otherwise it reads SQL each time anyway.
            every_s: time between two comparisons.
        """
        self._journal = journal
        self._catch_up = catch_up
        self._open_runs = open_runs
        self._at_work = at_work
        self._is_needed = is_needed
        self._every_s = every_s

    def in_background(self) -> AbstractAsyncContextManager[None]:
        """Compare in the background."""
        if not self._is_needed:
            return nullcontext()
        return repeating(self.once, every_s=self._every_s, failure_event="replicas_not_followed")

    async def once(self) -> None:
        """Compare all runs that were used since the last call.

        Raises:
            StorageUnavailableError: SQL did not answer.
        """
        used = self._open_runs.used_recently()
        if not used:
            return
        heads = await self._journal.heads([run.row.id for run in used])
        for run in used:
            await self._follow(run, heads.get(run.row.id))

    async def _follow(self, run: OpenRun, head: Head | None) -> None:
        if head is None or head.uid != run.row.uid:
            self._open_runs.invalidate(run.row)
            self._at_work.forget(run.dataset.row.name, run.row.name)
            return
        self._open_runs.invalidate_changed_dataset(run, head)
        known = self._catch_up.known(run)
        if known is not None and known.state.seq >= head.seq:
            return
        try:
            run = await self._open_runs.refreshed(run)
            newest = await self._catch_up.newest(run)
            if newest.state.seq < head.seq:
                await self._catch_up.through(run, head.seq)
        except BotsError as error:  # affects this run only: it was just deleted, or its journal is damaged
            log.warning("run_not_followed", run=run.row.name, reason=str(error))
