"""GET export: a dataset with its runs, or one of them, as one stream of bytes."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import numpy as np
import structlog

from bots_service.core.codec import decode_state
from bots_service.errors import BusyError, DamagedStateError, UnknownRunError
from bots_service.ports.backup import Cut, Exports, SavedRun
from bots_service.ports.catalog import Datasets
from bots_service.ports.journal import Snapshots
from bots_service.ports.records import DatasetRow, RunRow, SnapshotRow
from bots_service.retention import SNAPSHOTS_READ
from bots_service.usecases.backup_format import (
    BackupWriter,
    DatasetPart,
    EntriesPart,
    Part,
    PredictionsPart,
    ReceiptsPart,
    RetiredPart,
    RunPart,
    SnapshotPart,
    tasks_part,
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ExportBackup:
    """Writes a backup, as of the moment in which it begins; what comes in meanwhile is not in it."""

    exports: Exports
    datasets: Datasets
    snapshots: Snapshots

    async def __call__(self, dataset: str, run: str | None = None) -> AsyncIterator[bytes]:
        """Return the backup's bytes, a few megabytes at a time.

        Args:
            dataset: its name.
            run: the one run that is wanted; None: all, and the tasks.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """
        cut = await self.exports.cut(dataset)
        if run is not None:
            runs = [found for found in cut.runs if found[0].name == run]
            if not runs:
                raise UnknownRunError(f"no run {run!r}")
            known = {key.digest for key in runs[0][0].predictions}
            contents = {digest: content for digest, content in cut.predictions.items() if digest in known}
            cut = Cut(cut.dataset, cut.retired, runs, contents)
        return self._bytes(cut, whole=run is None)

    async def _bytes(self, cut: Cut, *, whole: bool) -> AsyncIterator[bytes]:
        writer = BackupWriter()
        yield writer.begin()
        async for part in self._parts(cut, whole=whole):
            yield await asyncio.to_thread(writer.part, part)
        yield writer.end()

    async def _parts(self, cut: Cut, *, whole: bool) -> AsyncIterator[Part]:
        row = cut.dataset
        yield DatasetPart(row.name, whole, row.version, row.created_at, row.facts)
        if whole:
            async for part in self._tasks(row):
                yield part
            if len(cut.retired):
                yield RetiredPart(np.ascontiguousarray(cut.retired, "<i4").tobytes())
        for content in cut.predictions.values():
            yield PredictionsPart(content)
        for run, saved in cut.runs:
            yield RunPart(saved)
            async for part in self._run(run, saved):
                yield part

    async def _tasks(self, row: DatasetRow) -> AsyncIterator[Part]:
        """Yield the tasks; more may have been appended since."""
        left = row.facts.size
        async for block in self.datasets.blocks(row.id):
            if left == 0:
                return
            left -= len(block)
            yield tasks_part(block)

    async def _run(self, run: RunRow, saved: SavedRun) -> AsyncIterator[Part]:
        seq = saved.pruned
        while seq < run.head:
            rows = await self.exports.entries(run, seq, run.head)
            if [row.seq for row in rows] != list(range(seq + 1, seq + 1 + len(rows))) or not rows:
                raise BusyError(f"run {run.name!r} was deleted or pruned while it was exported; export again")
            seq = rows[-1].seq
            yield EntriesPart(rows)
        for part in await self._old_rewinds(run, saved):
            yield part
        seq = 0
        while receipts := await self.exports.receipts(run, seq, run.head):
            seq = receipts[-1].seq
            yield ReceiptsPart(receipts)
        for row in _worth_keeping(await self._stored(run), saved.pruned):
            for stored in await self._snapshot(run, row):
                yield stored

    async def _old_rewinds(self, run: RunRow, saved: SavedRun) -> list[Part]:
        """Return the rewinds among pruned entries: the history needs them."""
        parts: list[Part] = []
        seq = 0
        while rows := await self.exports.entries(run, seq, saved.pruned):
            seq = rows[-1].seq
            parts.append(EntriesPart([row for row in rows if row.kind == "rewind"]))
        return parts

    async def _stored(self, run: RunRow) -> list[SnapshotRow]:
        rows = await self.snapshots.after(run, -1, SNAPSHOTS_READ)
        return [row for row in rows if row.seq <= run.head]

    async def _snapshot(self, run: RunRow, row: SnapshotRow) -> list[SnapshotPart]:
        """Return a stored state; none if it is damaged or was thinned away: the journal leads to it too."""
        found = await self.snapshots.newest(run, row.seq)
        if found is None or found[0].seq != row.seq:
            return []
        try:
            await asyncio.to_thread(decode_state, found[1])
        except DamagedStateError as error:
            log.error("snapshot_damaged", run=run.name, seq=row.seq, reason=str(error))
            return []
        return [SnapshotPart(*found)]


def _worth_keeping(rows: list[SnapshotRow], pruned: int) -> list[SnapshotRow]:
    """Return what was asked for, what stands for pruned entries, and the newest, which makes the first start quick."""
    return [row for row in rows if row.wanted or row.seq == pruned or row is rows[-1]]
