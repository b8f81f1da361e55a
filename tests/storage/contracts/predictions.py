"""What every Datasets owes of predictions, and every Runs of those that a run knows."""

from dataclasses import replace

import numpy as np
import pytest

from bots_service.core.arrays import frozen
from bots_service.core.entries import Fork
from bots_service.core.predictions import Predictions
from bots_service.core.run_settings import RunSettings
from bots_service.errors import BusyError, UnknownRunError
from bots_service.records import DatasetRow, Parent, PredictionsFacts
from tests.storage import made
from tests.storage.made import Stores


def column(level: int) -> Predictions:
    return Predictions("probe", 16, frozen(np.full(10, level, np.uint8)))


async def put(stores: Stores, row: DatasetRow, *columns: Predictions) -> DatasetRow:
    said = tuple(PredictionsFacts(each.name, each.digest, each.parts, each.known, each.mean) for each in columns)
    facts = replace(row.facts, predictions=said)
    return (await stores.datasets.put_predictions(row, facts, columns[-1] if columns else None))[0]


class PredictionsContract:
    """For a fixture `stores`."""

    async def test_predictions_are_read_as_they_were_put(self, stores: Stores):
        row = await put(stores, await made.dataset(stores), column(3))
        (found,) = await stores.datasets.predictions(row.id, row.facts.prediction_keys)
        assert (found.name, found.parts, found.digest) == ("probe", 16, column(3).digest)
        assert (await stores.datasets.get(row.name)) == row

    async def test_only_runs_without_a_journal_get_them_and_another_uid(self, stores: Stores):
        row = await made.dataset(stores)
        empty, live = [(await stores.runs.put(row.id, name, RunSettings()))[0] for name in ("empty", "live")]
        await stores.journal.append(live, made.draft())
        row = await put(stores, row, column(3))
        got, kept = [await stores.runs.get(row.id, name) for name in ("empty", "live")]
        assert (got.predictions, kept.predictions) == (row.facts.prediction_keys, ())
        assert (got.uid != empty.uid, kept.uid) == (True, live.uid)
        with pytest.raises(UnknownRunError):
            await stores.journal.append(empty, made.draft())

    async def test_what_neither_new_runs_nor_a_run_knows_is_dropped(self, stores: Stores):
        row = await put(stores, await made.dataset(stores), column(3))
        first = row.facts.prediction_keys
        run = await stores.runs.get(row.id, "default")
        await stores.journal.append(run, made.draft())
        row = await put(stores, row, column(4))
        second = row.facts.prediction_keys
        row = await put(stores, row)
        assert len(await stores.datasets.predictions(row.id, first)) == 1
        with pytest.raises(UnknownRunError):
            await stores.datasets.predictions(row.id, second)

    async def test_an_older_version_of_the_dataset_is_refused(self, stores: Stores):
        old = await made.dataset(stores)
        await put(stores, old, column(3))
        with pytest.raises(BusyError):
            await put(stores, old, column(4))

    async def test_a_new_run_must_know_the_newest_and_a_fork_such_as_are_there(self, stores: Stores):
        row = await put(stores, await made.dataset(stores), column(3))
        with pytest.raises(BusyError, match="predictions"):
            await stores.runs.put(row.id, "late", RunSettings())
        run, _ = await stores.runs.put(row.id, "late", RunSettings(), predictions=row.facts.prediction_keys)
        assert run.predictions == row.facts.prediction_keys
        origin = (Parent("late", 0, 0), Fork("late", 0, b"state"), 3)
        assert (await stores.runs.put(row.id, "fork", RunSettings(), fork=origin))[0].predictions == ()
        with pytest.raises(BusyError, match="predictions"):
            await stores.runs.put(row.id, "gone", RunSettings(), fork=origin, predictions=(column(9).key,))

    async def test_a_default_run_that_is_deleted_knows_the_newest_again(self, stores: Stores):
        row = await put(stores, await made.dataset(stores), column(3))
        await stores.runs.delete(await stores.runs.get(row.id, "default"))
        assert (await stores.runs.get(row.id, "default")).predictions == row.facts.prediction_keys
