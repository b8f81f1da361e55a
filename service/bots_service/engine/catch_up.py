"""The one way forward: newest known state, fold the journal entries after it, publish.

Reports, cold starts and crash recovery all go through here.
"""

from dataclasses import dataclass

import structlog

from bots_service.core.receipt import Receipt
from bots_service.core.state import RunState
from bots_service.engine.live_runs import REMEMBERED_RECEIPTS, Folded, LiveRun, LiveRuns
from bots_service.engine.open_runs import OpenRun
from bots_service.engine.replay import Replay, SaveSnapshot
from bots_service.errors import BotsError, StorageUnavailableError, UnknownStepError
from bots_service.metrics.training import TrainingMetrics
from bots_service.ports.hot import NO_TOKEN, KnownState, PublishResult, States
from bots_service.ports.journal import Journal
from bots_service.spans import Span

log = structlog.get_logger(__name__)

MOST_REFOLDED = 256  # entries, so that no report waits for long; a replica that is at work on a run lacks a few


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Brings a run's state up to its journal."""

    journal: Journal
    states: States
    live: LiveRuns
    save_snapshot: SaveSnapshot
    replay: Replay
    metrics: TrainingMetrics

    def known(self, run: OpenRun) -> KnownState | None:
        """Return the newest state that this process holds; others may have published a newer one."""
        return self.states.known(run.row)

    async def newest(self, run: OpenRun) -> KnownState:
        """Return the newest published state; where none can be trusted, the state after the whole journal."""
        published = await self.states.newest(run.row)
        if published.state is not None:
            return KnownState(published.state, published.token)
        return await self.current(run, published.token)

    async def newest_or_known(self, run: OpenRun) -> KnownState:
        """Return the newest state; with neither the shared store nor SQL, an older one that this process holds.

        For answers that are better late than never: an older belief beats a stalled training job.
        """
        try:
            return await self.newest(run)
        except StorageUnavailableError:
            known = self.known(run)
            if known is None:
                raise
            return KnownState(known.state, NO_TOKEN)

    async def current(self, run: OpenRun, token: str | None = None) -> KnownState:
        """Return the state after the whole journal, with what a caller appended who gave up before it was folded."""
        return await self.through(run, await self.replay.head(run), token)

    async def through(self, run: OpenRun, seq: int, token: str | None = None) -> KnownState:
        """Return a state with at least entry `seq` folded in, published if the shared store can be reached.

        Args:
            run: the run.
            seq: the entry.
            token: what the hot store said before the run's head was read, where it had no state to trust.
        """
        with Span("catch up", self.metrics.catch_up_seconds, seq=seq):
            return await self._through(run, seq, token)

    async def _through(self, run: OpenRun, seq: int, token: str | None) -> KnownState:
        live = self.live(run.row.id)
        live.wanted = max(live.wanted, seq)
        asked_after = 0  # the entries up to here were committed before the token was issued
        while True:
            async with live.folding:
                known = await self._nearest(run, seq, token)
                if known is not None and known.state.seq >= seq and not known.degraded and token in (None, known.token):
                    return known
                if token is None:
                    token = (await self.states.newest(run.row)).token if known is None else known.token
                state, receipts = await self._up_to(run, live, None if known is None else known.state)
                live.unpublished = [*live.unpublished, *receipts][-REMEMBERED_RECEIPTS:]
                # Not before: who looked meanwhile would take a state without what was acknowledged for the newest one.
                with Span("publish", seq=state.seq):
                    result = await self.states.publish(run.row, state, token)
                if result in (PublishResult.SHARED, PublishResult.LOCAL):
                    # What a report is acknowledged with, so not before either.
                    live.acknowledge(state.seq, degraded=result is PublishResult.LOCAL)
                    return KnownState(state, NO_TOKEN if result is PublishResult.LOCAL else token)
                if result is PublishResult.SUPERSEDED and seq <= asked_after:
                    # Every replica asks SQL and finds these entries, so a report can be acknowledged. Trying until a
                    # state is published never ends where the hot store is wiped faster than a publication takes.
                    # `acquire` refuses a selection from this state.
                    live.acknowledge(asked_after, degraded=False)
                    return KnownState(state, token)
            # The hot store lost something, or the dataset changed: SQL knows.
            asked_after = live.wanted
            token = (await self.states.newest(run.row)).token
            live.wanted = max(live.wanted, await self.replay.head(run))

    async def _nearest(self, run: OpenRun, seq: int, token: str | None) -> KnownState | None:
        """Return the state to fold entry `seq` into; where entries before it are missing, what others published."""
        known = self.states.known(run.row)
        is_near = known is not None and known.state.seq >= seq - 1
        if token is None:  # else the hot store was asked just now, so it says nothing of this process's memory
            self.metrics.caches.states.looked_up(found=is_near)
        if is_near:
            return known
        await self.states.newest(run.row)
        return self.states.known(run.row)  # what others published, also where nobody can say that it is the newest

    async def _up_to(self, run: OpenRun, live: LiveRun, state: RunState | None) -> tuple[RunState, list[Receipt]]:
        """Return the state with everything folded in that somebody waits for, and what that did."""
        wanted = live.wanted
        if state is None:
            wanted = max(wanted, await self.replay.head(run))
            state = await self.replay.stored(run, wanted)
        try:
            return await self._folded(run, live, state, wanted)
        except UnknownStepError:  # what this process held is so old that entries after it were pruned
            return await self._folded(run, live, await self.replay.stored(run, wanted), wanted)

    async def _folded(self, run: OpenRun, live: LiveRun, state: RunState, up_to: int) -> tuple[RunState, list[Receipt]]:
        """Return the state after entry `up_to`, and what the newest entries did."""
        made = list[Receipt]()
        async for folded, receipts in self.replay.folds(run, state, up_to):
            live.keep(self.journal.keep_receipts(run.row, receipts))
            await self._save(run, live, state, folded)
            made = [*made, *receipts][-REMEMBERED_RECEIPTS:]
            state = folded
        return state, made

    async def receipt(self, run: OpenRun, seq: int) -> Folded:
        """Return what folding entry `seq` did."""
        live = self.live(run.row.id)
        live.wanted = max(live.wanted, seq)
        async with live.acknowledging:  # while some fold, others' tokens would grow old
            degraded = seq not in live.folded and (await self.through(run, seq)).degraded
        folded = live.folded.get(seq)
        if folded is not None:
            return folded
        receipt = await self.journal.receipt(run.row, seq)
        if receipt is None:
            receipt = (await self._refolded(run, seq - 1, seq))[-1]
        return Folded(receipt, degraded)

    async def by_tag(self, run: OpenRun, receipt: Receipt, since: RunState) -> Receipt:
        """Return a receipt with its step by tag, which SQL does not keep, where another replica folded the entry.

        A trainer waits for it: where it takes more than MOST_REFOLDED entries, the step is told as a whole only.

        Args:
            run: the run.
            receipt: of an entry.
            since: a state from before that entry, the newer the better.
        """
        if not receipt.closed or receipt.tags is not None or not run.dataset.pool.tags:
            return receipt
        live = self.live(run.row.id)
        async with live.telling:  # one fold serves all who wait
            if receipt.seq not in live.folded and 0 < receipt.seq - since.seq <= MOST_REFOLDED:
                try:
                    up_to = max(receipt.seq, min(live.wanted, since.seq + MOST_REFOLDED))
                    made = [made async for _, page in self.replay.folds(run, since, up_to) for made in page]
                    live.remember(made, degraded=False)  # another replica published them
                except BotsError as error:  # nobody's report may fail for that: it is committed
                    log.warning("step_not_told_by_tag", run=run.row.name, seq=receipt.seq, reason=str(error))
        folded = live.folded.get(receipt.seq)
        return receipt if folded is None else folded.receipt

    async def settled(self, run: OpenRun) -> RunState:
        """Return the state after the whole journal, once the receipts that this process made of it are in SQL."""
        live = self.live(run.row.id)
        state = (await self.current(run)).state
        await live.settled()
        return state

    async def mend_receipts(self, run: OpenRun) -> RunState:
        """Make receipts again that a crash kept from SQL, for they follow from the journal; return the newest state."""
        state = await self.settled(run)
        missing = await self.journal.first_without_receipt(run.row, state.seq)
        if missing is not None:
            await self.journal.keep_receipts(run.row, await self._refolded(run, missing - 1, state.seq))
        return state

    async def _refolded(self, run: OpenRun, after: int, up_to: int) -> list[Receipt]:
        """Return what folding the entries behind `after` did, oldest first."""
        state = await self.replay.state_at(run, after)
        receipts = []
        async for _, made in self.replay.folds(run, state, up_to):
            receipts += made
        return receipts

    async def at_step(self, run: OpenRun, step: int | None) -> RunState:
        """Return the state that stood when `step` had just closed, in the run's present history; None: as it stands.

        Raises:
            UnknownStepError: the present history has no such step.
        """
        if step is None:
            return (await self.newest(run)).state
        return await self.replay.state_at(run, await self.closing(run, step))

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
        if seq < await self.journal.begins(run.row):
            raise await self.replay.lacking(run, seq, f"lacks entry {seq}")
        return seq

    async def _save(self, run: OpenRun, live: LiveRun, before: RunState, state: RunState) -> None:
        """Store the state if that is due: every so many entries, and after a rewind, which is long to fold."""
        if before.epoch == state.epoch and not self.save_snapshot.is_due(before, state):
            return
        try:
            # A cold start folds from here, so the receipts up to here must be in SQL first.
            await live.settled()
            await self.save_snapshot(run.row, state, wanted=False)
            await self.save_snapshot.thin(run.row)
        except StorageUnavailableError as error:  # a later one will do: it only shortens the way
            log.warning("snapshot_not_saved", run=run.row.name, seq=state.seq, reason=str(error))
