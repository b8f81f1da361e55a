"""PUT a run: create it, on its own or as a fork, or replace the settings of an empty one."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from bots_service.engine.open_runs import OpenDatasets, OpenRun, OpenRuns
from bots_service.errors import RunHasHistoryError, UnknownRunError
from bots_service.ports.catalog import Answers, Runs
from bots_service.ports.hot import Leases, States
from bots_service.ports.records import IdempotencyKey, OpenDataset, RunPut, RunRow
from bots_service.usecases.begin_run import BeginRun, Begun, ForkFrom
from bots_service.usecases.describe import DescribeRun, RunDescription


class PutRunResult(NamedTuple):
    """A run, and what a PUT did to it."""

    run: RunDescription
    put: RunPut


@dataclass(frozen=True, slots=True)
class PutRun:
    """Create a run, or replace the settings of one whose journal is empty."""

    runs: Runs
    open_datasets: OpenDatasets
    open_runs: OpenRuns
    begin: BeginRun
    states: States
    leases: Leases
    answers: Answers
    describe: DescribeRun

    async def __call__(
        self,
        dataset: str,
        name: str,
        values: dict[str, Any],
        origin: ForkFrom | None,
        idempotency_key: IdempotencyKey | None,
    ) -> PutRunResult:
        """Return the run, and what was done to it.

        Args:
            dataset: its dataset's name.
            name: its own.
            values: settings that differ from the defaults, or from those of the run that it forks.
            origin: the run that it forks; None for an empty journal.
            idempotency_key: keeps the result.

        Raises:
            UnknownDatasetError, UnknownRunError, UnknownStepError: dataset, parent, or the parent's step.
            InvalidSettingsError: a setting is out of range, or can't be with this origin.
            RunHasHistoryError: the run's journal is not empty, and its settings are others.
            KeyReusedError: the key came with another request before.
        """
        opened = await self.open_datasets.fresh(dataset)
        begun = await self.begin(opened, origin, values)
        settings = begun.state.settings

        def result_of(row: RunRow, put: RunPut) -> PutRunResult:
            # Nobody has leased its tasks yet, and no replica can know a newer state.
            state = replace(begun.state, seq=row.head, epoch=row.epoch)
            return PutRunResult(RunDescription.of(OpenRun(begun.dataset, row), state, leased=0, degraded=False), put)

        try:
            # To the end even if the caller stops waiting, or what is replaced would stay in memory.
            row, put = await asyncio.shield(self._put(opened, name, begun, idempotency_key, result_of))
        except RunHasHistoryError:
            standing = await self.describe(dataset, name)
            if begun.start is not None or standing.settings != settings:
                raise
        else:
            if put is not RunPut.UNCHANGED:
                return result_of(row, put)
            standing = await self.describe(dataset, name)
        return await self.answers.keep(idempotency_key, PutRunResult(standing, RunPut.UNCHANGED))

    async def _put(
        self,
        opened: OpenDataset,
        name: str,
        begun: Begun,
        idempotency_key: IdempotencyKey | None,
        result_of: Callable[[RunRow, RunPut], PutRunResult],
    ) -> tuple[RunRow, RunPut]:
        before = await self._standing(opened.row.id, name)
        row, put = await self.runs.put(
            opened.row.id,
            name,
            begun.state.settings,
            fork=begun.start,
            predictions=begun.predictions,
            idempotency_key=idempotency_key,
            result_of=result_of,
        )
        self.open_runs.invalidate(row)
        if before is not None and before.uid == row.uid:
            return row, put
        await self.states.register(row)
        if before is not None:  # other replicas must not continue with the run that was replaced
            await self.states.delete(before)
            await self.leases.clear(before)
        return row, put

    async def _standing(self, dataset_id: int, name: str) -> RunRow | None:
        try:
            return await self.runs.get(dataset_id, name)
        except UnknownRunError:
            return None
