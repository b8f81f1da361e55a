"""Stores states, so that a cold start need not fold the whole journal."""

import asyncio
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from bots_service.core.codec import encode_state
from bots_service.core.state import RunState
from bots_service.ports.journal import Snapshots
from bots_service.ports.records import KeptAnswer, RunRow, SnapshotRow

NEWEST_KEPT = 4
MOST = 10_000  # snapshots of one run that thinning looks at


@dataclass(frozen=True, slots=True)
class SaveSnapshot:
    """Stores a state every so many entries and on demand, and thins old ones.

    every: entries between two snapshots.
    """

    snapshots: Snapshots
    every: int
    clock: Callable[[], float] = time.time

    def is_due(self, before: RunState, state: RunState) -> bool:
        """Say whether a multiple of `every` lies between the two."""
        return before.seq // self.every != state.seq // self.every

    async def thin(self, run: RunRow) -> None:
        """Drop the snapshots that no longer shorten much."""
        rows = await self.snapshots.after(run, 0, MOST)
        await self.snapshots.drop(run, superfluous(rows))

    async def __call__(
        self, run: RunRow, state: RunState, *, wanted: bool, keep: KeptAnswer[SnapshotRow] | None = None
    ) -> SnapshotRow:
        """Store the state and return what was stored.

        Args:
            run: the run.
            state: its state after some entry.
            wanted: asked for by a user, so it is not thinned away.
            keep: keeps the answer.
        """
        blob = await asyncio.to_thread(encode_state, state)
        checksum = f"{zlib.crc32(blob):08x}"
        row = SnapshotRow(state.seq, state.epoch, state.step, len(blob), checksum, self.clock(), wanted)
        return await self.snapshots.save(run, row, blob, keep)


def superfluous(rows: list[SnapshotRow]) -> list[int]:
    """Return the seqs of snapshots that can go, of those not asked for; the newest stay.

    One can go where the kept one after it is at least as old as the gap to the one before it. So a rewind to any step
    folds at most about as many entries as lie between that step and now. Ages only grow, gaps don't: it stays so.
    """
    automatic = sorted((row.seq for row in rows if not row.wanted), reverse=True)
    drop: list[int] = []
    if len(automatic) <= NEWEST_KEPT:
        return drop
    newest, after = automatic[0], automatic[NEWEST_KEPT - 1]
    for seq, before in pairwise([*automatic[NEWEST_KEPT:], 0]):
        if after - before <= newest - after:
            drop.append(seq)
        else:
            after = seq
    return drop
