"""PUT a run: create it, on its own or forked from another, or replace the settings of an empty one."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from bots_service.core.codec import encode_state
from bots_service.core.entries import Fork
from bots_service.core.outlook import advice
from bots_service.core.run_settings import RunSettings, settings_from
from bots_service.core.state import RunState, fresh_state, nothing_open
from bots_service.engine.catch_up import CatchUp
from bots_service.engine.open_runs import OpenDatasets, OpenRuns
from bots_service.errors import RunHasHistoryError, UnknownRunError
from bots_service.ports.catalog import Runs
from bots_service.ports.hot import Leases, States
from bots_service.ports.records import KeptAnswer, OpenDataset, Parent, RunPut, RunRow
from bots_service.usecases.change_run import require_fixed
from bots_service.usecases.describe import DescribeRun, RunDescription

Start = tuple[Parent, Fork, int]  # of a fork, as `Runs.put` wants it


@dataclass(frozen=True, slots=True)
class ForkFrom:
    """Where a run shall start: another run of the dataset, at a step that closed there (None: the last)."""

    run: str
    step: int | None = None


@dataclass(frozen=True, slots=True)
class PutRun:
    """Create a run, or replace the settings of one whose journal is empty."""

    runs: Runs
    open_datasets: OpenDatasets
    open_runs: OpenRuns
    catch_up: CatchUp
    states: States
    leases: Leases
    describe: DescribeRun

    async def __call__(
        self,
        dataset: str,
        name: str,
        values: dict[str, Any],
        fork: ForkFrom | None,
        keep: KeptAnswer[tuple[RunDescription, RunPut]] | None,
    ) -> tuple[RunDescription, RunPut]:
        """Return the run, and what was done to it.

        Args:
            dataset: its dataset's name.
            name: its own.
            values: settings that differ from the defaults, or from the parent's.
            fork: where it starts; None for an empty journal.
            keep: keeps the answer of a write that changed something.

        Raises:
            UnknownDatasetError, UnknownRunError, UnknownStepError: dataset, parent, or the parent's step.
            InvalidSettingsError: a setting is out of range.
            RunHasHistoryError: the run's journal is not empty, and its settings are others.
        """
        opened = await self.open_datasets.fresh(dataset)
        if fork is None:
            settings = settings_from(values)
            begin, forked = fresh_state(settings, opened.pool), None
        else:
            begin, forked = await self._fork(opened, fork, values)
            settings = begin.settings
        try:
            # To the end even if the caller stops waiting, or what is replaced would stay in memory.
            row, put = await asyncio.shield(self._put(opened, name, settings, forked, _kept(keep, opened, begin)))
        except RunHasHistoryError:
            standing = await self.describe(dataset, name)
            if fork is None and standing.state.settings == settings:
                return standing, RunPut.UNCHANGED
            raise
        if put is RunPut.UNCHANGED:
            return await self.describe(dataset, name), put
        return _fresh(opened, row, begin), put  # what was kept, to the byte

    async def _put(
        self,
        opened: OpenDataset,
        name: str,
        settings: RunSettings,
        fork: Start | None,
        keep: KeptAnswer[tuple[RunRow, RunPut]] | None,
    ) -> tuple[RunRow, RunPut]:
        before = await self._standing(opened.row.id, name)
        row, put = await self.runs.put(opened.row.id, name, settings, fork=fork, keep=keep)
        self.open_runs.forget(row)
        if before is not None and before.uid == row.uid:
            return row, put
        await self.states.register(row)
        if before is not None:  # other replicas must not go on with what was replaced
            await self.states.delete(before)
            await self.leases.clear(before)
        return row, put

    async def _standing(self, dataset_id: int, name: str) -> RunRow | None:
        try:
            return await self.runs.get(dataset_id, name)
        except UnknownRunError:
            return None

    async def _fork(self, opened: OpenDataset, fork: ForkFrom, values: dict[str, Any]) -> tuple[RunState, Start]:
        """Return the state to begin with, and the fork that leads there."""
        parent = await self.open_runs(opened.row.name, fork.run)
        state = await self.catch_up.at_step(parent, fork.step)
        settings = settings_from(values, base=state.settings)
        require_fixed(settings, state.settings)
        begin = replace(state, epoch=0, seq=0, settings=settings, open_step=nothing_open())
        blob = await asyncio.to_thread(encode_state, begin)
        entry = Fork(fork.run, state.seq, blob)
        return begin, (Parent(fork.run, state.step, state.seq), entry, opened.pool.profiles)


def _kept(
    keep: KeptAnswer[tuple[RunDescription, RunPut]] | None, opened: OpenDataset, begin: RunState
) -> KeptAnswer[tuple[RunRow, RunPut]] | None:
    """Return what keeps the description of a run that was changed; an unchanged one is described after the write."""
    if keep is None:
        return None

    def render(written: tuple[RunRow, RunPut]) -> tuple[int, bytes] | None:
        row, put = written
        return None if put is RunPut.UNCHANGED else keep.render((_fresh(opened, row, begin), put))

    return KeptAnswer(keep.scope, keep.key, render)


def _fresh(opened: OpenDataset, row: RunRow, begin: RunState) -> RunDescription:
    """Return a run as it begins: nobody has leased its tasks, and no replica can know a newer state."""
    state = replace(begin, seq=row.head, epoch=row.epoch)
    return RunDescription(
        dataset=opened.row.name,
        row=row,
        state=state,
        leased=0,
        degraded=False,
        estimates=state.belief.estimates(opened.pool),
        advice=advice(state, opened.pool),
    )
