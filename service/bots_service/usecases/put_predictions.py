"""Predictions of a dataset: put from an upload or from what a run believes, replaced, and removed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

import numpy as np

from bots_service.core.arrays import Counts, Flags, Floats
from bots_service.core.predictions import MOST_COLUMNS, Predictions, rounded
from bots_service.engine.catch_up import CatchUp
from bots_service.engine.dataset_builder import SHOWN_FLAWS
from bots_service.engine.open_runs import OpenDatasets, OpenRun, OpenRuns
from bots_service.engine.replicas import NotifyReplicas
from bots_service.errors import (
    BusyError,
    Flaw,
    InvalidTasksError,
    LimitReachedError,
    UnknownPredictionsError,
)
from bots_service.ports.catalog import Datasets
from bots_service.ports.hot import Leases, States
from bots_service.ports.records import DatasetRow, IdempotencyKey, OpenDataset, PredictionBlock, PredictionsFacts
from bots_service.usecases.import_dataset import KeyOfUpload


@dataclass(frozen=True, slots=True)
class ChangePredictions:
    """Sets the predictions that new runs see; runs whose journal is not empty keep those that they know."""

    datasets: Datasets
    open_datasets: OpenDatasets
    open_runs: OpenRuns
    states: States
    leases: Leases
    notify_replicas: NotifyReplicas

    async def put(
        self, dataset: OpenDataset, name: str, rates: Floats, idempotency_key: Callable[[], IdempotencyKey | None]
    ) -> DatasetRow:
        """Return the dataset with predictions, in place of those of the same name.

        Args:
            dataset: fresh.
            name: of the predictor.
            rates: [N] predicted pass rates, NaN where unknown.
            idempotency_key: keeps the result.

        Raises:
            InvalidTasksError: no task has a prediction.
            LimitReachedError: the dataset has as many predictions as it may.
            BusyError: another request changed the dataset meanwhile.
        """
        if np.isnan(rates).all():
            raise InvalidTasksError("no task has a predicted pass rate")
        before = dataset.row.facts.predictions
        kept = tuple(each for each in before if each.name != name)
        if len(kept) >= MOST_COLUMNS:
            names = ", ".join(each.name for each in kept)
            raise LimitReachedError(f"a dataset has at most {MOST_COLUMNS} predictions; it has {names}: remove one")
        others = await self.datasets.predictions(dataset.row.id, [each.key for each in kept])
        column = await asyncio.to_thread(rounded, name, rates, dataset.pool, others)
        facts = await asyncio.to_thread(facts_of, column)
        # In its old place: nothing but its content changes.
        now = tuple(facts if each.name == name else each for each in before)
        now = now if len(now) > len(kept) else (*kept, facts)
        return await asyncio.shield(self._change(dataset, now, column, idempotency_key()))

    async def drop(self, dataset_name: str, name: str, idempotency_key: IdempotencyKey | None) -> DatasetRow:
        """Return the dataset without these predictions.

        Raises:
            UnknownDatasetError, UnknownPredictionsError: one of the names is not known.
            BusyError: another request changed the dataset meanwhile.
        """
        dataset = await self.open_datasets.fresh(dataset_name)
        before = dataset.row.facts.predictions
        kept = tuple(each for each in before if each.name != name)
        if len(kept) == len(before):
            raise UnknownPredictionsError(f"dataset {dataset_name!r} has no predictions {name!r}")
        return await asyncio.shield(self._change(dataset, kept, None, idempotency_key))

    async def _change(
        self,
        dataset: OpenDataset,
        predictions: tuple[PredictionsFacts, ...],
        column: Predictions | None,
        idempotency_key: IdempotencyKey | None,
    ) -> DatasetRow:
        facts = replace(dataset.row.facts, predictions=predictions)
        try:
            row, empty = await self.datasets.put_predictions(dataset.row, facts, column, idempotency_key)
        except BusyError:
            self.open_datasets.invalidate(dataset.row.name)
            raise
        views = {keys: replace(view, row=row) for keys, view in dataset.views.items()}
        self.open_datasets.keep(replace(dataset, row=row, views=views))
        for run in empty:  # what replicas hold of these runs was made without the predictions
            self.open_runs.invalidate(run)
            await self.states.delete(run)
            await self.leases.clear(run)
        await self.notify_replicas.of_change(row)
        return row


def facts_of(column: Predictions) -> PredictionsFacts:
    """Return what a dataset says of predictions."""
    return PredictionsFacts(column.name, column.digest, column.parts, column.known, column.mean)


@dataclass(frozen=True, slots=True)
class PutPredictions:
    """Put predictions from a stream of blocks; tasks that it doesn't name have none."""

    open_datasets: OpenDatasets
    change: ChangePredictions

    async def __call__(
        self, dataset_name: str, name: str, blocks: AsyncIterator[PredictionBlock], idempotency_key: KeyOfUpload
    ) -> DatasetRow:
        """Return the dataset with the predictions.

        Raises:
            UnknownDatasetError: there is no such dataset.
            InvalidTasksError: a task is not in the dataset or comes twice, or a pass rate is out of range.
            LimitReachedError: the dataset has as many predictions as it may.
            BusyError: another request changed the dataset meanwhile.
        """
        dataset = await self.open_datasets.fresh(dataset_name)
        rates, said, first = np.full(len(dataset.ids), np.nan), np.zeros(len(dataset.ids), bool), 0
        async for block in blocks:
            await asyncio.to_thread(_enter, block, first, dataset, rates, said)
            first += len(block)
        return await self.change.put(dataset, name, rates, idempotency_key)


def _enter(block: PredictionBlock, first: int, dataset: OpenDataset, rates: Floats, said: Flags) -> None:
    """Write a block's predictions to their places in `rates`, and mark them in `said`."""
    tasks = dataset.ids.find(block.ids)
    _refuse(first, np.flatnonzero(tasks < 0), "id", lambda row: f"no task {block.ids[row][:80]!r}")
    is_repeated = said[tasks]
    is_repeated[np.setdiff1d(np.arange(len(tasks)), np.unique(tasks, return_index=True)[1])] = True
    _refuse(first, np.flatnonzero(is_repeated), "id", lambda row: f"{block.ids[row][:80]!r} has a prediction already")
    impossible = ~(np.isnan(block.rates) | ((block.rates >= 0) & (block.rates <= 1)))
    _refuse(first, np.flatnonzero(impossible), "pass_rate", lambda row: f"{block.rates[row]} is not in [0, 1]")
    rates[tasks], said[tasks] = block.rates, True


def _refuse(first: int, rows: Counts, field: str, message: Callable[[int], str]) -> None:
    if len(rows):
        flaws = [Flaw(("predictions", first + row, field), message(row)) for row in rows[:SHOWN_FLAWS].tolist()]
        raise InvalidTasksError("invalid predictions", tuple(flaws))


@dataclass(frozen=True, slots=True)
class PutPredictionsOfRun:
    """Put what a run believes of the tasks that it has evidence of; the others have no prediction."""

    open_datasets: OpenDatasets
    open_runs: OpenRuns
    catch_up: CatchUp
    change: ChangePredictions

    async def __call__(
        self, dataset_name: str, run_name: str, name: str, step: int | None, idempotency_key: IdempotencyKey | None
    ) -> DatasetRow:
        """Return the dataset with the predictions.

        Args:
            dataset_name: the run's dataset.
            run_name: the run.
            name: of the predictions.
            step: after which it believes so; None: the last one.
            idempotency_key: keeps the result.

        Raises:
            UnknownDatasetError, UnknownRunError, UnknownStepError: dataset, run, or step.
            InvalidTasksError: the run has no evidence of any task.
            LimitReachedError: the dataset has as many predictions as it may.
            BusyError: another request changed the dataset meanwhile.
        """

        async def means(run: OpenRun) -> Floats:
            state = await self.catch_up.at_step(run, step)
            pool = (await self.open_runs.matching(run, state)).dataset.pool
            rates, tasks = np.full(len(pool), np.nan), state.belief.own_tasks
            rates[tasks] = (await asyncio.to_thread(state.belief.distributions, pool, tasks)).mean
            return rates

        rates = await self.open_runs.using(dataset_name, run_name, means)
        dataset = await self.open_datasets.fresh(dataset_name)
        rates = np.concatenate([rates, np.full(len(dataset.ids) - len(rates), np.nan)])  # tasks appended meanwhile
        return await self.change.put(dataset, name, rates, lambda: idempotency_key)
