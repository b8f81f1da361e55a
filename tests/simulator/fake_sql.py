"""A database in plain Python: the truth of a simulation, and its ports as one simulated process sees them."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from bots_service.core.arrays import Tasks, frozen
from bots_service.core.entries import Entry, Fork, Rewind
from bots_service.core.predictions import PredictionsKey
from bots_service.core.receipt import Receipt
from bots_service.core.run_settings import RunSettings
from bots_service.errors import (
    BusyError,
    KeyReusedError,
    RunHasHistoryError,
    StaleEpochError,
    StorageUnavailableError,
    UnknownDatasetError,
    UnknownRunError,
)
from bots_service.ports.records import (
    AppendResult,
    AppendTasksResult,
    CreateDatasetResult,
    DatasetFacts,
    DatasetRow,
    Head,
    IdempotencyKey,
    NewEntry,
    Parent,
    RunRow,
    SnapshotRow,
    StoredReceipt,
    TaskBlock,
)
from tests.simulator.links import Link, LostError

Result = TypeVar("Result")
DATASET = 1  # the one dataset's id


@dataclass
class RunTable:
    """One run, with all that hangs on it."""

    row: RunRow
    entries: list[Entry] = field(default_factory=list)
    keys: dict[str, tuple[str, Entry]] = field(default_factory=dict)
    receipts: dict[int, Receipt] = field(default_factory=dict)
    snapshots: dict[int, tuple[SnapshotRow, bytes]] = field(default_factory=dict)


@dataclass
class Sql:
    """All that is committed. Every method is one transaction."""

    dataset: DatasetRow | None = None
    blocks: list[TaskBlock] = field(default_factory=list)
    retired: Tasks = field(default_factory=lambda: np.empty(0, np.int32))
    stages: dict[int, list[TaskBlock]] = field(default_factory=dict)
    answers: dict[IdempotencyKey, Any] = field(default_factory=dict)
    runs: dict[str, RunTable] = field(default_factory=dict)
    made: int = 0

    def number(self) -> int:
        self.made += 1
        return self.made

    def table(self, run: RunRow) -> RunTable:
        table = self.runs.get(run.name)
        if table is None or table.row.uid != run.uid:
            raise UnknownRunError(f"run {run.name!r} was deleted or replaced")
        return table

    def named(self, name: str) -> DatasetRow:
        if self.dataset is None or self.dataset.name != name:
            raise UnknownDatasetError(f"no dataset {name!r}")
        return self.dataset

    def changed(self, row: DatasetRow, **values: Any) -> DatasetRow:
        if self.dataset is None or self.dataset.version != row.version:
            raise BusyError("the dataset was changed meanwhile")
        self.dataset = replace(self.dataset, version=row.version + 1, **values)
        return self.dataset

    def staged(self, stage: int) -> list[TaskBlock]:
        if stage not in self.stages:
            raise BusyError("the stage is gone")
        return self.stages[stage]

    def create(self, name: str, stage: int, facts: DatasetFacts) -> CreateDatasetResult:
        assert self.dataset is None
        self.blocks = self.staged(stage)
        del self.stages[stage]
        self.dataset = DatasetRow(DATASET, name, 1, 0, 0.0, facts)
        self.put_run("default", RunSettings(), None)
        return CreateDatasetResult(self.dataset, created=True)

    def append_tasks(self, row: DatasetRow, stage: int, facts: DatasetFacts) -> AppendTasksResult:
        added = self.staged(stage)
        changed = self.changed(row, facts=facts)
        self.blocks = self.blocks + added
        del self.stages[stage]
        return AppendTasksResult(changed, facts.size - row.facts.size)

    def retire(self, row: DatasetRow, tasks: Tasks) -> DatasetRow:
        return self.keep_retired(row, np.union1d(self.retired, tasks))

    def restore(self, row: DatasetRow, tasks: Tasks) -> DatasetRow:
        return self.keep_retired(row, np.setdiff1d(self.retired, tasks))

    def keep_retired(self, row: DatasetRow, retired: Tasks) -> DatasetRow:
        changed = self.changed(row, retired=len(retired))
        self.retired = retired.astype(np.int32)
        return changed

    def put_run(self, name: str, settings: RunSettings, fork: tuple[Parent, Fork, int] | None) -> tuple[RunRow, bool]:
        table = self.runs.get(name)
        if table is not None and table.row.head > 0:
            raise RunHasHistoryError(f"run {name!r} has journal entries")
        if table is not None and table.row.settings == settings and fork is None:
            return table.row, False
        number = self.number()
        run_id = number if table is None else table.row.id
        row = RunRow(run_id, f"uid-{number}", DATASET, name, settings, 0, 0, 0.0)
        self.runs[name] = RunTable(row)
        if fork is not None:
            parent, body, profiles = fork
            self.runs[name].entries.append(Entry(1, 0, profiles, body))
            self.runs[name].row = row = replace(row, head=1, parent=parent)
        return row, table is None

    def delete_run(self, row: RunRow) -> None:
        if self.runs.get(row.name, None) is not None and self.runs[row.name].row.uid == row.uid:
            del self.runs[row.name]
            if row.name == "default":
                self.put_run("default", RunSettings(), None)

    def find(self, run: RunRow, idempotency_key: IdempotencyKey) -> Entry | None:
        known = self.table(run).keys.get(idempotency_key.key)
        if known is not None and known[0] != idempotency_key.fingerprint:
            raise KeyReusedError("the key came with another request")
        return None if known is None else known[1]

    def append(self, run: RunRow, new_entry: NewEntry) -> AppendResult:
        table = self.table(run)
        first = None if new_entry.idempotency_key is None else self.find(run, new_entry.idempotency_key)
        if first is not None:
            return AppendResult(first, duplicate=True)
        if new_entry.epoch is not None and new_entry.epoch != table.row.epoch:
            raise StaleEpochError(f"evidence of epoch {new_entry.epoch}; the run is at {table.row.epoch}")
        epoch = table.row.epoch + isinstance(new_entry.body, Rewind)
        entry = Entry(table.row.head + 1, epoch, new_entry.profiles, new_entry.body)
        table.entries.append(entry)
        table.row = replace(table.row, head=entry.seq, epoch=epoch)
        if new_entry.idempotency_key is not None:
            table.keys[new_entry.idempotency_key.key] = (new_entry.idempotency_key.fingerprint, entry)
        return AppendResult(entry, duplicate=False)

    def head(self, run: RunRow) -> Head:
        table = self.table(run)
        assert self.dataset is not None
        return Head(table.row.uid, table.row.head, self.dataset.version)

    def heads(self, run_ids: list[int]) -> dict[int, Head]:
        return {table.row.id: self.head(table.row) for table in self.runs.values() if table.row.id in run_ids}

    def present(self, run: RunRow) -> list[int]:
        """Return the entries of the run's present history, oldest first: a rewind hides what it left behind."""
        visible: list[int] = []
        for entry in self.table(run).entries:
            if isinstance(entry.body, Rewind):
                to_seq = entry.body.to_seq
                visible = [seq for seq in visible if seq <= to_seq]
            visible.append(entry.seq)
        return visible

    def closing(self, run: RunRow, step: int) -> int | None:
        table = self.table(run)
        if table.row.parent is not None and step == table.row.parent.step:
            return 1
        if step == 0 and table.row.parent is None:
            return 0
        for seq in self.present(run):
            receipt = table.receipts.get(seq)
            if receipt is not None and receipt.closed and receipt.step == step:
                return seq
        return None

    def history(self, run: RunRow, after_step: int, limit: int) -> list[StoredReceipt]:
        receipts = [self.table(run).receipts.get(seq) for seq in self.present(run)]
        closed = [StoredReceipt(one, 0.0) for one in receipts if one is not None and one.closed]
        return [one for one in closed if one.receipt.step > after_step][:limit]

    def keep_receipts(self, run: RunRow, receipts: list[Receipt]) -> None:
        for receipt in receipts:
            standing = self.table(run).receipts.setdefault(receipt.seq, receipt)
            assert standing == receipt, f"two accounts of entry {receipt.seq}: {standing} and {receipt}"

    def first_without_receipt(self, run: RunRow, up_to: int) -> int | None:
        kept = self.table(run).receipts
        return next((seq for seq in range(1, up_to + 1) if seq not in kept), None)

    def save(self, run: RunRow, row: SnapshotRow, blob: bytes) -> SnapshotRow:
        stored = self.table(run).snapshots.setdefault(row.seq, (row, blob))
        return stored[0]

    def newest_snapshot(self, run: RunRow, up_to: int) -> tuple[SnapshotRow, bytes] | None:
        seqs = [seq for seq in self.table(run).snapshots if seq <= up_to]
        return self.table(run).snapshots[max(seqs)] if seqs else None

    def snapshots_after(self, run: RunRow, seq: int, limit: int) -> list[SnapshotRow]:
        return [row for at, (row, _) in sorted(self.table(run).snapshots.items()) if at > seq][:limit]

    def drop_snapshots(self, run: RunRow, seqs: list[int]) -> None:
        for seq in seqs:
            self.table(run).snapshots.pop(seq, None)


@dataclass
class SqlPorts:
    """Datasets, Runs, Journal and Snapshots of one process."""

    sql: Sql
    link: Link

    async def ask(self, what: str, effect: Callable[[], Result]) -> Result:
        try:
            return await self.link.call(what, effect)
        except LostError as error:
            raise StorageUnavailableError("SQL did not answer") from error


class FakeDatasets(SqlPorts):
    async def get(self, name: str) -> DatasetRow:
        return await self.ask("dataset", lambda: self.sql.named(name))

    async def after(self, name: str, limit: int) -> list[DatasetRow]:
        raise NotImplementedError

    async def stage(self) -> int:
        return await self.ask("stage", self._stage)

    def _stage(self) -> int:
        number = self.sql.number()
        self.sql.stages[number] = []
        return number

    async def add_block(self, stage: int, block: TaskBlock) -> None:
        await self.ask("add block", lambda: self.sql.staged(stage).append(block))

    async def drop_stage(self, stage: int) -> None:
        await self.ask("drop stage", lambda: self.sql.stages.pop(stage, None))

    async def create(
        self,
        name: str,
        stage: int,
        facts: DatasetFacts,
        idempotency_key: IdempotencyKey | None = None,
        *,
        within: tuple[str, ...] = (),
    ) -> CreateDatasetResult:
        return await self.ask("create dataset", lambda: self.sql.create(name, stage, facts))

    async def append(
        self, row: DatasetRow, stage: int, facts: DatasetFacts, idempotency_key: IdempotencyKey | None = None
    ) -> AppendTasksResult:
        return await self.ask("append tasks", lambda: self.sql.append_tasks(row, stage, facts))

    async def retire(self, row: DatasetRow, tasks: Tasks, idempotency_key: IdempotencyKey | None = None) -> DatasetRow:
        return await self.ask("retire tasks", lambda: self.sql.retire(row, tasks))

    async def restore(self, row: DatasetRow, tasks: Tasks, idempotency_key: IdempotencyKey | None = None) -> DatasetRow:
        return await self.ask("restore tasks", lambda: self.sql.restore(row, tasks))

    async def delete(self, row: DatasetRow, idempotency_key: IdempotencyKey | None = None) -> None:
        raise NotImplementedError

    async def blocks(self, dataset_id: int) -> AsyncIterator[TaskBlock]:
        for block in await self.ask("blocks", lambda: list(self.sql.blocks)):
            yield block

    async def retired(self, dataset_id: int) -> Tasks:
        return await self.ask("retired", lambda: frozen(self.sql.retired.copy()))


class FakeRuns(SqlPorts):
    async def get(self, dataset_id: int, name: str) -> RunRow:
        return await self.ask("run", lambda: self._get(name))

    def _get(self, name: str) -> RunRow:
        if name not in self.sql.runs:
            raise UnknownRunError(f"no run {name!r}")
        return self.sql.runs[name].row

    async def after(self, dataset_id: int, name: str, limit: int) -> list[RunRow]:
        return await self.ask("runs", lambda: [self.sql.runs[one].row for one in sorted(self.sql.runs) if one > name])

    async def put(
        self,
        dataset_id: int,
        name: str,
        settings: RunSettings,
        *,
        fork: tuple[Parent, Fork, int] | None = None,
        predictions: tuple[PredictionsKey, ...] = (),
        idempotency_key: IdempotencyKey | None = None,
        result_of: Any = None,
    ) -> tuple[RunRow, bool]:
        assert not predictions  # nobody puts any to this dataset
        return await self.ask("put run", lambda: self.sql.put_run(name, settings, fork))

    async def delete(self, row: RunRow, idempotency_key: IdempotencyKey | None = None) -> None:
        await self.ask("delete run", lambda: self.sql.delete_run(row))


class FakeAnswers(SqlPorts):
    async def keep(self, idempotency_key: IdempotencyKey | None, result: Result) -> Result:
        if idempotency_key is None:
            return result
        return await self.ask("keep answer", lambda: self.sql.answers.setdefault(idempotency_key, result))


class FakeJournal(SqlPorts):
    async def find(self, run: RunRow, idempotency_key: IdempotencyKey) -> Entry | None:
        return await self.ask("find", lambda: self.sql.find(run, idempotency_key))

    async def append(self, run: RunRow, new_entry: NewEntry) -> AppendResult:
        return await self.ask("append", lambda: self.sql.append(run, new_entry))

    async def after(self, run: RunRow, seq: int, up_to: int | None = None, limit: int = 1000) -> list[Entry]:
        return await self.ask("entries", lambda: self.sql.table(run).entries[seq:up_to][:limit])

    async def head(self, run: RunRow) -> Head:
        return await self.ask("head", lambda: self.sql.head(run))

    async def begins(self, run: RunRow) -> int:
        return await self.ask("begin of journal", lambda: 0)

    async def heads(self, run_ids: list[int]) -> dict[int, Head]:
        return await self.ask("heads", lambda: self.sql.heads(run_ids))

    async def keep_receipts(self, run: RunRow, receipts: list[Receipt]) -> None:
        await self.ask("keep receipts", lambda: self.sql.keep_receipts(run, receipts))

    async def receipt(self, run: RunRow, seq: int) -> Receipt | None:
        return await self.ask("receipt", lambda: self.sql.table(run).receipts.get(seq))

    async def first_without_receipt(self, run: RunRow, up_to: int) -> int | None:
        return await self.ask("missing receipt", lambda: self.sql.first_without_receipt(run, up_to))

    async def closing(self, run: RunRow, step: int) -> int | None:
        return await self.ask("closing", lambda: self.sql.closing(run, step))

    async def history(self, run: RunRow, after_step: int, limit: int) -> list[StoredReceipt]:
        return await self.ask("history", lambda: self.sql.history(run, after_step, limit))


class FakeSnapshots(SqlPorts):
    async def save(
        self, run: RunRow, row: SnapshotRow, blob: bytes, idempotency_key: IdempotencyKey | None = None
    ) -> SnapshotRow:
        return await self.ask("save snapshot", lambda: self.sql.save(run, row, blob))

    async def newest(self, run: RunRow, up_to: int) -> tuple[SnapshotRow, bytes] | None:
        return await self.ask("newest snapshot", lambda: self.sql.newest_snapshot(run, up_to))

    async def after(self, run: RunRow, seq: int, limit: int) -> list[SnapshotRow]:
        return await self.ask("snapshots", lambda: self.sql.snapshots_after(run, seq, limit))

    async def drop(self, run: RunRow, seqs: list[int]) -> None:
        await self.ask("drop snapshots", lambda: self.sql.drop_snapshots(run, seqs))
