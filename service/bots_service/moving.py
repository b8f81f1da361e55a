"""Runs move as their journals: a header and one line of JSON an entry, replayed where they arrive."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec
import numpy as np
from msgspec import Struct, structs

from bots_service import errors
from bots_service.core.entries import Body, Entry, Fork, Report, Rewind, SettingsChange
from bots_service.core.evidence import MAX_TRIALS
from bots_service.core.pool import Predicted
from bots_service.core.run_settings import FIXED, settings_from
from bots_service.core.state import RunState, fresh_state
from bots_service.datasets import KeyOfUpload, OpenRun
from bots_service.records import DatasetFacts, DatasetRow, Parent, RunRow
from bots_service.replay import fold
from bots_service.runs import Runs
from bots_service.storage.live import BEGIN
from bots_service.storage.sql.journal import KINDS, decode_body, encode_body, entry_of
from bots_service.storage.sql.transfer import Moved, SavedEntry

PAGE = 1000  # entries stored at a time
LONGEST_LINE = 32 * 2**20  # bytes; a report of the largest request is some 8 MiB as an entry
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


class TasksFacts(Struct, frozen=True):
    """What a journal speaks of: its dataset's digest, and what the dataset chose of its tasks when it was made."""

    digest: str
    reference_order: tuple[int, ...]
    offset_tags: tuple[str, ...]

    @classmethod
    def of(cls, facts: DatasetFacts) -> "TasksFacts":
        """Return those of a dataset."""
        return cls(facts.digest, facts.reference_order, facts.offset_tags)


class JournalHeader(Struct, frozen=True):
    """The first line.

    settings: of the run before its first entry. predictions: those that it knows. parent: the run
    that it forked; the journal begins with that run's. entries: how many follow.
    """

    dataset: str
    run: str
    tasks: TasksFacts
    settings: dict[str, Any]
    predictions: tuple[Predicted, ...]
    parent: Parent | None
    entries: int


Line = TypeVar("Line", JournalHeader, SavedEntry)
_encoder = msgspec.json.Encoder()
_header = msgspec.json.Decoder(JournalHeader)
_entry = msgspec.json.Decoder(SavedEntry)


def read_header(line: bytes) -> JournalHeader:
    """Return the header. Raises InvalidJournalError: the line is none."""
    return _read(_header, line, "the first line is no header of a journal")


def read_entry(line: bytes, number: int) -> SavedEntry:
    """Return the entry of a line. number: the line's, from 1. Raises InvalidJournalError: the line is no entry."""
    return _read(_entry, line, f"line {number} is no entry of a journal")


def _read(decoder: msgspec.json.Decoder[Line], line: bytes, refusal: str) -> Line:
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise errors.InvalidJournalError(f"{refusal}: {error}") from error


def _forked(entry: SavedEntry, row: RunRow, seq: int, epoch: int) -> list[SavedEntry]:
    """Return what leads from the ancestor's entry `seq` to the run that begins there: a rewind, and its settings.

    entry: the run's first, which holds the state that the ancestors' journal leads to. seq: of the last of the
    ancestors' entries before it, as they are numbered in the export. epoch: of the first entry.
    """
    settings = {name: value for name, value in structs.asdict(row.settings).items() if name not in FIXED}
    bodies: tuple[Body, ...] = (Rewind(seq, row.origin_step), SettingsChange(settings))
    return [
        SavedEntry(seq + place, epoch, entry.profiles, entry.created_at, KINDS[type(body)], _raw(body))
        for place, body in enumerate(bodies, 1)
    ]


def _renumbered(entry: SavedEntry, seqs: int, epochs: int) -> SavedEntry:
    """Return an entry of a fork behind its ancestors' entries, so many seqs and epochs later."""
    if not seqs:
        return entry
    body = decode_body(entry.kind, entry.body)
    if isinstance(body, Rewind):
        body = replace(body, to_seq=body.to_seq + seqs)
    elif isinstance(body, Report) and any(body.selection):
        body = replace(body, selection=(body.selection[0] + seqs, body.selection[1]))
    return structs.replace(entry, seq=entry.seq + seqs, epoch=entry.epoch + epochs, body=_raw(body))


def _raw(body: Body) -> msgspec.Raw:
    return msgspec.Raw(encode_body(body).encode())


@dataclass(frozen=True, slots=True)
class MoveRuns:
    """Exports journals, and imports them: all of it or nothing."""

    runs: Runs

    async def export(self, dataset: str, run: str) -> AsyncGenerator[bytes]:
        """Yield the lines of a run's journal as it stands at first, some at a time.

        A fork begins with another run's state. So its ancestors' entries come first, then what leads from there to the
        fork; its own are numbered behind them. Raises JournalIncompleteError: an ancestor was deleted.
        """
        opened = await self.runs.fresh(dataset, run)
        parts = await self._parts(opened.row)
        first, last = parts[0][0], parts[-1][0]
        header = JournalHeader(
            dataset,
            run,
            TasksFacts.of(opened.dataset.row.facts),
            structs.asdict(first.settings),
            last.predictions,
            last.parent,
            sum(up_to for _, up_to in parts) + len(parts) - 1,
        )
        yield _encoder.encode_lines([header])
        seqs = epochs = seq = epoch = 0
        for row, up_to in parts:
            async for page in self._entries(row, up_to):
                written: list[SavedEntry] = []
                for entry in page:
                    if row is not first and entry.seq == 1:
                        seqs, epochs = seq + 1, epoch + 1
                        written += _forked(entry, row, seq, epochs)
                        continue
                    own = _renumbered(entry, seqs, epochs)
                    # A key is of one run alone.
                    written.append(own if row is last else structs.replace(own, key=None, fingerprint=None))
                seq, epoch = written[-1].seq, written[-1].epoch
                yield _encoder.encode_lines(written)

    async def _parts(self, row: RunRow) -> list[tuple[RunRow, int]]:
        """Return the run and its ancestors, the oldest first, each with the last of its entries that is exported."""
        parts = [(row, row.head)]
        while (parent := parts[0][0].parent) is not None:
            try:
                found = await self.runs.store.runs.get(row.dataset_id, parent.run)
            except errors.UnknownRunError:
                found = None
            if found is None or found.head < parent.seq or found.created_at > parts[0][0].created_at:
                raise errors.JournalIncompleteError(
                    f"run {row.name!r} began from run {parent.run!r}, which was deleted; save the whole database "
                    "instead, with pg_dump or sqlite3's .backup"
                )
            parts.insert(0, (found, parent.seq))
        return parts

    async def _entries(self, run: RunRow, up_to: int) -> AsyncIterator[list[SavedEntry]]:
        seq = 0
        while seq < up_to:
            page = await self.runs.store.transfers.entries(run, seq, up_to)
            if [entry.seq for entry in page] != list(range(seq + 1, seq + 1 + len(page))) or not page:
                raise errors.BusyError(f"run {run.name!r} was deleted while it was exported; export again")
            seq = page[-1].seq
            yield page

    async def import_lines(
        self, dataset: str, run_name: str, lines: AsyncIterator[list[bytes]], idempotency_key: KeyOfUpload
    ) -> Moved:
        """Replay a journal that another service exported; return the new run, which sees the newest predictions.

        An empty run of this name is replaced. idempotency_key: called once all of it came: only then is the request's
        fingerprint known. Raises DatasetExistsError: the dataset has other tasks; InvalidJournalError: it is no
        journal, it was truncated, or an entry does not fold; RunHasHistoryError: the name is taken.
        """
        datasets = self.runs.datasets
        opened = await datasets.fresh(dataset)
        newest = opened.row.facts.predictions
        seen = await datasets.seen_with(opened, newest)
        entries = _lines(lines)
        header = read_header(await anext(entries, b""))
        _require_same(header.tasks, opened.row)
        try:
            settings = settings_from(header.settings)
        except errors.InvalidSettingsError as error:
            raise errors.InvalidJournalError(f"the journal's settings: {error}", error.flaws) from error
        # Other predictions tell other profiles apart: all of them are then known from the start.
        profiles = None if header.predictions == newest else seen.pool.profiles
        async with datasets.stage() as stage:
            staged = await self.runs.store.transfers.add_run(stage, settings, newest)
            run = OpenRun(seen, replace(staged, dataset_id=opened.row.id))
            state = await self._replayed(run, entries, profiles)
            if state.seq != header.entries:
                raise errors.InvalidJournalError(
                    f"the journal has {state.seq} entries, and its header says {header.entries}"
                )
            await self.runs.replay.save(run.row, state)
            return await asyncio.shield(self._finish(opened.row, run_name, stage, run.row, idempotency_key))

    async def _replayed(self, run: OpenRun, lines: AsyncIterator[bytes], profiles: int | None) -> RunState:
        """Store the entries with what folding them does, some at a time; return the state after the last."""
        state, page = fresh_state(run.row.settings, run.dataset.pool), list[SavedEntry]()
        async for line in lines:
            saved = read_entry(line, state.seq + len(page) + 2)
            saved = saved if profiles is None else structs.replace(saved, profiles=profiles)
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
            bases = {entries[0].seq: base} if entries else {}
            state, receipts = await asyncio.to_thread(fold, state, entries, run.dataset.pool, bases)
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


def _require_same(tasks: TasksFacts, row: DatasetRow) -> None:
    here = TasksFacts.of(row.facts)
    differences = [
        f"{name} is {getattr(here, name)} here and {getattr(tasks, name)} in the journal"
        for name in TasksFacts.__struct_fields__
        if getattr(here, name) != getattr(tasks, name)
    ]
    if differences:
        raise errors.DatasetExistsError(
            f"dataset {row.name!r} is not the one that the run is of: {'; '.join(differences)}"
        )


def _is_possible_entry(entry: Entry, size: int) -> bool:
    """Return whether an entry names tasks of a dataset of this size, with counts that a request can bring."""
    body = entry.body
    if not isinstance(body, Report):
        return not isinstance(body, Fork) and not (isinstance(body, Rewind) and not 0 <= body.to_seq < entry.seq)
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
