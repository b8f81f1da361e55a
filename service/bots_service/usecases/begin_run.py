"""What a new run begins from: nothing, or another run's state."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from bots_service.core.codec import encode_state
from bots_service.core.entries import Fork
from bots_service.core.open_step import NOTHING_OPEN
from bots_service.core.predictions import PredictionsKey
from bots_service.core.run_settings import settings_asked
from bots_service.core.state import RunState, fresh_state
from bots_service.engine.catch_up import CatchUp
from bots_service.engine.open_runs import OpenDatasets, OpenRuns
from bots_service.ports.records import OpenDataset, Parent
from bots_service.usecases.change_run import require_known_tags

Start = tuple[Parent, Fork, int]  # as `Runs.put` wants it


class Begun(NamedTuple):
    """What a run begins with. dataset: as it sees it; start: what leads to the state, None for an empty journal."""

    state: RunState
    dataset: OpenDataset
    predictions: tuple[PredictionsKey, ...]
    start: Start | None = None


@dataclass(frozen=True, slots=True)
class ForkFrom:
    """The run continues another run of the dataset, from a step that closed there (None: the last)."""

    run: str
    step: int | None = None


@dataclass(frozen=True, slots=True)
class BeginRun:
    """Computes the states that runs begin with. Changes nothing."""

    open_datasets: OpenDatasets
    open_runs: OpenRuns
    catch_up: CatchUp

    async def __call__(self, opened: OpenDataset, origin: ForkFrom | None, values: dict[str, Any]) -> Begun:
        """Return the state to begin with, and what leads there.

        A run sees the dataset's newest predictions; a fork sees those of the run that it continues.

        Raises:
            UnknownRunError, UnknownStepError: the other run, or its step.
            InvalidSettingsError: a setting is out of range, or can't differ from the other run's.
        """
        begun = await self._begun(opened, origin, values)
        require_known_tags(begun.state.settings, opened.pool)
        return begun

    async def _begun(self, opened: OpenDataset, origin: ForkFrom | None, values: dict[str, Any]) -> Begun:
        if origin is None:
            newest = opened.row.facts.prediction_keys
            seen = await self.open_datasets.seen_with(opened, newest)
            return Begun(fresh_state(settings_asked(values), seen.pool), seen, newest)
        run = await self.open_runs(opened.row.name, origin.run)
        seen = await self.open_datasets.seen_with(opened, run.row.predictions)
        state = await self.catch_up.at_step(run, origin.step)
        parent, begin = Parent(origin.run, state.step, state.seq), _fork(state, values)
        entry = Fork(parent.run, parent.seq, await asyncio.to_thread(encode_state, begin))
        return Begun(begin, seen, run.row.predictions, (parent, entry, seen.pool.profiles))


def _fork(state: RunState, values: dict[str, Any]) -> RunState:
    settings = settings_asked(values, base=state.settings)
    walks = state.walks if settings.seed == state.settings.seed else state.walks.restarted()
    return replace(state, epoch=0, seq=0, settings=settings, walks=walks, open_step=NOTHING_OPEN)
