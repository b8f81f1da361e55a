"""POST an import: put a dataset with its runs, or one run, back as an export wrote it. All of it, or nothing."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import numpy as np

from bots_service.core.arrays import frozen
from bots_service.core.offset_tags import are_possible
from bots_service.core.predictions import MOST_COLUMNS, Predictions
from bots_service.engine.dataset_builder import DatasetBuilder, DatasetHeader
from bots_service.engine.open_runs import OpenRuns
from bots_service.engine.replicas import NotifyReplicas
from bots_service.errors import (
    DamagedStateError,
    DatasetExistsError,
    InvalidBackupError,
    InvalidTasksError,
    UnknownDatasetError,
)
from bots_service.ports.backup import Imported, Imports
from bots_service.ports.catalog import Datasets
from bots_service.ports.hot import Leases, States
from bots_service.ports.records import DatasetFacts, DatasetRow, IdempotencyKey
from bots_service.usecases.backup_format import (
    DatasetPart,
    EntriesPart,
    Part,
    PredictionsPart,
    ReceiptsPart,
    RetiredPart,
    RunPart,
    SnapshotPart,
    TasksPart,
    block_of,
    read_parts,
)
from bots_service.usecases.check_backup import CheckedRun
from bots_service.usecases.import_dataset import KeyOfUpload, open_stage
from bots_service.usecases.put_predictions import facts_of


@dataclass(slots=True)
class _Arriving:
    """How far the import of a backup has come."""

    begin: DatasetPart
    stage: int
    builder: DatasetBuilder
    predictions: dict[str, Predictions] = field(default_factory=dict)
    runs: dict[int, CheckedRun] = field(default_factory=dict)
    current: tuple[int, CheckedRun] | None = None


@dataclass(frozen=True, slots=True)
class ImportBackup:
    """Stages a backup as it streams in, checking each part; nothing is visible until all of it was good."""

    imports: Imports
    datasets: Datasets
    open_runs: OpenRuns
    states: States
    leases: Leases
    notify_replicas: NotifyReplicas

    async def __call__(
        self,
        chunks: AsyncIterator[bytes],
        idempotency_key: KeyOfUpload,
        *,
        dataset: str | None = None,
        run: str | None = None,
    ) -> Imported:
        """Return what was made.

        Args:
            chunks: the backup.
            idempotency_key: called once all of it came: only then is the request's fingerprint known.
            dataset: the name to import it under; None: its own.
            run: the name of the run, for a backup of one run.

        Raises:
            InvalidBackupError: it was cut or changed, is none, or can't be true.
            DatasetExistsError: the dataset's name is taken, or a run's dataset has other content than its own had.
            RunHasHistoryError: the run's name is taken.
            UnknownDatasetError: the run's dataset is not here.
        """
        parts = read_parts(chunks)
        begin = await anext(parts, None)
        if not isinstance(begin, DatasetPart):
            raise InvalidBackupError("the backup does not begin with a dataset")
        if begin.whole and run is not None:
            raise InvalidBackupError("this is a backup of a whole dataset; leave out `run`")
        name = dataset or begin.name
        target = await self._target(begin, name)
        facts = begin.facts
        if sorted(facts.reference_order) != list(range(len(facts.reference_models))):
            raise InvalidBackupError("the backup's dataset is inconsistent: its reference models have no order")
        if not are_possible(facts.offset_tags, facts.tags):
            raise InvalidBackupError("the backup's dataset is inconsistent: these can't be its offset tags")
        builder = DatasetBuilder(DatasetHeader(facts.reference_models, facts.description, facts.repeatable))
        async with open_stage(self.datasets) as stage:
            arriving = _Arriving(begin, stage, builder)
            try:
                async for part in parts:
                    await self._stage(arriving, part)
                _finish_run(arriving)
                return await asyncio.shield(self._finish(arriving, name, run, target, idempotency_key()))
            except DamagedStateError as error:
                raise InvalidBackupError(f"the backup is inconsistent: {error}") from error
            except InvalidTasksError as error:
                raise InvalidBackupError(f"the backup's tasks are invalid: {error}", error.flaws) from error

    async def _target(self, begin: DatasetPart, name: str) -> DatasetRow | None:
        """Return the dataset that a run comes into, None for a whole one; refuse early what can't end well."""
        if not begin.whole:
            row = await self.datasets.get(name)
            _require_same(begin.facts, row)
            return row
        try:
            await self.datasets.get(name)
        except UnknownDatasetError:
            return None
        raise DatasetExistsError(f"dataset {name!r} exists; delete it, or import under another name")

    async def _stage(self, arriving: _Arriving, part: Part) -> None:
        if isinstance(part, RunPart):
            _finish_run(arriving)
            _require_predictions(arriving, {digest for _, digest in part.run.predictions})
            checked = CheckedRun(part.run, arriving.begin.facts)
            run_id = await self.imports.add_run(arriving.stage, part.run)
            arriving.runs[run_id], arriving.current = checked, (run_id, checked)
        elif isinstance(part, EntriesPart | ReceiptsPart | SnapshotPart):
            await self._stage_of_run(arriving, part)
        elif isinstance(part, TasksPart | RetiredPart) and arriving.begin.whole and arriving.current is None:
            await self._stage_tasks(arriving, part)
        elif isinstance(part, PredictionsPart) and arriving.current is None:
            column = await self.imports.add_predictions(arriving.stage, part.content)
            if not column.are_possible(arriving.begin.facts.size):
                raise InvalidBackupError("the backup's predictions are not some of its tasks'")
            arriving.predictions[column.digest] = column
        else:
            raise InvalidBackupError(f"the backup is inconsistent: a {type(part).__name__} in the wrong place")

    async def _stage_tasks(self, arriving: _Arriving, part: TasksPart | RetiredPart) -> None:
        if isinstance(part, TasksPart):
            block = block_of(part, len(arriving.begin.facts.reference_models))
            await asyncio.to_thread(arriving.builder.add, block)
            await self.datasets.add_block(arriving.stage, block)
            return
        if len(part.tasks) % 4:
            raise InvalidBackupError("the backup's retired tasks can't be read")
        tasks = frozen(np.frombuffer(part.tasks, "<i4").astype(np.int32))
        size = arriving.builder.size
        if len(tasks) and not (tasks[0] >= 0 and tasks[-1] < size and (np.diff(tasks) > 0).all()):
            raise InvalidBackupError(f"the backup's retired tasks are not some of its {size} tasks")
        await self.imports.retire(arriving.stage, tasks)

    async def _stage_of_run(self, arriving: _Arriving, part: EntriesPart | ReceiptsPart | SnapshotPart) -> None:
        if arriving.current is None:
            raise InvalidBackupError("the backup is inconsistent: part of a run before the run")
        run_id, checked = arriving.current
        if isinstance(part, EntriesPart):
            checked.entries(await self.imports.add_entries(run_id, part.rows))
        elif isinstance(part, ReceiptsPart):
            checked.receipts(part.rows, await self.imports.add_receipts(run_id, part.rows))
        else:
            await asyncio.to_thread(checked.snapshot, part.row, part.blob)
            await self.imports.add_snapshot(run_id, part.row, part.blob)

    async def _finish(
        self,
        arriving: _Arriving,
        name: str,
        run: str | None,
        target: DatasetRow | None,
        idempotency_key: IdempotencyKey | None,
    ) -> Imported:
        begin, stage = arriving.begin, arriving.stage
        uids = {run_id: checked.run.uid for run_id, checked in arriving.runs.items()}
        if target is None:
            _require_described(arriving)
            built, _, _ = await asyncio.to_thread(arriving.builder.build, begin.facts)
            if built != begin.facts:
                raise InvalidBackupError(
                    f"the backup's tasks don't match its description: {_differences(built, begin.facts)}"
                )
            await self._forget(arriving)
            imported = await self.imports.finish_dataset(
                name, stage, (begin.facts, begin.version, begin.created_at), uids, idempotency_key
            )
            await self.notify_replicas.of_new(imported.dataset)
            return imported
        if len(uids) != 1:
            raise InvalidBackupError(f"the backup of one run holds {len(uids)}")
        (checked,) = arriving.runs.values()
        await self._forget(arriving)
        imported = await self.imports.finish_run(target, run or checked.run.name, stage, uids, idempotency_key)
        if imported.replaced is not None:
            self.open_runs.invalidate(imported.replaced)
        for made in imported.runs:
            await self.states.register(made)
        return imported

    async def _forget(self, arriving: _Arriving) -> None:
        """Forget what is live of deleted runs that come back: they may come back older than they were."""
        taken = await self.imports.taken([checked.run.uid for checked in arriving.runs.values()])
        for run_id, checked in arriving.runs.items():
            if checked.run.uid not in taken:
                row = checked.row(run_id, arriving.stage)
                await self.states.delete(row)
                await self.leases.clear(row)


def _finish_run(arriving: _Arriving) -> None:
    """Check that the run that came last is whole."""
    if arriving.current is not None:
        arriving.current[1].end()


def _require_predictions(arriving: _Arriving, wanted: set[str]) -> None:
    """Check that predictions came.

    Raises:
        InvalidBackupError: some are missing.
    """
    if missing := sorted(wanted - arriving.predictions.keys()):
        raise InvalidBackupError(f"the backup is inconsistent: the predictions {', '.join(missing)} are missing")


def _require_described(arriving: _Arriving) -> None:
    """Check that the predictions that new runs see came, and are as the dataset says."""
    said = arriving.begin.facts.predictions
    _require_predictions(arriving, {each.digest for each in said})
    found = tuple(facts_of(replace(arriving.predictions[each.digest], name=each.name)) for each in said)
    if found != said or len({each.name for each in said}) < len(said) or len(said) > MOST_COLUMNS:
        raise InvalidBackupError("the backup's dataset is inconsistent: its predictions are others")


def _require_same(facts: DatasetFacts, row: DatasetRow) -> None:
    """Check that a run speaks of the tasks that are here.

    Raises:
        DatasetExistsError: they are others; says what differs.
    """
    fixed = [(which.digest, which.reference_order, which.offset_tags) for which in (facts, row.facts)]
    if fixed[0] != fixed[1]:
        differences = _differences(row.facts, facts)
        raise DatasetExistsError(f"dataset {row.name!r} is not the one that the run is of: {differences}")


def _differences(here: DatasetFacts, there: DatasetFacts) -> str:
    """Return what differs, as in "size is 40 here and 45 in the backup"."""
    found = [
        f"{name} is {str(getattr(here, name))[:100]} here and {str(getattr(there, name))[:100]} in the backup"
        for name in DatasetFacts.__slots__
        if getattr(here, name) != getattr(there, name)
    ]
    return "; ".join(found)
