"""Describe datasets and runs as they stand."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Self

from bots_service.core.coverage import Coverage, coverage
from bots_service.core.guard.guard import VerifierAlarm
from bots_service.core.mix_account import MixShare, mix_shares
from bots_service.core.outlook import advice
from bots_service.core.run_settings import RunSettings
from bots_service.core.state import RunState
from bots_service.core.totals import Totals
from bots_service.engine.catch_up import CatchUp
from bots_service.engine.open_runs import OpenDatasets, OpenRun, OpenRuns
from bots_service.errors import UnknownRunError
from bots_service.ports.catalog import Datasets, Runs
from bots_service.ports.hot import Leases
from bots_service.ports.records import DatasetRow, OpenDataset, RunRow
from bots_service.usecases.authenticate import ANYBODY, Caller

BATCH = 500  # rows looked through at once where most may belong to others


@dataclass(frozen=True, slots=True)
class ListDatasets:
    """Datasets by name, without those that the caller's key doesn't reach."""

    datasets: Datasets

    async def __call__(self, caller: Caller, after: str, limit: int) -> list[DatasetRow]:
        """Return up to `limit` datasets, beginning behind the name `after`."""
        found: list[DatasetRow] = []
        asked, rows = limit, await self.datasets.after(after, limit)
        while True:
            found += [row for row in rows if caller.reaches(row.name)]
            if len(found) >= limit or len(rows) < asked:
                return found[:limit]
            asked, rows = BATCH, await self.datasets.after(rows[-1].name, BATCH)


@dataclass(frozen=True, slots=True)
class RunDescription:
    """A run as it stands, in plain values.

    settings: those in use; epoch, seq, step: of its newest state.
    estimates: what the belief estimates about the model in training, by name.
    rollouts_per_task: in use: the setting, or learned from what was reported; None before the first report.
    pending: tasks with evidence in the open step.
    unfinished_groups: groups of which rollouts are to come.
    aborting_tasks: tasks that were aborted three times in a row or more.
    leased: tasks in flight.
    degraded: other replicas may know a newer state and more tasks in flight, for the shared store is away.
    coverage: how its visits spread over the pool.
    advice: what to know about the run, in sentences.
    mix: the tags of its mix; empty without one.
    alarms: those of its verifier guard that stand.
    """

    dataset: str
    row: RunRow
    settings: RunSettings
    epoch: int
    seq: int
    step: int
    capability: float | None
    estimates: dict[str, float]
    rollouts_per_task: float | None
    pending: int
    unfinished_groups: int
    aborting_tasks: int
    totals: Totals
    leased: int
    degraded: bool
    coverage: Coverage
    advice: tuple[str, ...]
    mix: tuple[MixShare, ...]
    alarms: tuple[VerifierAlarm, ...]

    @classmethod
    def of(cls, run: OpenRun, state: RunState, *, leased: int, degraded: bool) -> Self:
        """Return the description of a run in a state."""
        return cls(
            dataset=run.dataset.row.name,
            row=run.row,
            settings=state.settings,
            epoch=state.epoch,
            seq=state.seq,
            step=state.step,
            capability=state.belief.capability,
            estimates=state.belief.estimates(run.dataset.pool),
            rollouts_per_task=state.rollouts_per_task,
            pending=state.open_step.tasks,
            unfinished_groups=len(state.unfinished),
            aborting_tasks=len(state.aborts.always_aborted),
            totals=state.totals,
            leased=leased,
            degraded=degraded,
            coverage=coverage(state, run.dataset.pool),
            advice=advice(state, run.dataset.pool),
            mix=mix_shares(state.settings.mix, state.mix),
            alarms=state.guard.alarms,
        )


@dataclass(frozen=True, slots=True)
class DescribeRun:
    """Describe one run or a page of them."""

    runs: Runs
    open_datasets: OpenDatasets
    open_runs: OpenRuns
    catch_up: CatchUp
    leases: Leases

    async def __call__(self, dataset: str, run: str) -> RunDescription:
        """Return the run as it stands.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """
        return await self.open_runs.using(dataset, run, self.of)

    async def of(self, run: OpenRun) -> RunDescription:
        """Return an open run as it stands."""
        newest = await self.catch_up.newest_or_known(run)
        leased = await self.leases.leased(run.row)
        matching = await self.open_runs.matching(run, newest.state)
        described = partial(RunDescription.of, leased=len(leased), degraded=newest.degraded)
        return await asyncio.to_thread(described, matching, newest.state)  # a look at each task that was ever tried

    async def page(self, dataset: str, after: str, limit: int, caller: Caller = ANYBODY) -> list[RunDescription]:
        """Return the next `limit` runs that the caller reaches by name, behind `after`; fewer if there are no more.

        Raises:
            UnknownDatasetError: there is no such dataset.
        """
        opened = await self.open_datasets.fresh(dataset)
        found: list[RunDescription] = []
        while wanted := limit - len(found):
            rows = await self.runs.after(opened.row.id, after, wanted)
            for row in rows:
                if not caller.reaches_run(dataset, row.name):
                    continue
                with suppress(UnknownRunError):  # deleted since the rows were read
                    found.append(await self._of_row(opened, row))
            if len(rows) < wanted:
                break
            after = rows[-1].name
        return found

    async def _of_row(self, opened: OpenDataset, row: RunRow) -> RunDescription:
        try:
            return await self.of(await self.open_runs.of(opened, row))
        except UnknownRunError:  # deleted; there may be a new run of that name
            return await self(opened.row.name, row.name)
