"""States computed from the journal: replay from snapshots, and the snapshots that make it short."""

import asyncio
from dataclasses import dataclass, replace
from itertools import pairwise

import structlog
from prometheus_client import Histogram

from bots_service.core.codec import decode_state, encode_state
from bots_service.core.entries import Entry, Probe, Report
from bots_service.core.pool import Pool
from bots_service.core.receipt import Receipt
from bots_service.core.state import RunState, advance, fresh_state
from bots_service.datasets import Datasets, OpenRun
from bots_service.errors import DamagedStateError
from bots_service.records import Head, RunRow
from bots_service.retention import NEWEST_SNAPSHOTS
from bots_service.storage.live import KeptState, version_of
from bots_service.storage.sql.journal import SqlJournal, SqlSnapshots

log = structlog.get_logger(__name__)

# Folding a report into a state of this size takes about 0.3 ms; a thread costs 0.1 ms and waits for the GIL.
SMALL_STATE_NUMBERS = 50_000
PAGE = 1000  # entries folded before the event loop runs again


@dataclass(eq=False)
class Replay:
    """Computes a run's states from its journal and snapshots. Changes nothing but snapshots.

    fold_seconds: observes how long folds take.
    snapshot_every: entries between two snapshots.
    """

    journal: SqlJournal
    snapshots: SqlSnapshots
    datasets: Datasets
    fold_seconds: Histogram
    snapshot_every: int

    async def state_at(self, run: OpenRun, seq: int) -> RunState:
        """Return the state after entry `seq`.

        Follows rewinds backwards to the nearest snapshot, so that undone entries are never folded: folding them would
        double the work with each rewind.
        """
        rewinds: list[tuple[Entry, int]] = []
        state = await self.stored(run, seq)
        while (rewind := await self.journal.last_rewind(run.row, state.seq, seq)) is not None:
            rewinds.append((rewind[0], seq))
            seq = rewind[1]
            state = await self.stored(run, seq)
        state = await self.to(run, state, seq)
        for entry, up_to in reversed(rewinds):
            pool = await self._pool(run, state, [entry])
            state, _ = advance(replace(state, seq=entry.seq - 1), entry, pool, base=state)
            state = await self.to(run, state, up_to)
        return state

    async def stored(self, run: OpenRun, up_to: int) -> RunState:
        """Return the newest stored state up to entry `up_to`; damaged ones are skipped."""
        while True:
            found = await self.snapshots.newest(run.row, up_to)
            if found is None:
                return fresh_state(run.row.settings, run.dataset.pool)
            seq, blob = found
            try:
                return await asyncio.to_thread(decode_state, blob)
            except DamagedStateError as error:
                log.error("snapshot_damaged", run=run.row.name, seq=seq, reason=str(error))
                up_to = seq - 1

    async def nearest(self, run: OpenRun, head: Head, known: RunState | None, kept: KeptState | None) -> RunState:
        """Return the newest of some states up to the head, as often rewound: known, kept by replicas, or stored."""
        found = [] if known is None else [known]
        if (
            kept is not None
            and version_of(kept.state) <= (head.epoch, head.seq)
            and await self.journal.created_at(run.row, kept.state.seq) == kept.at
        ):
            found.append(kept.state)
        nearest = max(found, key=version_of, default=None)
        if nearest is not None and nearest.epoch == head.epoch and head.seq - nearest.seq <= self.snapshot_every:
            return nearest
        nearest = max([*found, await self.stored(run, head.seq)], key=version_of)
        return nearest if nearest.epoch == head.epoch else await self.state_at(run, head.seq)

    async def to(self, run: OpenRun, state: RunState, up_to: int) -> RunState:
        """Return the state after entry `up_to`, folding what comes after a state; no rewind may be among it.

        Raises DamagedStateError: the journal lacks some of it.
        """
        while state.seq < up_to:
            entries = await self.journal.between(run.row, state.seq, up_to, PAGE)
            for seq, entry in enumerate(entries, start=state.seq + 1):
                if entry.seq != seq:
                    raise DamagedStateError(f"the journal of run {run.row.name!r} has no entry {seq}")
            if not entries:
                await self.journal.head(run.row)  # raises if the run was deleted meanwhile
                raise DamagedStateError(f"the journal of run {run.row.name!r} ends before entry {up_to}")
            pool = await self._pool(run, state, entries)
            with self.fold_seconds.time():
                is_small = state.fold_numbers * len(entries) <= SMALL_STATE_NUMBERS
                if is_small:
                    state, _ = fold(state, entries, pool)
                else:
                    state, _ = await asyncio.to_thread(fold, state, entries, pool)
        return state

    async def _pool(self, run: OpenRun, state: RunState, entries: list[Entry]) -> Pool:
        """Return a pool with all tasks of the state and the entries: replicas may report newly appended tasks."""
        pool = (await self.datasets.matching(run, state)).dataset.pool
        if max(entry.profiles for entry in entries) > pool.profiles or max(map(largest_task, entries)) >= len(pool):
            pool = (await self.datasets.current(run)).dataset.pool
        return pool

    async def save_if_due(self, run: RunRow, before: RunState, state: RunState) -> None:
        """Store a snapshot if it is due: at regular intervals, and after a rewind, which takes long to fold."""
        every = self.snapshot_every
        if before.epoch == state.epoch and before.seq // every == state.seq // every:
            return
        try:
            await self.save(run, state)
            await self.snapshots.drop(run, superfluous(await self.snapshots.seqs(run)))
        except Exception as error:  # a snapshot only shortens replays: a later one will do
            log.warning("snapshot_not_saved", run=run.name, seq=state.seq, reason=str(error))

    async def save(self, run: RunRow, state: RunState) -> None:
        await self.snapshots.save(run, state.seq, await asyncio.to_thread(encode_state, state))


def largest_task(entry: Entry) -> int:
    """Return the largest task that an entry names, -1 if it names none."""
    body = entry.body
    if isinstance(body, Probe):
        return len(body.scores) - 1
    if not isinstance(body, Report):
        return -1
    return max(int(named.max(initial=-1)) for named in (body.evidence.tasks, body.parts.tasks, body.aborted))


def fold(
    state: RunState, entries: list[Entry], pool: Pool, base: RunState | None = None
) -> tuple[RunState, list[Receipt]]:
    """Return the state after these entries, and their receipts. base: what the only rewind among them restores."""
    receipts = []
    for entry in entries:
        state, receipt = advance(state, entry, pool, base=base)
        receipts.append(receipt)
    return state, receipts


def superfluous(seqs: list[int]) -> list[int]:
    """Return the seqs of snapshots to delete; the newest stay.

    A snapshot is superfluous if the next kept one is at least as old as the gap that its deletion leaves. A rewind to
    any step then folds at most about as many entries as there are after that step. This stays true over time, because
    ages grow and gaps don't.
    """
    seqs, drop = sorted(seqs, reverse=True), list[int]()
    if len(seqs) <= NEWEST_SNAPSHOTS:
        return drop
    newest, after = seqs[0], seqs[NEWEST_SNAPSHOTS - 1]
    for seq, before in pairwise([*seqs[NEWEST_SNAPSHOTS:], 0]):
        if after - before <= newest - after:
            drop.append(seq)
        else:
            after = seq
    return drop
