"""POST a run's import: replay a journal that another service exported. All of it, or nothing."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from bots_service.core.arrays import Floats, Tasks
from bots_service.core.entries import Entry, Forget, Fork, Report, Rewind
from bots_service.core.evidence import MAX_TRIALS, Evidence
from bots_service.core.run_settings import settings_from
from bots_service.core.state import RunState, fresh_state
from bots_service.engine.open_runs import OpenDatasets, OpenRun, OpenRuns
from bots_service.engine.replay import Replay, SaveSnapshot
from bots_service.errors import DamagedStateError, DatasetExistsError, InvalidJournalError, InvalidSettingsError
from bots_service.ports.catalog import Datasets
from bots_service.ports.hot import States
from bots_service.ports.journal import Journal
from bots_service.ports.records import DatasetRow, RunRow
from bots_service.ports.transfer import Moved, SavedEntry, Transfers
from bots_service.usecases.import_dataset import KeyOfUpload, open_stage
from bots_service.usecases.journal_lines import JournalHeader, TasksFacts, read_entry, read_header

PAGE = 1000  # entries stored at a time


@dataclass(frozen=True, slots=True)
class ImportRun:
    """Stages a journal as it streams in, and folds it; nothing is visible until all of it was good."""

    datasets: Datasets
    open_datasets: OpenDatasets
    open_runs: OpenRuns
    journal: Journal
    replay: Replay
    save_snapshot: SaveSnapshot
    states: States
    transfers: Transfers

    async def __call__(
        self, dataset: str, run: str, lines: AsyncIterator[list[bytes]], idempotency_key: KeyOfUpload
    ) -> Moved:
        """Return the new run, which sees the dataset's newest predictions.

        Args:
            dataset: one with the tasks of the run's own.
            run: its name here; an empty run of that name is replaced.
            lines: of the journal.
            idempotency_key: called once all of it came: only then is the request's fingerprint known.

        Raises:
            UnknownDatasetError: there is no such dataset.
            DatasetExistsError: it has other tasks.
            InvalidJournalError: it is no journal, it was truncated, or an entry does not fold.
            RunHasHistoryError: the name is taken.
        """
        opened = await self.open_datasets.fresh(dataset)
        newest = opened.row.facts.prediction_keys
        seen = await self.open_datasets.seen_with(opened, newest)
        entries = _lines(lines)
        header = read_header(await anext(entries, b""))
        _require_same(header.tasks, opened.row)
        try:
            settings = settings_from(header.settings)
        except InvalidSettingsError as error:
            raise InvalidJournalError(f"the journal's settings: {error}", error.flaws) from error
        # Other predictions tell other profiles apart: all of them are then known from the start.
        profiles = None if header.predictions == newest else seen.pool.profiles
        async with open_stage(self.datasets) as stage:
            staged = await self.transfers.add_run(stage, settings, newest)
            try:
                head = await self._stored(staged, header, entries, profiles, opened.row.facts.size)
                row = replace(head, dataset_id=opened.row.id)
                state = await self._folded(OpenRun(seen, row))
            except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError, DamagedStateError) as error:
                raise InvalidJournalError(f"the journal does not fold: {error}") from error
            await self.save_snapshot(row, state, wanted=False)
            return await asyncio.shield(self._finish(opened.row, run, stage, row, idempotency_key))

    async def _stored(
        self, run: RunRow, header: JournalHeader, lines: AsyncIterator[bytes], profiles: int | None, size: int
    ) -> RunRow:
        """Store the entries; return the run with its head and epoch."""
        page: list[SavedEntry] = []
        async for line in lines:
            row = read_entry(line, run.head + len(page) + 2)
            page.append(row if profiles is None else msgspec.structs.replace(row, profiles=profiles))
            if len(page) == PAGE:
                run, page = await self._with_page(run, page, size), []
        if page:
            run = await self._with_page(run, page, size)
        if run.head != header.entries:
            raise InvalidJournalError(f"the journal has {run.head} entries, and its header says {header.entries}")
        return run

    async def _with_page(self, run: RunRow, page: list[SavedEntry], size: int) -> RunRow:
        for entry in await self.transfers.add_entries(run, page):
            rewinds = isinstance(entry.body, Rewind)
            if (entry.seq, entry.epoch) != (run.head + 1, run.epoch + rewinds) or not _is_possible_entry(entry, size):
                raise InvalidJournalError(f"entry {run.head + 1} is none that this dataset's journals can hold")
            run = replace(run, head=entry.seq, epoch=entry.epoch)
        return run

    async def _folded(self, run: OpenRun) -> RunState:
        """Return the state after the whole journal, once its receipts are stored."""
        state = fresh_state(run.row.settings, run.dataset.pool)
        async for folded, receipts in self.replay.folds(run, state, run.row.head):
            await self.journal.keep_receipts(run.row, receipts)
            state = folded
        return state

    async def _finish(
        self, dataset: DatasetRow, name: str, stage: int, row: RunRow, idempotency_key: KeyOfUpload
    ) -> Moved:
        moved = await self.transfers.finish(dataset, name, stage, row, idempotency_key())
        if moved.replaced is not None:
            self.open_runs.invalidate(moved.replaced)
        await self.states.register(moved.run)
        return moved


async def _lines(batches: AsyncIterator[list[bytes]]) -> AsyncIterator[bytes]:
    async for batch in batches:
        for line in batch:
            yield line


def _require_same(tasks: TasksFacts, row: DatasetRow) -> None:
    """Check that a journal speaks of the tasks that are here.

    Raises:
        DatasetExistsError: they are others; says what differs.
    """
    here = TasksFacts.of(row.facts)
    differences = [
        f"{name} is {getattr(here, name)} here and {getattr(tasks, name)} in the journal"
        for name in TasksFacts.__struct_fields__
        if getattr(here, name) != getattr(tasks, name)
    ]
    if differences:
        raise DatasetExistsError(f"dataset {row.name!r} is not the one that the run is of: {'; '.join(differences)}")


def _is_possible_entry(entry: Entry, size: int) -> bool:
    """Return whether an entry names tasks of a dataset of this size, with counts that a request can bring."""
    body = entry.body
    if isinstance(body, Report):
        parts = body.parts
        counts = (parts.group_size, parts.rollouts, parts.successes, parts.failures)
        return (
            _is_known(size, body.evidence.tasks, body.aborted, parts.tasks)
            and _is_counted(body.evidence)
            and _is_within(MAX_TRIALS, *counts)
            and _is_within(np.inf, np.array(body.costs))
            and (body.made_at or 0) >= 0
        )
    if isinstance(body, Forget):
        return _is_known(size, body.tasks)
    return not isinstance(body, Fork) and not (isinstance(body, Rewind) and not 0 <= body.to_seq < entry.seq)


def _is_known(size: int, *named: Tasks) -> bool:
    return all(bool(((tasks >= 0) & (tasks < size)).all()) for tasks in named)


def _is_counted(seen: Evidence) -> bool:
    columns = (seen.successes, seen.failures)
    is_whole = {len(seen.tasks)} == {len(column) for column in (*columns, seen.effective)}
    return is_whole and _is_within(MAX_TRIALS, *columns) and bool((columns[0] + columns[1] > 0).all())


def _is_within(most: float, *numbers: Floats) -> bool:
    """Return whether all numbers lie in [0, most]; NaN does not."""
    return all(bool(((each >= 0) & (each <= most)).all()) for each in numbers)
