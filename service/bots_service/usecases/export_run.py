"""GET a run's export: its journal as lines of JSON, with that of the runs that it forked before it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from bots_service.engine.open_runs import OpenRuns
from bots_service.errors import BusyError, JournalIncompleteError, UnknownRunError
from bots_service.ports.catalog import Runs
from bots_service.ports.journal import Journal
from bots_service.ports.records import DatasetRow, RunRow
from bots_service.ports.transfer import SavedEntry, Transfers
from bots_service.usecases.journal_lines import JournalHeader, ParentRun, TasksFacts, forked, line_of, renumbered


class _Part(NamedTuple):
    """A run, and the last of its entries that is exported."""

    row: RunRow
    up_to: int


@dataclass(frozen=True, slots=True)
class ExportRun:
    """Writes a run's journal as of the moment in which it begins; what comes in meanwhile is not in it."""

    open_runs: OpenRuns
    runs: Runs
    journal: Journal
    transfers: Transfers

    async def __call__(self, dataset: str, run: str) -> AsyncIterator[bytes]:
        """Return the lines, some at a time.

        A fork begins with another run's state. So its ancestors' entries come first, then what leads from there to the
        fork; its own are numbered behind them.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
            JournalIncompleteError: entries of the run or of an ancestor were pruned, or an ancestor was deleted.
        """
        opened = await self.open_runs.fresh(dataset, run)
        return self._lines(opened.dataset.row, await self._parts(opened.row))

    async def _parts(self, row: RunRow) -> list[_Part]:
        """Return the run and its ancestors, the oldest first."""
        parts = [_Part(row, row.head)]
        while (parent := parts[0].row.parent) is not None:
            try:
                found = await self.runs.get(row.dataset_id, parent.run)
            except UnknownRunError:
                found = None
            if found is None or found.head < parent.seq or found.created_at > parts[0].row.created_at:
                raise _incomplete(row.name, f"began from run {parent.run!r}, which was deleted")
            parts.insert(0, _Part(found, parent.seq))
        for part in parts:
            if (begins := await self.journal.begins(part.row)) > 0:
                raise _incomplete(row.name, f"needs the journal of run {part.row.name!r}, pruned up to entry {begins}")
        return parts

    async def _lines(self, dataset: DatasetRow, parts: list[_Part]) -> AsyncIterator[bytes]:
        first, last = parts[0].row, parts[-1].row
        yield line_of(
            JournalHeader(
                dataset.name,
                last.name,
                TasksFacts.of(dataset.facts),
                first.settings.as_dict(),
                last.predictions,
                None if last.parent is None else ParentRun(last.parent.run, last.parent.step, last.parent.seq),
                sum(part.up_to for part in parts) + len(parts) - 1,
            )
        )
        seqs = epochs = seq = epoch = 0
        for place, part in enumerate(parts):
            async for page in self._entries(part):
                written: list[SavedEntry] = []
                for entry in page:
                    if place > 0 and entry.seq == 1:
                        seqs, epochs = seq + 1, epoch + 1
                        written += forked(entry, part.row, seq, epochs)
                        continue
                    own = renumbered(entry, seqs, epochs)
                    # A key is of one run alone.
                    written.append(
                        own if place == len(parts) - 1 else msgspec.structs.replace(own, key=None, fingerprint=None)
                    )
                seq, epoch = written[-1].seq, written[-1].epoch
                yield b"".join(map(line_of, written))

    async def _entries(self, part: _Part) -> AsyncIterator[list[SavedEntry]]:
        seq = 0
        while seq < part.up_to:
            page = await self.transfers.entries(part.row, seq, part.up_to)
            if [entry.seq for entry in page] != list(range(seq + 1, seq + 1 + len(page))) or not page:
                raise BusyError(f"run {part.row.name!r} was deleted or pruned while it was exported; export again")
            seq = page[-1].seq
            yield page


def _incomplete(run: str, what: str) -> JournalIncompleteError:
    todo = "save the whole database instead, with pg_dump or sqlite3's .backup"
    return JournalIncompleteError(f"run {run!r} {what}; {todo}")
