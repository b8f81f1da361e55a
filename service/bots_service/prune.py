"""Removes what is old: journal entries that stored states stand for, kept answers, uploads that died."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass

import structlog

from bots_service.background import repeating
from bots_service.core.codec import decode_state
from bots_service.errors import BotsError, DamagedStateError, UnknownRunError
from bots_service.records import RunRow
from bots_service.retention import DAY_S, PRUNE_EVERY_S
from bots_service.storage.sql.stores import SqlStores

log = structlog.get_logger(__name__)

PAGE = 1000


@dataclass(frozen=True, slots=True)
class PrunedRun:
    """Removed journal entries of one run.

    entries: how many.
    seq: the last entry removed; its snapshot stands for all of them.
    """

    dataset: str
    run: str
    entries: int
    seq: int


@dataclass(frozen=True, slots=True)
class Prune:
    """Deletes journal entries older than `keep_days` before an intact snapshot that is followed by another.

    Afterwards the journal begins behind the first of the two; the second serves if the first proves damaged.
    keep_days: None keeps all entries.
    """

    store: SqlStores
    keep_days: float | None
    clock: Callable[[], float] = time.time

    async def remove_old(self, *, keep_days: float | None = None, dry_run: bool = False) -> list[PrunedRun]:
        """Delete everything that is due, and return of which runs; with `dry_run`, what would be deleted.

        keep_days: instead of the configured age.
        """
        now, keep_days = self.clock(), keep_days or self.keep_days
        if not dry_run:
            await self.store.retention.delete_answers(now)
            for stage in await self.store.retention.dead_stages(now):  # one at a time: a large one takes a second
                await self.store.datasets.drop_stage(stage)
        pruned: list[PrunedRun] = []
        if keep_days is None:
            return pruned
        async for dataset, run in self._all_runs():
            with suppress(UnknownRunError):  # deleted meanwhile
                begins = (await self.store.journal.head(run)).pruned
                seq = await self._covered(run, now - keep_days * DAY_S) or begins
                entries = seq - begins if dry_run else await self._prune(run, seq)
                if entries:
                    pruned.append(PrunedRun(dataset, run.name, entries, seq))
        return pruned

    async def _prune(self, run: RunRow, seq: int) -> int:
        """Remove the entries up to `seq`, and what an earlier turn left; return how many went."""
        await self.store.retention.truncate(run, seq)
        total = 0
        while deleted := await self.store.retention.delete_entries(run):
            total += deleted
        return total

    async def _covered(self, run: RunRow, before: float) -> int | None:
        """Return the seq of the newest snapshot that can stand for all entries up to it, None if there is none."""
        points = await self.store.retention.truncation_points(run, before)
        if not points:
            return None
        has_newer = False
        for seq in reversed(await self.store.snapshots.seqs(run, points[-1])):
            if has_newer and seq not in points:
                continue
            is_intact = await self._is_intact(run, seq)
            if is_intact and has_newer:
                return seq
            has_newer = has_newer or is_intact
        return None

    async def _is_intact(self, run: RunRow, seq: int) -> bool:
        found = await self.store.snapshots.newest(run, seq)
        try:
            return found is not None and (await asyncio.to_thread(decode_state, found[1])).seq == seq
        except DamagedStateError as error:
            log.error("snapshot_damaged", run=run.name, seq=seq, reason=str(error))
            return False

    async def _all_runs(self) -> AsyncIterator[tuple[str, RunRow]]:
        page = await self.store.datasets.after("", PAGE)
        while page:
            for dataset in page:
                for run in await self.store.runs.all(dataset.id):
                    yield dataset.name, run
            page = await self.store.datasets.after(page[-1].name, PAGE)

    def in_background(self, every_s: float = PRUNE_EVERY_S) -> AbstractAsyncContextManager[None]:
        """Prune in the background, about every so many seconds."""
        return repeating(self._once, every_s=every_s, failure_event="not_pruned", jitter=0.5)

    async def _once(self) -> None:
        try:
            for run in await self.remove_old():
                log.info("pruned", dataset=run.dataset, run=run.run, entries=run.entries, seq=run.seq)
        except BotsError as error:  # SQL is away; the next time is far off, so this one is worth a warning
            log.warning("not_pruned", reason=str(error))
