"""The one way forward: newest known state, fold the journal entries after it, publish.

Reports, cold starts and crash recovery all go through here.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import structlog

from bots_service.core.codec import decode_state
from bots_service.core.entries import Entry, Fork, Rewind
from bots_service.core.pool import Pool
from bots_service.core.receipt import Receipt
from bots_service.core.state import RunState, advance, fresh_state
from bots_service.errors import DamagedStateError, UnknownStepError
from bots_service.ports.hot import States
from bots_service.ports.journal import Journal, Snapshots
from bots_service.usecases.live import LiveRuns
from bots_service.usecases.open_run import OpenRun, OpenRuns
from bots_service.usecases.save_snapshot import SaveSnapshot

log = structlog.get_logger(__name__)

# Folding one report into a state of this size takes about 0.3 ms; a thread costs 0.1 ms and the interpreter's lock.
SMALL_STATE_NUMBERS = 50_000
PAGE = 1000  # entries folded between two turns of the event loop


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Brings a run's state up to its journal."""

    journal: Journal
    snapshots: Snapshots
    states: States
    live: LiveRuns
    save_snapshot: SaveSnapshot
    open_runs: OpenRuns

    async def newest(self, run: OpenRun) -> RunState:
        """Return the newest published state; where none is known, the state after the whole journal."""
        state = await self.states.newest(run.row)
        if state is None:
            state = await self.current(run)
        return state

    async def current(self, run: OpenRun) -> RunState:
        """Return the state after the whole journal, with what a caller appended who gave up before it was folded."""
        return await self.through(run, await self.journal.head(run.row))

    async def through(self, run: OpenRun, seq: int) -> RunState:
        """Return a published state with at least entry `seq` folded in."""
        live = self.live(run.row.id)
        live.wanted = max(live.wanted, seq)
        async with live.folding:
            state = await self.states.newest(run.row)
            if state is not None and state.seq >= seq:
                return state
            wanted = live.wanted
            if state is None:
                wanted = max(wanted, await self.journal.head(run.row))
                state = await self._stored(run, wanted)
            async for folded, receipts in self._folds(run, state, wanted):
                live.remember(receipts)
                live.keep(self.journal.keep_receipts(run.row, receipts))
                await self._save(run, state, folded)
                state = folded
            # Not before: whoever looked meanwhile would take a state without what was acknowledged for the newest one.
            await self.states.publish(run.row, state)
            return state

    async def receipt(self, run: OpenRun, seq: int) -> Receipt:
        """Return what folding entry `seq` did."""
        live = self.live(run.row.id)
        if seq not in live.receipts:
            await self.through(run, seq)
        receipt = live.receipts.get(seq) or await self.journal.receipt(run.row, seq)
        if receipt is None:
            receipt = (await self._refolded(run, seq - 1, seq))[-1]
        return receipt

    async def mend_receipts(self, run: OpenRun) -> RunState:
        """Make receipts again that a crash kept from SQL, for they follow from the journal; return the newest state."""
        state = await self.current(run)
        await self.live(run.row.id).settled()
        missing = await self.journal.first_without_receipt(run.row, state.seq)
        if missing is not None:
            await self.journal.keep_receipts(run.row, await self._refolded(run, missing - 1, state.seq))
        return state

    async def _refolded(self, run: OpenRun, after: int, up_to: int) -> list[Receipt]:
        """Return what folding the entries behind `after` did, oldest first."""
        state = await self.state_at(run, after)
        receipts = []
        async for _, made in self._folds(run, state, up_to):
            receipts += made
        return receipts

    async def state_at(self, run: OpenRun, seq: int) -> RunState:
        """Return the state that stood after entry `seq`, whatever came later.

        Goes back from rewind to rewind until a stored state is near, so what was abandoned is never folded: to fold it
        all would double the work with each rewind.
        """
        rewinds: list[tuple[Entry, int]] = []
        state = await self._stored(run, seq)
        while (rewind := await self._last_rewind(run, state.seq, seq)) is not None:
            rewinds.append((rewind[0], seq))
            seq = rewind[1]
            state = await self._stored(run, seq)
        state = await self._folded(run, state, seq)
        for entry, up_to in reversed(rewinds):
            state, _ = advance(replace(state, seq=entry.seq - 1), entry, run.dataset.pool, base=state)
            state = await self._folded(run, state, up_to)
        return state

    async def at_step(self, run: OpenRun, step: int | None) -> RunState:
        """Return the state that stood when `step` had just closed, in the run's present history; None: as it stands.

        Raises:
            UnknownStepError: the present history has no such step.
        """
        if step is None:
            return await self.newest(run)
        return await self.state_at(run, await self.closing(run, step))

    async def closing(self, run: OpenRun, step: int) -> int:
        """Return the entry after which `step` had just closed, in the run's present history.

        Raises:
            UnknownStepError: the present history has no such step.
        """
        newest = await self.mend_receipts(run)
        seq = await self.journal.closing(run.row, step)
        if seq is None:
            message = f"run {run.row.name!r} has no step {step} in its present history; it stands at step {newest.step}"
            raise UnknownStepError(message)
        return seq

    async def _stored(self, run: OpenRun, up_to: int) -> RunState:
        """Return the newest state in storage that is not beyond `up_to`, skipping damaged ones."""
        while True:
            found = await self.snapshots.newest(run.row, up_to)
            if found is None:
                return fresh_state(run.row.settings, 0)
            row, blob = found
            try:
                return await asyncio.to_thread(decode_state, blob)
            except DamagedStateError as error:
                log.error("snapshot_damaged", run=run.row.name, seq=row.seq, reason=str(error))
                up_to = row.seq - 1

    async def _last_rewind(self, run: OpenRun, after: int, up_to: int) -> tuple[Entry, int] | None:
        """Return the last rewind behind entry `after`, and where it went back to; None if there is none."""
        while up_to > after:
            begin = max(after, up_to - PAGE)
            for entry in reversed(await self.journal.after(run.row, begin, up_to, PAGE)):
                if isinstance(entry.body, Rewind):
                    return entry, entry.body.to_seq
            up_to = begin
        return None

    async def _folded(self, run: OpenRun, state: RunState, up_to: int) -> RunState:
        """Return the state after entry `up_to`."""
        async for folded, _ in self._folds(run, state, up_to):
            state = folded
        return state

    async def _folds(self, run: OpenRun, state: RunState, up_to: int) -> AsyncIterator[tuple[RunState, list[Receipt]]]:
        """Yield the state after each page of entries up to `up_to`, and what the page's entries did."""
        while state.seq < up_to:
            entries = await self.journal.after(run.row, state.seq, up_to, PAGE)
            for seq, entry in enumerate(entries, start=state.seq + 1):
                if entry.seq != seq:
                    raise DamagedStateError(f"the journal of run {run.row.name!r} lacks entry {seq}")
            if not entries:
                await self.journal.head(run.row)  # refuses a run that was deleted meanwhile
                raise DamagedStateError(f"the journal of run {run.row.name!r} ends before entry {up_to}")
            pool = (await self.open_runs.again(run)).dataset.pool  # others may have reported tasks appended meanwhile
            bases = {entry.seq: await self._base(run, entry) for entry in entries}
            if _numbers(state) * len(entries) <= SMALL_STATE_NUMBERS:
                state, receipts = fold(state, entries, pool, bases)
            else:
                state, receipts = await asyncio.to_thread(fold, state, entries, pool, bases)
            yield state, receipts

    async def _save(self, run: OpenRun, before: RunState, state: RunState) -> None:
        """Store the state if that is due: every so many entries, and after a rewind, which is long to fold."""
        if before.epoch != state.epoch or self.save_snapshot.is_due(before, state):
            # A cold start folds from here, so the receipts up to here must be in SQL first.
            await self.live(run.row.id).settled()
            await self.save_snapshot(run.row, state, wanted=False)
            await self.save_snapshot.thin(run.row)

    async def _base(self, run: OpenRun, entry: Entry) -> RunState | None:
        """Return the state that a rewind or a fork goes on from."""
        if isinstance(entry.body, Fork):
            return await asyncio.to_thread(decode_state, entry.body.state)
        if isinstance(entry.body, Rewind):
            return await self.state_at(run, entry.body.to_seq)
        return None


def fold(
    state: RunState, entries: list[Entry], pool: Pool, bases: dict[int, RunState | None]
) -> tuple[RunState, list[Receipt]]:
    """Return the state after these entries, and what each did."""
    receipts = []
    for entry in entries:
        state, receipt = advance(state, entry, pool, base=bases[entry.seq])
        receipts.append(receipt)
    return state, receipts


def _numbers(state: RunState) -> int:
    """Return about how many numbers one fold of this state touches."""
    belief = state.belief
    tried = len(belief.tried.settled) + len(belief.tried.recent)
    return belief.implied.size + 4 * tried + 4 * len(state.open_step.evidence)
