"""Catching up: take the newest known state, fold the journal entries after it, publish the result.

Reports, cold starts and crash recovery all use this.
"""

from dataclasses import dataclass

import structlog

from bots_service.core.receipt import Receipt
from bots_service.core.state import RunState
from bots_service.engine.live_runs import REMEMBERED_RECEIPTS, Folded, LiveRun, LiveRuns
from bots_service.engine.open_runs import OpenRun
from bots_service.engine.replay import Replay, SaveSnapshot
from bots_service.errors import StorageUnavailableError, UnknownStepError
from bots_service.ports.hot import NO_TOKEN, KnownState, PublishResult, States
from bots_service.ports.journal import Journal

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Brings a run's state up to date with its journal."""

    journal: Journal
    states: States
    live: LiveRuns
    save_snapshot: SaveSnapshot
    replay: Replay

    def known(self, run: OpenRun) -> KnownState | None:
        """Return the newest state in this process; other replicas may have published a newer one."""
        return self.states.known(run.row)

    async def newest(self, run: OpenRun) -> KnownState:
        """Return the newest published state; if none can be trusted, the state after the whole journal."""
        published = await self.states.newest(run.row)
        if published.state is not None:
            return KnownState(published.state, published.token)
        return await self.current(run, published.token)

    async def newest_or_known(self, run: OpenRun) -> KnownState:
        """Return the newest state; if neither the shared store nor SQL is available, an older one in this process.

        For selections: an older belief is better than a stalled training job.
        """
        try:
            return await self.newest(run)
        except StorageUnavailableError:
            known = self.known(run)
            if known is None:
                raise
            return KnownState(known.state, NO_TOKEN)

    async def current(self, run: OpenRun, token: str | None = None) -> KnownState:
        """Return the state after the whole journal, including entries whose callers did not wait for the fold."""
        return await self.through(run, await self.replay.head(run), token)

    async def through(self, run: OpenRun, seq: int, token: str | None = None) -> KnownState:
        """Return a state that includes entry `seq`, published if the shared store is available.

        Args:
            run: the run.
            seq: the entry.
            token: the hot store's token from before the run's head was read, if the store had no trusted state.
        """
        live = self.live(run.row.id)
        live.wanted = max(live.wanted, seq)
        asked_after = 0  # entries up to this seq were committed before the token was issued
        while True:
            async with live.folding:
                known = await self._nearest(run, seq)
                if known is not None and known.state.seq >= seq and not known.degraded and token in (None, known.token):
                    return known
                if token is None:
                    token = (await self.states.newest(run.row)).token if known is None else known.token
                state, receipts = await self._up_to(run, live, None if known is None else known.state)
                live.unpublished = [*live.unpublished, *receipts][-REMEMBERED_RECEIPTS:]
                # After folding: a state published earlier would miss acknowledged entries and pass for the newest.
                result = await self.states.publish(run.row, state, token)
                if result in (PublishResult.SHARED, PublishResult.LOCAL):
                    # Reports are acknowledged with these receipts, so this follows the publication.
                    live.acknowledge(state.seq, degraded=result is PublishResult.LOCAL)
                    return KnownState(state, NO_TOKEN if result is PublishResult.LOCAL else token)
                if result is PublishResult.SUPERSEDED and seq <= asked_after:
                    # Every replica reads SQL next and finds these entries, so the reports can be acknowledged. Retrying
                    # until a state is published might never end: the hot store may be wiped faster than that. `acquire`
                    # refuses a selection from this state.
                    live.acknowledge(asked_after, degraded=False)
                    return KnownState(state, token)
            # The hot store lost data, or the dataset changed: read SQL.
            asked_after = live.wanted
            token = (await self.states.newest(run.row)).token
            live.wanted = max(live.wanted, await self.replay.head(run))

    async def _nearest(self, run: OpenRun, seq: int) -> KnownState | None:
        """Return the state to fold entry `seq` into: a published one if this process misses entries before it."""
        known = self.states.known(run.row)
        if known is not None and known.state.seq >= seq - 1:
            return known
        await self.states.newest(run.row)
        return self.states.known(run.row)  # a published state, even if nobody knows whether it is the newest

    async def _up_to(self, run: OpenRun, live: LiveRun, state: RunState | None) -> tuple[RunState, list[Receipt]]:
        """Fold all entries that callers wait for; return the state and the receipts."""
        wanted = live.wanted
        if state is None:
            wanted = max(wanted, await self.replay.head(run))
            state = await self.replay.stored(run, wanted)
        try:
            return await self._folded(run, live, state, wanted)
        except UnknownStepError:  # this process's state is so old that the entries after it were pruned
            return await self._folded(run, live, await self.replay.stored(run, wanted), wanted)

    async def _folded(self, run: OpenRun, live: LiveRun, state: RunState, up_to: int) -> tuple[RunState, list[Receipt]]:
        """Fold the entries up to `up_to`; return the state and the newest receipts."""
        made = list[Receipt]()
        async for folded, receipts in self.replay.folds(run, state, up_to):
            live.keep(self.journal.keep_receipts(run.row, receipts))
            await self._save(run, live, state, folded)
            made = [*made, *receipts][-REMEMBERED_RECEIPTS:]
            state = folded
        return state, made

    async def receipt(self, run: OpenRun, seq: int) -> Folded:
        """Return the receipt of entry `seq`, folding it if necessary."""
        live = self.live(run.row.id)
        live.wanted = max(live.wanted, seq)
        async with live.acknowledging:  # one fold at a time: the tokens of waiting callers would expire
            degraded = seq not in live.folded and (await self.through(run, seq)).degraded
        folded = live.folded.get(seq)
        if folded is not None:
            return folded
        receipt = await self.journal.receipt(run.row, seq)
        if receipt is None:
            receipt = (await self._refolded(run, seq - 1, seq))[-1]
        return Folded(receipt, degraded)

    async def settled(self, run: OpenRun) -> RunState:
        """Return the state after the whole journal, once this process has stored its receipts in SQL."""
        live = self.live(run.row.id)
        state = (await self.current(run)).state
        await live.settled()
        return state

    async def repair_receipts(self, run: OpenRun) -> RunState:
        """Store receipts that a crash kept from SQL, recomputed from the journal; return the newest state."""
        state = await self.settled(run)
        missing = await self.journal.first_without_receipt(run.row, state.seq)
        if missing is not None:
            await self.journal.keep_receipts(run.row, await self._refolded(run, missing - 1, state.seq))
        return state

    async def _refolded(self, run: OpenRun, after: int, up_to: int) -> list[Receipt]:
        """Fold the entries after `after` again; return their receipts, oldest first."""
        state = await self.replay.state_at(run, after)
        receipts = []
        async for _, made in self.replay.folds(run, state, up_to):
            receipts += made
        return receipts

    async def at_step(self, run: OpenRun, step: int | None) -> RunState:
        """Return the state right after `step` closed, in the run's current history; None: the newest state.

        Raises:
            UnknownStepError: the current history has no such step.
        """
        if step is None:
            return (await self.newest(run)).state
        return await self.replay.state_at(run, await self.closing(run, step))

    async def closing(self, run: OpenRun, step: int) -> int:
        """Return the seq of the entry that closed `step`, in the run's current history.

        Raises:
            UnknownStepError: the current history has no such step.
        """
        newest = await self.repair_receipts(run)
        seq = await self.journal.closing(run.row, step)
        if seq is None:
            message = f"run {run.row.name!r} has no step {step} in its current history; it is at step {newest.step}"
            raise UnknownStepError(message)
        if seq < await self.journal.begins(run.row):
            raise await self.replay.missing_entry(run, seq, f"has no entry {seq}")
        return seq

    async def _save(self, run: OpenRun, live: LiveRun, before: RunState, state: RunState) -> None:
        """Store a snapshot if it is due: at regular intervals, and after a rewind, which takes long to fold."""
        if before.epoch == state.epoch and not self.save_snapshot.is_due(before, state):
            return
        try:
            # A cold start folds from the snapshot on, so the receipts before it must be in SQL first.
            await live.settled()
            await self.save_snapshot(run.row, state, wanted=False)
            await self.save_snapshot.thin(run.row)
        except StorageUnavailableError as error:  # a snapshot only shortens replays: a later one will do
            log.warning("snapshot_not_saved", run=run.row.name, seq=state.seq, reason=str(error))
