"""What a new run begins from: another run's state, its belief, or its journal."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from bots_service.core.beginnings import Refold, warm_start
from bots_service.core.codec import encode_state
from bots_service.core.entries import Fork
from bots_service.core.open_step import NOTHING_OPEN
from bots_service.core.pool import Pool
from bots_service.core.predictions import PredictionsKey
from bots_service.core.run_settings import settings_asked
from bots_service.core.state import RunState, fresh_state
from bots_service.engine.catch_up import CatchUp
from bots_service.engine.open_runs import OpenDatasets, OpenRun, OpenRuns
from bots_service.engine.replay import PAGE
from bots_service.errors import Flaw, InvalidSettingsError
from bots_service.ports.journal import Journal
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
class WarmStartFrom:
    """The run begins at step 0 with what another run believes after a step (None: the last), less surely.

    discount: the share of the evidence to drop, in [0, 1].
    """

    run: str
    discount: float
    step: int | None = None


@dataclass(frozen=True, slots=True)
class ReplayOf:
    """The run continues another run from a step (None: the last), with what its journal gives under new settings."""

    run: str
    step: int | None = None


RunOrigin = ForkFrom | WarmStartFrom | ReplayOf


@dataclass(frozen=True, slots=True)
class BeginRun:
    """Computes the states that runs begin with. Changes nothing."""

    open_datasets: OpenDatasets
    open_runs: OpenRuns
    journal: Journal
    catch_up: CatchUp

    async def __call__(self, opened: OpenDataset, origin: RunOrigin | None, values: dict[str, Any]) -> Begun:
        """Return the state to begin with, and what leads there.

        A run sees the dataset's newest predictions, unless it continues the belief of a run that sees older ones.

        Raises:
            UnknownRunError, UnknownStepError: the other run, or its step.
            InvalidSettingsError: a setting is out of range, or can't be with this origin.
        """
        begun = await self._begun(opened, origin, values)
        require_known_tags(begun.state.settings, opened.pool)
        return begun

    async def _begun(self, opened: OpenDataset, origin: RunOrigin | None, values: dict[str, Any]) -> Begun:
        newest = opened.row.facts.prediction_keys
        if origin is None:
            seen = await self.open_datasets.seen_with(opened, newest)
            return Begun(fresh_state(settings_asked(values), seen.pool), seen, newest)
        run = await self.open_runs(opened.row.name, origin.run)
        predictions = newest if isinstance(origin, ReplayOf) else run.row.predictions
        seen = await self.open_datasets.seen_with(opened, predictions)
        if isinstance(origin, ReplayOf):
            same = run.row.predictions == newest
            begin, parent = await self._replay(run, origin, values, None if same else seen.pool)
        else:
            state = await self.catch_up.at_step(run, origin.step)
            parent = Parent(origin.run, state.step, state.seq)
            if isinstance(origin, ForkFrom):
                begin = _fork(state, values)
            else:
                begin = await asyncio.to_thread(_warm, state, origin.discount, values, seen)
                parent = replace(parent, how="warm_start", discount=origin.discount)
        entry = Fork(parent.run, parent.seq, await asyncio.to_thread(encode_state, begin))
        return Begun(begin, seen, predictions, (parent, entry, seen.pool.profiles))

    async def _replay(
        self, run: OpenRun, origin: ReplayOf, values: dict[str, Any], seen: Pool | None
    ) -> tuple[RunState, Parent]:
        settings = settings_asked(values)
        if run.row.parent is not None:
            flaw = f"run {run.row.name!r} began from run {run.row.parent.run!r}: its own journal is only a part"
            raise InvalidSettingsError("this run can't be replayed", (Flaw(("replay_of",), flaw),))
        state = await self.catch_up.repair_receipts(run)
        seq = state.seq if origin.step is None else await self.catch_up.closing(run, origin.step)
        replay = self.catch_up.replay
        if await self.journal.begins(run.row) > 0:
            raise await replay.missing_entry(run, 1, "has no entry 1")
        run = await self.open_runs.matching(run, state)
        pool = run.dataset.pool
        fold = Refold.of(fresh_state(run.row.settings, pool), settings, pool if seen is None else seen)
        for before, last in await replay.course(run, 0, seq):
            for after in range(before, last, PAGE):
                entries = await self.journal.after(run.row, after, min(after + PAGE, last), PAGE)
                fold = await asyncio.to_thread(fold.with_entries, entries, pool)
        begin = fold.begin()
        return begin, Parent(origin.run, begin.step, seq, "replay")


def _fork(state: RunState, values: dict[str, Any]) -> RunState:
    settings = settings_asked(values, base=state.settings)
    return replace(state, epoch=0, seq=0, settings=settings, open_step=NOTHING_OPEN)


def _warm(state: RunState, discount: float, values: dict[str, Any], opened: OpenDataset) -> RunState:
    kind = state.settings.belief
    settings = settings_asked({"belief": kind, **values})
    if settings.belief != kind:
        flaw = f"a warm start keeps the kind of belief, {kind}; replay_of begins with another"
        raise InvalidSettingsError("these settings can't be given", (Flaw(("belief",), flaw),))
    return warm_start(state, settings, discount, opened.pool)
