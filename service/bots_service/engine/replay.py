"""Replay: states computed from snapshots and the journal."""

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import structlog

from bots_service.core.codec import decode_state, encode_state
from bots_service.core.entries import Entry, Forget, Fork, Report, Rewind
from bots_service.core.pool import Pool
from bots_service.core.receipt import Receipt
from bots_service.core.state import RunState, advance, fresh_state
from bots_service.engine.open_runs import OpenRun, OpenRuns
from bots_service.errors import BotsError, DamagedStateError, UnknownStepError
from bots_service.metrics.training import TrainingMetrics
from bots_service.ports.journal import Journal, Snapshots
from bots_service.ports.records import IdempotencyKey, RunRow, SnapshotRow
from bots_service.retention import NEWEST_SNAPSHOTS, SNAPSHOTS_READ

log = structlog.get_logger(__name__)

# Folding a report into a state of this size takes about 0.3 ms; a thread costs 0.1 ms and waits for the GIL.
SMALL_STATE_NUMBERS = 50_000
PAGE = 1000  # entries folded before the event loop runs again


@dataclass(frozen=True, slots=True)
class Replay:
    """Computes a run's states from its journal and snapshots. Changes nothing."""

    journal: Journal
    snapshots: Snapshots
    open_runs: OpenRuns
    metrics: TrainingMetrics

    async def head(self, run: OpenRun) -> int:
        """Return the last seq; also invalidate the open dataset if another replica changed it."""
        head = await self.journal.head(run.row)
        self.open_runs.invalidate_changed_dataset(run, head)
        return head.seq

    async def state_at(self, run: OpenRun, seq: int) -> RunState:
        """Return the state after entry `seq`.

        Follows rewinds backwards to the nearest snapshot, so that undone entries are never folded: folding them would
        double the work with each rewind.
        """
        rewinds: list[tuple[Entry, int]] = []
        state = await self.stored(run, seq)
        while (rewind := await self.last_rewind(run, state.seq, seq)) is not None:
            rewinds.append((rewind[0], seq))
            seq = rewind[1]
            state = await self.stored(run, seq)
        state = await self._folded(run, state, seq)
        for entry, up_to in reversed(rewinds):
            state, _ = advance(replace(state, seq=entry.seq - 1), entry, run.dataset.pool, base=state)
            state = await self._folded(run, state, up_to)
        return state

    async def stored(self, run: OpenRun, up_to: int) -> RunState:
        """Return the newest stored state up to entry `up_to`; damaged ones are skipped."""
        while True:
            found = await self.snapshots.newest(run.row, up_to)
            if found is None:
                return fresh_state(run.row.settings, run.dataset.pool)
            row, blob = found
            try:
                return await asyncio.to_thread(decode_state, blob)
            except DamagedStateError as error:
                log.error("snapshot_damaged", run=run.row.name, seq=row.seq, reason=str(error))
                up_to = row.seq - 1

    async def last_rewind(self, run: OpenRun, after: int, up_to: int) -> tuple[Entry, int] | None:
        """Return the last rewind after entry `after` with the seq that it restored; None if there is none."""
        while up_to > after:
            begin = max(after, up_to - PAGE)
            for entry in reversed(await self.journal.after(run.row, begin, up_to, PAGE)):
                if isinstance(entry.body, Rewind):
                    return entry, entry.body.to_seq
            up_to = begin
        return None

    async def _folded(self, run: OpenRun, state: RunState, up_to: int) -> RunState:
        """Return the state after entry `up_to`."""
        async for folded, _ in self.folds(run, state, up_to):
            state = folded
        return state

    async def folds(self, run: OpenRun, state: RunState, up_to: int) -> AsyncIterator[tuple[RunState, list[Receipt]]]:
        """Yield the state after each page of entries up to `up_to`, and the page's receipts."""
        while state.seq < up_to:
            entries = await self.journal.after(run.row, state.seq, up_to, PAGE)
            for seq, entry in enumerate(entries, start=state.seq + 1):
                if entry.seq != seq:
                    raise await self.missing_entry(run, seq, f"has no entry {seq}")
            if not entries:
                await self.head(run)  # raises if the run was deleted meanwhile
                raise await self.missing_entry(run, state.seq + 1, f"ends before entry {up_to}")
            pool = await self._pool(run, state, entries)
            bases = {entry.seq: await self._base(run, entry) for entry in entries}
            with self.metrics.fold_seconds.time():
                is_small = state.fold_numbers * len(entries) <= SMALL_STATE_NUMBERS
                if is_small:
                    state, receipts = fold(state, entries, pool, bases)
                else:
                    state, receipts = await asyncio.to_thread(fold, state, entries, pool, bases)
            yield state, receipts

    async def missing_entry(self, run: OpenRun, seq: int, damage: str) -> BotsError:
        """Return the error for a missing entry: it was pruned, or the journal is damaged."""
        name, begins = run.row.name, await self.journal.begins(run.row)
        receipt = await self.journal.receipt(run.row, begins)
        if seq > begins or receipt is None:
            return DamagedStateError(f"the journal of run {name!r} {damage}")
        first = receipt.step if receipt.closed else receipt.step + 1
        return UnknownStepError(f"pruned: the journal of run {name!r} begins at step {first}")

    async def _pool(self, run: OpenRun, state: RunState, entries: list[Entry]) -> Pool:
        """Return a pool with all tasks of the state and the entries: replicas may report newly appended tasks."""
        pool = (await self.open_runs.matching(run, state)).dataset.pool
        if max(entry.profiles for entry in entries) > pool.profiles or max(map(_last_task, entries)) >= len(pool):
            await self.head(run)
            pool = (await self.open_runs.refreshed(run)).dataset.pool
        return pool

    async def _base(self, run: OpenRun, entry: Entry) -> RunState | None:
        """Return the state that a rewind or a fork restores; None for other entries."""
        if isinstance(entry.body, Fork):
            return await asyncio.to_thread(decode_state, entry.body.state)
        if isinstance(entry.body, Rewind):
            return await self.state_at(run, entry.body.to_seq)
        return None


def _last_task(entry: Entry) -> int:
    """Return the largest task that an entry names, -1 if it names none."""
    body = entry.body
    if isinstance(body, Report):
        return max(int(named.max(initial=-1)) for named in (body.evidence.tasks, body.parts.tasks, body.aborted))
    return int(body.tasks.max(initial=-1)) if isinstance(body, Forget) else -1


def fold(
    state: RunState, entries: list[Entry], pool: Pool, bases: dict[int, RunState | None]
) -> tuple[RunState, list[Receipt]]:
    """Return the state after these entries, and their receipts."""
    receipts = []
    for entry in entries:
        state, receipt = advance(state, entry, pool, base=bases[entry.seq])
        receipts.append(receipt)
    return state, receipts


@dataclass(frozen=True, slots=True)
class SaveSnapshot:
    """Stores snapshots at regular intervals and on demand, and thins old ones.

    every: entries between two snapshots.
    """

    snapshots: Snapshots
    every: int
    clock: Callable[[], float] = time.time

    def is_due(self, before: RunState, state: RunState) -> bool:
        """Return whether a multiple of `every` lies between the two states."""
        return before.seq // self.every != state.seq // self.every

    async def thin(self, run: RunRow) -> None:
        """Delete superfluous snapshots."""
        rows = await self.snapshots.after(run, 0, SNAPSHOTS_READ)
        await self.snapshots.drop(run, superfluous(rows))

    async def __call__(
        self, run: RunRow, state: RunState, *, wanted: bool, idempotency_key: IdempotencyKey | None = None
    ) -> SnapshotRow:
        """Store the state and return its row.

        Args:
            run: the run.
            state: its state.
            wanted: a user requested it, so it is not thinned.
            idempotency_key: keeps the result.
        """
        blob = await asyncio.to_thread(encode_state, state)
        checksum = f"{zlib.crc32(blob):08x}"
        row = SnapshotRow(state.seq, state.epoch, state.step, len(blob), checksum, self.clock(), wanted)
        return await self.snapshots.save(run, row, blob, idempotency_key)


def superfluous(rows: list[SnapshotRow]) -> list[int]:
    """Return the seqs of snapshots to delete, among those that no user requested; the newest stay.

    A snapshot is superfluous if the next kept one is at least as old as the gap that its deletion leaves. A rewind to
    any step then folds at most about as many entries as there are after that step. This stays true over time, because
    ages grow and gaps don't.
    """
    automatic = sorted((row.seq for row in rows if not row.wanted), reverse=True)
    drop: list[int] = []
    if len(automatic) <= NEWEST_SNAPSHOTS:
        return drop
    newest, after = automatic[0], automatic[NEWEST_SNAPSHOTS - 1]
    for seq, before in pairwise([*automatic[NEWEST_SNAPSHOTS:], 0]):
        if after - before <= newest - after:
            drop.append(seq)
        else:
            after = seq
    return drop
