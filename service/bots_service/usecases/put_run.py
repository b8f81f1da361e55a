"""PUT a run: create it, on its own or forked from another, or replace the settings of an empty one."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from bots_service.core.advice import advice
from bots_service.core.codec import encode_state
from bots_service.core.entries import Fork
from bots_service.core.open_step import nothing_open
from bots_service.core.run_settings import RunSettings, settings_from
from bots_service.core.state import RunState, fresh_state
from bots_service.errors import RunHasHistoryError, UnknownRunError
from bots_service.ports.catalog import Runs
from bots_service.ports.hot import Leases, States
from bots_service.ports.records import KeptAnswer, OpenDataset, Parent, RunRow
from bots_service.usecases.catch_up import CatchUp
from bots_service.usecases.change_settings import fixed_prior
from bots_service.usecases.describe_run import DescribeRun, RunDescription
from bots_service.usecases.open_dataset import OpenDatasets
from bots_service.usecases.open_run import OpenRuns

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
        keep: KeptAnswer[tuple[RunDescription, bool]] | None,
    ) -> tuple[RunDescription, bool]:
        """Return the run, and whether it is new.

        Args:
            dataset: its dataset's name.
            name: its own.
            values: settings that differ from the defaults, or from the parent's.
            fork: where it starts; None for an empty journal.
            keep: keeps the answer.

        Raises:
            UnknownDatasetError, UnknownRunError, UnknownStepError: dataset, parent, or the parent's step.
            InvalidSettingsError: a setting is out of range.
            RunHasHistoryError: the run's journal is not empty, and its settings are others.
        """
        opened = await self.open_datasets.fresh(dataset)
        if fork is None:
            settings = settings_from(values)
            begin, forked = fresh_state(settings, 0), None
        else:
            begin, forked = await self._fork(opened, fork, values)
            settings = begin.settings
        kept = None if keep is None else _with_state(keep, opened, begin)
        try:
            # To the end even if the caller stops waiting, or what is replaced would stay in memory.
            created = await asyncio.shield(self._put(opened, name, settings, forked, kept))
        except RunHasHistoryError:
            standing = await self.describe(dataset, name)
            if fork is None and standing.state.settings == settings:
                return standing, False
            raise
        return await self.describe(dataset, name), created

    async def _put(
        self,
        opened: OpenDataset,
        name: str,
        settings: RunSettings,
        fork: Start | None,
        keep: KeptAnswer[tuple[RunRow, bool]] | None,
    ) -> bool:
        before = await self._standing(opened.row.id, name)
        row, created = await self.runs.put(opened.row.id, name, settings, fork=fork, keep=keep)
        self.open_runs.forget(row)
        if before is not None and before.uid == row.uid:
            return created
        await self.states.created(row)
        if before is not None:  # other replicas must not go on with what was replaced
            await self.states.forget(before)
            await self.leases.forget(before)
        return created

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
        if settings.prior != state.settings.prior:
            raise fixed_prior()
        begin = replace(state, epoch=0, seq=0, settings=settings, open_step=nothing_open())
        blob = await asyncio.to_thread(encode_state, begin)
        entry = Fork(fork.run, state.seq, blob)
        return begin, (Parent(fork.run, state.step, state.seq), entry, opened.pool.profiles)


def _with_state(
    keep: KeptAnswer[tuple[RunDescription, bool]], opened: OpenDataset, begin: RunState
) -> KeptAnswer[tuple[RunRow, bool]]:
    """Return a kept answer that makes the run's description of its row and the state that it begins with."""

    def render(put: tuple[RunRow, bool]) -> tuple[int, bytes]:
        row, created = put
        state = replace(begin, seq=row.head, epoch=row.epoch)
        told = advice(state, opened.pool)
        return keep.render((RunDescription(opened.row.name, row, state, 0, degraded=False, advice=told), created))

    return KeptAnswer(keep.scope, keep.once, render)
