"""Datasets: built from blocks of tasks and checked, changed, deleted; and open in memory, ready to select from."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

import numpy as np
import structlog

from bots_service.core.arrays import NO_TASKS, Floats, Tasks, contained, frozen, last_of, united
from bots_service.core.pool import Pool, choose_offset_tags
from bots_service.core.state import RunState
from bots_service.core.task_ids import GrowingTaskIds, TaskIds
from bots_service.errors import (
    BusyError,
    Flaw,
    InvalidSelectionError,
    InvalidTasksError,
    StorageUnavailableError,
    TaskExistsError,
    UnknownRunError,
)
from bots_service.keys import EVERY_DATASET
from bots_service.metrics import RunsAtWork
from bots_service.records import DatasetFacts, DatasetRow, IdempotencyKey, OpenDataset, RunRow, Subset, TaskBlock
from bots_service.storage.live import BEGIN, Live
from bots_service.storage.sql.datasets import SqlDatasets
from bots_service.storage.sql.runs import SqlRuns

MAX_ID = 256
MAX_TAG = 64
MAX_TAGS = 32


def _text_flaws(block: TaskBlock, first: int) -> Iterator[Flaw]:
    for task, (task_id, tags) in enumerate(zip(block.ids, block.tags, strict=True), start=first):
        if not 0 < len(task_id) <= MAX_ID or not task_id.isprintable():
            yield Flaw(("tasks", task, "id"), f"{task_id[:40]!r} is not an id: 1 to {MAX_ID} printable characters")
        if len(tags) > MAX_TAGS:
            yield Flaw(("tasks", task, "tags"), f"{len(tags)} tags; at most {MAX_TAGS} are allowed")
        for tag in tags:
            if not 0 < len(tag) <= MAX_TAG or not tag.isprintable():
                said = f"{tag[:40]!r} is not a tag: 1 to {MAX_TAG} printable characters"
                yield Flaw(("tasks", task, "tags"), said)


def _reference_flaws(block: TaskBlock, models: int, first: int) -> Iterator[Flaw]:
    rates = block.references
    if rates.shape != (len(block), models):
        yield Flaw(("tasks", first, "reference_pass_rates"), f"{rates.shape[1]} pass rates for {models} models")
    impossible = ~(np.isnan(rates) | ((rates >= 0) & (rates <= 1)))
    for task, model in np.argwhere(impossible).tolist():
        yield Flaw(("tasks", first + task, "reference_pass_rates", model), f"{rates[task, model]} is not in [0, 1]")


class DatasetBuilder:
    """Collects blocks of tasks, and checks them; memory stays close to the packed size."""

    def __init__(self, reference_models: tuple[str, ...] = (), description: str = "") -> None:
        self.reference_models, self.description = reference_models, description
        self.size = 0
        self._ids = GrowingTaskIds()
        self._checked = 0  # of how many ids it is known that they differ
        self._references: list[Floats] = []
        self._tags: dict[str, list[Tasks]] = {}
        # Three streams, so that the digest does not depend on where blocks end.
        self._ids_hash, self._references_hash, self._tags_hash = (hashlib.blake2b(digest_size=16) for _ in range(3))

    def add(self, block: TaskBlock) -> None:
        """Add the next tasks.

        Raises InvalidTasksError: a task is invalid, or an id is repeated; repeats may also be found only by `ids`.
        """
        references = _reference_flaws(block, len(self.reference_models), self.size)
        InvalidTasksError.refuse("invalid tasks", chain(_text_flaws(block, self.size), references))
        self._ids.add(block.ids)
        self._references.append(block.references)
        self._add_tags(block.tags)
        self._ids_hash.update(("\0".join(block.ids) + "\0").encode() if block.ids else b"")
        # Formats differ in the sign of zero and the bits of NaN.
        rates = np.where(np.isnan(block.references), np.nan, block.references) + 0.0
        self._references_hash.update(np.ascontiguousarray(rates, "<f8").tobytes())
        self._tags_hash.update("".join("\1".join(tags) + "\0" for tags in block.tags).encode())
        self.size += len(block)
        if self.size >= 2 * self._checked:  # so all checks together sort no more than twice as much as the last one
            self.ids()
            self._checked = self.size

    def _add_tags(self, tags_of_tasks: list[tuple[str, ...]]) -> None:
        carriers: dict[str, list[int]] = {}
        for task, tags in enumerate(tags_of_tasks, start=self.size):
            for tag in tags:
                carriers.setdefault(tag, []).append(task)
        for tag, tasks in carriers.items():
            self._tags.setdefault(tag, []).append(np.array(tasks, np.int32))

    def ids(self) -> TaskIds:
        """Return the packed ids. Raises InvalidTasksError: two tasks have the same id."""
        ids = self._ids.packed()
        if repeat := ids.first_repeat():
            flaw = Flaw(("tasks", repeat[1], "id"), f"{ids[repeat[1]]!r} is the id of task {repeat[0]} already")
            raise InvalidTasksError("task ids must differ", (flaw,))
        return ids

    def digest(self) -> str:
        """Return the digest of the content; it does not depend on the upload's format."""
        whole = hashlib.blake2b(digest_size=16)
        parts = [self.description, str(len(self.reference_models)), *self.reference_models]
        for text in parts:
            whole.update(text.encode() + b"\0")
        for stream in (self._ids_hash, self._references_hash, self._tags_hash):
            whole.update(stream.digest())
        return whole.hexdigest()

    def build(self, earlier: DatasetFacts | None = None) -> tuple[DatasetFacts, TaskIds, Pool]:
        """Return the dataset's facts, ids and pool.

        earlier: facts of an earlier version of the dataset, whose order of reference models and offset tags are kept;
            None for a new dataset: they are chosen.

        Raises InvalidTasksError: there are no tasks, an id is repeated, or no task has one of the offset tags.
        """
        if self.size == 0:
            raise InvalidTasksError("a dataset needs at least one task")
        ids = self.ids()
        references = np.concatenate(self._references)
        order = weakest_first(references) if earlier is None else earlier.reference_order
        tags = {tag: frozen(np.concatenate(parts)) for tag, parts in sorted(self._tags.items())}
        pool = Pool.of_tasks(references[:, list(order)], tags)
        offset_tags = choose_offset_tags(tags, pool.profile_of) if earlier is None else earlier.offset_tags
        if offset_tags:
            pool = Pool.of_tasks(references[:, list(order)], tags, offset_tags)
        facts = DatasetFacts(
            description=self.description,
            reference_models=self.reference_models,
            reference_order=order,
            size=self.size,
            profiles=pool.profiles,
            offset_tags=offset_tags,
            tags={tag: len(tasks) for tag, tasks in tags.items()},
            digest=self.digest(),
        )
        return facts, ids, pool


def weakest_first(references: Floats) -> tuple[int, ...]:
    """Return the order of the reference models by [N, M] pass rates: as given for two, by the mean for more."""
    models = references.shape[1]
    known = references[~np.isnan(references).any(axis=1)]
    if models <= 2 or len(known) == 0:
        return tuple(range(models))
    return tuple(int(place) for place in np.argsort(known.mean(axis=0), kind="stable"))


def opened(row: DatasetRow, ids: TaskIds, pool: Pool, retired: Tasks) -> OpenDataset:
    return OpenDataset(row, ids, replace(pool, retired=frozen(retired)))


log = structlog.get_logger(__name__)

# Tasks of a dataset, times its subsets that stay ready to select from; beyond it some are made again and again.
# A subset takes some 10 bytes for each task of the dataset, so all of them at most 320 MB.
SUBSET_TASKS = 32_000_000

Result = TypeVar("Result")

KeyOfUpload = Callable[[], IdempotencyKey | None]
"""Called once all of an upload came: only then is the request's fingerprint known."""


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run with its open dataset. The row's head and epoch are from when it was read."""

    dataset: OpenDataset
    row: RunRow


class Datasets:
    """A cache of open datasets by name, of which the least recently used are evicted; and all that changes datasets.

    What a change writes is done to the end even if its caller stops waiting. Each call raises UnknownDatasetError where
    there is no dataset of the name, UnknownRunError where a run was deleted or replaced, and each change BusyError
    where another request changed the dataset meanwhile.
    """

    def __init__(self, store: SqlDatasets, runs: SqlRuns, live: Live, at_work: RunsAtWork, *, max_bytes: int) -> None:
        """Create an empty cache. max_bytes: memory limit of open datasets; the one used last always stays."""
        self.store, self._runs, self._live, self._at_work = store, runs, live, at_work
        self._max_bytes = max_bytes
        self._open: OrderedDict[str, OpenDataset] = OrderedDict()
        self._loading, self._viewing = asyncio.Lock(), asyncio.Lock()
        self._changed: set[str] = set()  # names that changed while a dataset was loading

    # --- open datasets -----------------------------------------------------------------------------------------------

    async def open(self, name: str) -> OpenDataset:
        """Return the dataset, loaded on first use; another replica may have changed it since."""
        known = self._open.get(name)
        if known is not None:
            self._open.move_to_end(name)
            return known
        async with self._loading:
            while name not in self._open:
                self._changed.clear()
                row = await self.store.get(name)
                builder = await self._builder(row)
                _, ids, pool = await asyncio.to_thread(builder.build, row.facts)
                loaded = opened(row, ids, pool, await self.store.retired(row.id))
                if name not in self._changed:  # otherwise load again: it was changed or deleted
                    self._keep(loaded)
            return self._open[name]

    async def fresh(self, name: str) -> OpenDataset:
        """Return the dataset in its current version: another replica may have changed or replaced it."""
        row = await self.store.get(name)
        known = self._open.get(name)
        if known is not None and (known.row.id, known.row.version) != (row.id, row.version):
            self.invalidate(name)
        return await self.open(name)

    def known(self, name: str) -> OpenDataset | None:
        return self._open.get(name)

    async def within(self, run: OpenRun, subset: str) -> OpenRun:
        """Return a run with a dataset of whose tasks only those of a subset are handed out.

        Raises InvalidSelectionError: its dataset has no such subset.
        """
        dataset = run.dataset
        async with self._viewing:
            if subset not in dataset.subsets:
                await self._add_subset(dataset, subset)
            pool = dataset.subsets[subset] = dataset.subsets.pop(subset)  # the one that was used last is dropped last
        return OpenRun(replace(dataset, pool=pool, subsets={}), run.row)

    async def _add_subset(self, dataset: OpenDataset, subset: str) -> None:
        tasks = await self.store.subset(dataset.row.id, subset)
        if tasks is None or last_of(tasks) >= len(dataset.pool):  # the last: another replica appended tasks
            flaw = Flaw(("body", "subset"), f"no subset {subset!r}; post its tasks to the dataset's subsets")
            raise InvalidSelectionError("invalid selection", (flaw,))
        pool = await asyncio.to_thread(dataset.pool.only, subset, tasks)
        while len(dataset.subsets) >= max(1, SUBSET_TASKS // len(pool)):
            dataset.subsets.pop(next(iter(dataset.subsets)))
        dataset.subsets[subset] = pool

    def of(self, dataset: OpenDataset, row: RunRow) -> OpenRun:
        """Return a run with its dataset. Raises UnknownRunError: the dataset is another by now."""
        if dataset.row.id != row.dataset_id:
            raise UnknownRunError(f"run {row.name!r} was deleted or replaced")
        return OpenRun(dataset, row)

    async def current(self, run: OpenRun) -> OpenRun:
        """Return the run with its dataset in its current version."""
        return self.of(await self.fresh(run.dataset.row.name), run.row)

    async def matching(self, run: OpenRun, state: RunState) -> OpenRun:
        """Return the run with the newest open version of its dataset, which has all tasks that the state knows."""
        newest = self.of(await self.open(run.dataset.row.name), run.row)
        # Otherwise reports refer to tasks that another replica appended.
        return newest if state.fits(newest.dataset.pool) else await self.current(run)

    async def _builder(self, row: DatasetRow) -> DatasetBuilder:
        builder = DatasetBuilder(row.facts.reference_models, row.facts.description)
        async for block in self.store.blocks(row.id):
            await asyncio.to_thread(builder.add, block)
        return builder

    def _keep(self, dataset: OpenDataset) -> None:
        self._changed.add(dataset.row.name)
        self._open[dataset.row.name] = dataset
        self._open.move_to_end(dataset.row.name)
        while len(self._open) > 1 and sum(other.nbytes for other in self._open.values()) > self._max_bytes:
            self._open.popitem(last=False)

    def invalidate_older(self, row: DatasetRow, version: int) -> None:
        """Remove a dataset from the cache if its version there is older than this one."""
        known = self._open.get(row.name)
        if known is not None and known.row.id == row.id and known.row.version < version:
            self.invalidate(row.name)

    def invalidate(self, name: str) -> None:
        """Remove a dataset from the cache, because it was changed or deleted."""
        self._changed.add(name)
        self._open.pop(name, None)

    # --- changes -----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def stage(self) -> AsyncIterator[int]:
        """Open a stage for an upload, and drop it at the end; once it is a dataset, dropping it changes nothing.

        Where SQL can't drop it, what the upload came to stands: the stage is dropped a day later.
        """
        stage = await self.store.stage()
        try:
            yield stage
        finally:
            try:
                await asyncio.shield(self.store.drop_stage(stage))
            except StorageUnavailableError as error:
                log.warning("stage_not_dropped", stage=stage, reason=str(error))

    async def create(
        self,
        name: str,
        reference_models: tuple[str, ...],
        description: str,
        blocks: AsyncIterator[TaskBlock],
        idempotency_key: KeyOfUpload,
        *,
        within: tuple[str, ...] = (EVERY_DATASET,),
    ) -> tuple[DatasetRow, bool]:
        """Create a dataset from a stream of blocks; nothing is visible until all of it was good.

        Where one of the name has the same content, that is returned. Also return whether it is new.
        within: patterns of names that the caller's key reaches.

        Raises InvalidTasksError: a task can't be true; LimitReachedError: there is no room for another dataset, or for
        so many tasks in one; DatasetExistsError: the name is taken by other content.
        """
        async with self.stage() as stage:
            builder = DatasetBuilder(reference_models, description)
            async for block in blocks:
                await asyncio.to_thread(builder.add, block)
                await self.store.add_block(stage, block)
            facts, ids, pool = await asyncio.to_thread(builder.build)
            row, is_new = await self.store.create(idempotency_key(), name, stage, facts, within=within)
            if is_new:
                self._keep(opened(row, ids, pool, NO_TASKS))
                for run in await self._runs.all(row.id):
                    await self._live.moved(run, BEGIN, begins=True)
            return row, is_new

    async def append(self, name: str, blocks: AsyncIterator[TaskBlock], idempotency_key: KeyOfUpload) -> DatasetRow:
        """Append tasks; those that were there keep their places and their beliefs.

        Raises InvalidTasksError: a task can't be true; TaskExistsError: a task's id is taken; LimitReachedError: it
        would have more tasks than a dataset may have.
        """
        dataset = await self.fresh(name)
        builder = await self._builder(dataset.row)
        if builder.size != dataset.row.facts.size:  # the blocks are newer than the row: the same request may be at work
            self.invalidate(name)
            raise BusyError(f"dataset {name!r} was changed by another request at the same time; try again")
        async with self.stage() as stage:
            async for block in blocks:
                taken = dataset.ids.find(block.ids)
                if (taken >= 0).any():
                    raise TaskExistsError(f"task {dataset.ids[int(taken.max())]!r} is in dataset {name!r} already")
                await asyncio.to_thread(builder.add, block)
                await self.store.add_block(stage, block)
            if builder.size == dataset.row.facts.size:
                raise InvalidTasksError("there is no task to append")
            facts, ids, pool = await asyncio.to_thread(builder.build, dataset.row.facts)
            written = self.store.append(idempotency_key(), dataset.row, stage, facts)
            retired = dataset.pool.retired
            return await self._finished(dataset, written, lambda row: opened(row, ids, pool, retired))

    async def retire(
        self, name: str, ids: list[str], idempotency_key: IdempotencyKey | None, *, restore: bool = False
    ) -> DatasetRow:
        """Retire tasks: they are no longer handed out, and what is known of them stays; or take that back.

        What is so already stays so.

        Raises InvalidTasksError: an id is unknown.
        """
        dataset = await self.fresh(name)
        tasks = dataset.ids.find(ids)
        InvalidTasksError.refuse(f"dataset {name!r} has no such tasks", unknown_tasks(ids, tasks, "ids"))
        retired = (np.setdiff1d if restore else np.union1d)(dataset.pool.retired, tasks).astype(np.int32)
        written = self.store.set_retired(idempotency_key, dataset.row, retired)
        return await self._finished(dataset, written, lambda row: opened(row, dataset.ids, dataset.pool, retired))

    async def keep_subset(self, name: str, blocks: AsyncIterator[TaskBlock], idempotency_key: KeyOfUpload) -> Subset:
        """Keep a subset under a name that follows from its tasks; it is not kept if the dataset lacks some of them.

        Only the ids of the blocks count, and a repeated one counts once.

        Raises InvalidTasksError: there is no task.
        """
        dataset = await self.fresh(name)
        found = [await asyncio.to_thread(dataset.ids.find, block.ids) async for block in blocks]
        if not found:
            raise InvalidTasksError("a subset needs at least one task")
        subset, tasks = await asyncio.to_thread(_described, dataset, np.concatenate(found))
        if subset.missing:
            return subset
        return await self.store.keep_subset(idempotency_key(), dataset.row, subset, tasks)

    async def delete(self, name: str, idempotency_key: IdempotencyKey | None) -> None:
        """Delete a dataset with its runs, journals and snapshots."""
        await asyncio.shield(self._delete(await self.store.get(name), idempotency_key))

    async def _delete(self, row: DatasetRow, idempotency_key: IdempotencyKey | None) -> None:
        runs = await self._runs.all(row.id)
        await self.store.delete(idempotency_key, row)
        self.invalidate(row.name)
        self._at_work.forget(row.name)
        for run in runs:
            await self._live.delete(run)

    async def _finished(
        self, dataset: OpenDataset, written: Awaitable[Result], opened: Callable[[Result], OpenDataset]
    ) -> Result:
        """Return the result of a write, once all know of it; it is done to the end even if the caller stops waiting.

        opened: makes the open dataset as it is now of the result.
        """

        async def finish() -> Result:
            try:
                result = await written
            except BusyError:
                self.invalidate(dataset.row.name)
                raise
            changed = opened(result)
            self._keep(changed)
            await self._live.dataset_changed(changed.row.id, changed.row.version)
            return result

        return await asyncio.shield(finish())


def unknown_tasks(ids: Sequence[str], found: Tasks, *where: str, within: tuple[str, ...] = ()) -> Iterator[Flaw]:
    """Yield the flaws of ids, listed at `where`, that name no task: those where -1 was found."""
    for place in np.flatnonzero(found < 0).tolist():
        yield Flaw((*where, place, *within), f"no task {ids[place][:80]!r}")


def _described(dataset: OpenDataset, found: Tasks) -> tuple[Subset, Tasks]:
    """Return a subset and its tasks. found: [n] the task of each id, -1 where there is none."""
    missing = np.flatnonzero(found < 0)
    tasks = united(found[found >= 0])
    retired = int(np.count_nonzero(contained(tasks, (dataset.pool.retired,))))
    name = None if len(missing) else hashlib.blake2b(tasks.astype("<i4").tobytes(), digest_size=16).hexdigest()
    others = len(dataset.pool) - len(tasks)
    return Subset(dataset.row.name, name, len(tasks), retired, others, tuple(missing.tolist())), tasks
