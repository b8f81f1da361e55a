"""Runs move as their journals: a header and one line of JSON an entry, replayed where they arrive."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import Struct, structs

from bots_service import errors
from bots_service.core.entries import Entry, Probe, Report, Rewind
from bots_service.core.evidence import MAX_TRIALS
from bots_service.core.run_settings import settings_from
from bots_service.core.state import RunState, fresh_state
from bots_service.datasets import KeyOfUpload, OpenRun
from bots_service.records import DatasetRow, Evaluations, RunRow
from bots_service.replay import fold
from bots_service.runs import Runs
from bots_service.storage.live import BEGIN
from bots_service.storage.sql.journal import KINDS, entry_of
from bots_service.storage.sql.runs import require_room_for_evaluations
from bots_service.storage.sql.transfer import Moved, SavedEntry

PAGE = 1000  # entries stored at a time
LONGEST_LINE = 32 * 2**20  # bytes; a report of the largest request is some 8 MiB as an entry
OF_TASKS = ("digest", "reference_order", "offset_tags")  # what a journal speaks of
# What folding entries that no run can have written raises.
NO_FOLD = (
    ArithmeticError,
    AssertionError,
    errors.DamagedStateError,
    errors.InvalidSettingsError,
    LookupError,
    TypeError,
    ValueError,
)


class JournalHeader(Struct, frozen=True):
    """The first line.

    digest: of the dataset; reference_order, offset_tags: what that chose of its tasks when it was made.
    settings: of the run before its first entry. entries: how many follow.
    evaluations: of its model. finished: whether its training ended.
    """

    dataset: str
    run: str
    digest: str
    reference_order: tuple[int, ...]
    offset_tags: tuple[str, ...]
    settings: dict[str, Any]
    entries: int
    evaluations: Evaluations
    finished: bool


Line = TypeVar("Line", JournalHeader, SavedEntry)
_encoder = msgspec.json.Encoder()
_header = msgspec.json.Decoder(JournalHeader)
_entry = msgspec.json.Decoder(SavedEntry)


def _read(decoder: msgspec.json.Decoder[Line], line: bytes, refusal: str) -> Line:
    """Return what a line holds. Raises InvalidJournalError: it holds something else; refusal: what to say then."""
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise errors.InvalidJournalError(f"{refusal}: {error}") from error


@dataclass(frozen=True, slots=True)
class MoveRuns:
    """Exports journals, and imports them: all of it or nothing."""

    runs: Runs

    async def export(self, dataset: str, run: str) -> AsyncGenerator[bytes]:
        """Yield the lines of a run's journal as it stands at first, some at a time."""
        opened = await self.runs.fresh(dataset, run)
        row, facts = opened.row, opened.dataset.row.facts
        chosen: dict[str, Any] = {name: getattr(facts, name) for name in OF_TASKS}
        chosen |= {"settings": structs.asdict(row.settings), "entries": row.head}
        chosen |= {"evaluations": row.evaluations, "finished": row.finished_seq == row.head}
        header = JournalHeader(dataset, run, **chosen)
        yield _encoder.encode_lines([header])
        seq = 0
        while seq < row.head:
            page = await self.runs.store.transfers.entries(row, seq, row.head)
            if [entry.seq for entry in page] != list(range(seq + 1, seq + 1 + len(page))) or not page:
                raise errors.BusyError(f"run {run!r} was deleted while it was exported; export again")
            yield _encoder.encode_lines(page)
            seq = page[-1].seq

    async def import_lines(
        self, dataset: str, run_name: str, lines: AsyncIterator[list[bytes]], idempotency_key: KeyOfUpload
    ) -> Moved:
        """Replay a journal that another service exported; return the new run.

        An empty run of this name is replaced. idempotency_key: called once all of it came: only then is the request's
        fingerprint known. Raises DatasetExistsError: the dataset has other tasks; InvalidJournalError: it is no
        journal, it was truncated, or an entry does not fold; RunHasHistoryError: the name is taken.
        """
        datasets = self.runs.datasets
        opened = await datasets.fresh(dataset)
        entries = _lines(lines)
        header = _read(_header, await anext(entries, b""), "the first line is no header of a journal")
        _require_same(header, opened.row)
        found = {name: tuple(sorted(dict(those).items())) for name, those in header.evaluations.items() if those}
        require_room_for_evaluations(found)
        try:
            settings = settings_from(header.settings)
        except errors.InvalidSettingsError as error:
            raise errors.InvalidJournalError(f"the journal's settings: {error}", error.flaws) from error
        async with datasets.stage() as stage:
            staged = await self.runs.store.transfers.add_run(stage, settings)
            run = OpenRun(opened, replace(staged, dataset_id=opened.row.id))
            state = await self._replayed(run, entries)
            if state.seq != header.entries:
                raise errors.InvalidJournalError(
                    f"the journal has {state.seq} entries, and its header says {header.entries}"
                )
            await self.runs.replay.save(run.row, state)
            staged = replace(run.row, evaluations=found, finished_seq=state.seq if header.finished else None)
            return await asyncio.shield(self._finish(opened.row, run_name, stage, staged, idempotency_key))

    async def _replayed(self, run: OpenRun, lines: AsyncIterator[bytes]) -> RunState:
        """Store the entries with what folding them does, some at a time; return the state after the last."""
        state, page = fresh_state(run.row.settings, run.dataset.pool), list[SavedEntry]()
        async for line in lines:
            saved = _read(_entry, line, f"line {state.seq + len(page) + 2} is no entry of a journal")
            if len(page) == PAGE or saved.kind == KINDS[Rewind]:  # all that it may go back to is stored before
                state, page = await self._with_page(run, state, page), []
            page.append(saved)
        return await self._with_page(run, state, page)

    async def _with_page(self, run: OpenRun, state: RunState, page: list[SavedEntry]) -> RunState:
        """Return the state after entries of which the first alone may be a rewind, once they are stored."""
        try:
            entries, epoch, base = list(map(entry_of, page)), state.epoch, None
            for seq, entry in enumerate(entries, start=state.seq + 1):
                epoch += isinstance(entry.body, Rewind)
                if (entry.seq, entry.epoch) != (seq, epoch) or not _is_possible_entry(entry, len(run.dataset.pool)):
                    raise errors.InvalidJournalError(f"entry {seq} is none that this dataset's journals can hold")
            if entries and isinstance(entries[0].body, Rewind):
                base = await self.runs.replay.state_at(run, entries[0].body.to_seq)
            state, receipts = await asyncio.to_thread(fold, state, entries, run.dataset.pool, base)
            folded = [
                saved.folded(entry, receipt) for saved, entry, receipt in zip(page, entries, receipts, strict=True)
            ]
            await self.runs.store.transfers.append(run.row, folded)
        except NO_FOLD as error:
            raise errors.InvalidJournalError(f"the journal does not fold: {error}") from error
        return state

    async def _finish(
        self, dataset: DatasetRow, name: str, stage: int, row: RunRow, idempotency_key: KeyOfUpload
    ) -> Moved:
        moved = await self.runs.store.transfers.finish(idempotency_key(), dataset, name, stage, row)
        if moved.replaced is not None:
            self.runs.invalidate(moved.replaced.dataset_id, name)
            await self.runs.live.delete(moved.replaced)
        await self.runs.live.moved(moved.run, BEGIN, begins=True)
        return moved


async def _lines(batches: AsyncIterator[list[bytes]]) -> AsyncIterator[bytes]:
    async for batch in batches:
        for line in batch:
            yield line


def _require_same(header: JournalHeader, row: DatasetRow) -> None:
    differences = [
        f"{name} is {getattr(row.facts, name)} here and {getattr(header, name)} in the journal"
        for name in OF_TASKS
        if getattr(row.facts, name) != getattr(header, name)
    ]
    if differences:
        raise errors.DatasetExistsError(
            f"dataset {row.name!r} is not the one that the run is of: {'; '.join(differences)}"
        )


def _is_possible_entry(entry: Entry, size: int) -> bool:
    """Return whether an entry names tasks of a dataset of this size, with counts that a request can bring."""
    body = entry.body
    if isinstance(body, Probe):
        return 0 < len(body.scores) <= size
    if not isinstance(body, Report):
        return not isinstance(body, Rewind) or 0 <= body.to_seq < entry.seq
    seen, parts = body.evidence, body.parts
    named = np.concatenate([seen.tasks, body.aborted, parts.tasks])
    brought = (parts.group_size, parts.rollouts, parts.successes, parts.failures)
    counts = np.concatenate([seen.successes, seen.failures, *brought])
    return bool(
        ((named >= 0) & (named < size)).all()
        and ((counts >= 0) & (counts <= MAX_TRIALS)).all()
        and (seen.successes + seen.failures > 0).all()
        and min(*body.costs, body.made_at or 0) >= 0
    )
