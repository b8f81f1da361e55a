"""Builds a dataset from blocks of tasks, checking them on the way; memory stays near the packed size."""

import hashlib
from dataclasses import dataclass

import numpy as np

from bots_service.core.arrays import Floats, Tasks, frozen
from bots_service.core.pool import Pool, number_profiles
from bots_service.core.task_ids import GrowingTaskIds, TaskIds
from bots_service.errors import Flaw, InvalidTasksError
from bots_service.ports.records import DatasetFacts, DatasetRow, OpenDataset, TaskBlock
from bots_service.usecases.check_tasks import check_block


@dataclass(frozen=True, slots=True)
class DatasetHeader:
    """What is said of a dataset before its tasks."""

    reference_models: tuple[str, ...] = ()
    description: str = ""


Built = tuple[DatasetFacts, TaskIds, Pool]


class DatasetBuilder:
    """Collects blocks; `build` turns them into a dataset that is ready to select from."""

    def __init__(self, header: DatasetHeader) -> None:
        self.header = header
        self.size = 0
        self._ids = GrowingTaskIds()
        self._references: list[Floats] = []
        self._tags: dict[str, list[Tasks]] = {}
        # Three streams, so that the digest does not depend on where blocks end.
        self._ids_hash, self._references_hash, self._tags_hash = (hashlib.blake2b(digest_size=16) for _ in range(3))

    def add(self, block: TaskBlock) -> None:
        """Add the next tasks.

        Raises:
            InvalidTasksError: one of them can't be true, or two have the same id, as far as that is known by now.
        """
        check_block(block, models=len(self.header.reference_models), first=self.size)
        _require_distinct(self._ids.add(block.ids), self._ids)
        self._references.append(block.references)
        self._add_tags(block.tags)
        self._ids_hash.update(("\0".join(block.ids) + "\0").encode() if block.ids else b"")
        # -0.0 is 0.0, and NaN has many forms; which one comes depends on the format.
        rates = np.where(np.isnan(block.references), np.nan, block.references) + 0.0
        self._references_hash.update(np.ascontiguousarray(rates, "<f8").tobytes())
        self._tags_hash.update("".join("\1".join(tags) + "\0" for tags in block.tags).encode())
        self.size += len(block)

    def _add_tags(self, tags_of_tasks: list[tuple[str, ...]]) -> None:
        carriers: dict[str, list[int]] = {}
        for task, tags in enumerate(tags_of_tasks, start=self.size):
            for tag in tags:
                carriers.setdefault(tag, []).append(task)
        for tag, tasks in carriers.items():
            self._tags.setdefault(tag, []).append(np.array(tasks, np.int32))

    def ids(self) -> TaskIds:
        """Return the packed ids.

        Raises:
            InvalidTasksError: two tasks have the same id.
        """
        ids = self._ids.packed()
        _require_distinct(ids.first_repeat(), ids)
        return ids

    def digest(self) -> str:
        """Return the content's digest: the same for JSON, NDJSON and Parquet."""
        whole = hashlib.blake2b(digest_size=16)
        parts = [self.header.description, str(len(self.header.reference_models)), *self.header.reference_models]
        for text in parts:
            whole.update(text.encode() + b"\0")
        for stream in (self._ids_hash, self._references_hash, self._tags_hash):
            whole.update(stream.digest())
        return whole.hexdigest()

    def build(self, order: tuple[int, ...] | None = None) -> Built:
        """Return what is true of the content, its ids, and the pool.

        Args:
            order: the places of the reference models, weakest first; None finds it out.

        Raises:
            InvalidTasksError: there is no task, or two have the same id.
        """
        if self.size == 0:
            raise InvalidTasksError("a dataset needs at least one task")
        ids = self.ids()
        references = np.concatenate(self._references)
        order = weakest_first(references) if order is None else order
        profiles, profile_of = number_profiles(references[:, list(order)])
        tags = {tag: frozen(np.concatenate(parts)) for tag, parts in sorted(self._tags.items())}
        facts = DatasetFacts(
            description=self.header.description,
            reference_models=self.header.reference_models,
            reference_order=order,
            size=self.size,
            profiles=len(profiles),
            tags={tag: len(tasks) for tag, tasks in tags.items()},
            digest=self.digest(),
        )
        return facts, ids, Pool(profiles, profile_of, tags)


def _require_distinct(repeat: tuple[int, int] | None, ids: GrowingTaskIds | TaskIds) -> None:
    if repeat is not None:
        flaw = Flaw(("tasks", repeat[1], "id"), f"{ids[repeat[1]]!r} is the id of task {repeat[0]} already")
        raise InvalidTasksError("task ids must differ", (flaw,))


def weakest_first(references: Floats) -> tuple[int, ...]:
    """Return the order of the reference models: as given for two, by mean pass rate for more.

    Args:
        references: [N, M] pass rates, NaN where unknown.
    """
    models = references.shape[1]
    known = references[~np.isnan(references).any(axis=1)]
    if models <= 2 or len(known) == 0:
        return tuple(range(models))
    return tuple(int(place) for place in np.argsort(known.mean(axis=0), kind="stable"))


def opened(row: DatasetRow, ids: TaskIds, pool: Pool, retired: Tasks) -> OpenDataset:
    """Return a dataset that is ready to select from."""
    return OpenDataset(row, ids, Pool(pool.references, pool.profile_of, pool.tags, frozen(retired)))
