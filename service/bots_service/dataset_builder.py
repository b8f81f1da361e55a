"""Builds a dataset from blocks of tasks, and checks them; memory stays close to the packed size."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from bots_service.core.arrays import Floats, Tasks, frozen
from bots_service.core.pool import Pool, choose_offset_tags
from bots_service.core.task_ids import GrowingTaskIds, TaskIds
from bots_service.errors import Flaw, InvalidTasksError
from bots_service.records import DatasetFacts, DatasetRow, OpenDataset, TaskBlock

MAX_ID = 256
MAX_TAG = 64
MAX_TAGS = 32
SHOWN_FLAWS = 20  # enough to see the pattern


def check_block(block: TaskBlock, *, models: int, first: int) -> None:
    """Check consecutive tasks.

    Args:
        block: the tasks.
        models: number of the dataset's reference models.
        first: index of the block's first task in the dataset, for messages.

    Raises:
        InvalidTasksError: an id, a pass rate or a tag is invalid; contains the first errors.
    """
    flaws = [*_text_flaws(block, first), *_reference_flaws(block, models, first)]
    if flaws:
        raise InvalidTasksError("invalid tasks", tuple(flaws[:SHOWN_FLAWS]))


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


def _reference_flaws(block: TaskBlock, models: int, first: int) -> list[Flaw]:
    rates = block.references
    if rates.shape != (len(block), models):
        return [Flaw(("tasks", first, "reference_pass_rates"), f"{rates.shape[1]} pass rates for {models} models")]
    impossible = ~(np.isnan(rates) | ((rates >= 0) & (rates <= 1)))
    return [
        Flaw(("tasks", first + task, "reference_pass_rates", model), f"{rates[task, model]} is not in [0, 1]")
        for task, model in np.argwhere(impossible)[:SHOWN_FLAWS].tolist()
    ]


@dataclass(frozen=True, slots=True)
class DatasetHeader:
    """A dataset's fields other than its tasks. repeatable: whether its tasks are handed out without leases."""

    reference_models: tuple[str, ...] = ()
    description: str = ""
    repeatable: bool = False


Built = tuple[DatasetFacts, TaskIds, Pool]


class DatasetBuilder:
    """Collects blocks of tasks; `build` returns the dataset's pool."""

    def __init__(self, header: DatasetHeader) -> None:
        self.header = header
        self.size = 0
        self._ids = GrowingTaskIds()
        self._checked = 0  # of how many ids it is known that they differ
        self._references: list[Floats] = []
        self._tags: dict[str, list[Tasks]] = {}
        # Three streams, so that the digest does not depend on where blocks end.
        self._ids_hash, self._references_hash, self._tags_hash = (hashlib.blake2b(digest_size=16) for _ in range(3))

    def add(self, block: TaskBlock) -> None:
        """Add the next tasks.

        Raises:
            InvalidTasksError: a task is invalid, or an id is repeated; repeats may also be found only by `ids`.
        """
        check_block(block, models=len(self.header.reference_models), first=self.size)
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
        """Return the packed ids.

        Raises:
            InvalidTasksError: two tasks have the same id.
        """
        ids = self._ids.packed()
        if repeat := ids.first_repeat():
            flaw = Flaw(("tasks", repeat[1], "id"), f"{ids[repeat[1]]!r} is the id of task {repeat[0]} already")
            raise InvalidTasksError("task ids must differ", (flaw,))
        return ids

    def digest(self) -> str:
        """Return the digest of the content; it does not depend on the upload's format."""
        whole = hashlib.blake2b(digest_size=16)
        parts = [self.header.description, str(len(self.header.reference_models)), *self.header.reference_models]
        for text in parts:
            whole.update(text.encode() + b"\0")
        if self.header.repeatable:
            whole.update(b"repeatable\0")
        for stream in (self._ids_hash, self._references_hash, self._tags_hash):
            whole.update(stream.digest())
        return whole.hexdigest()

    def build(self, earlier: DatasetFacts | None = None) -> Built:
        """Return the dataset's facts, ids and pool.

        Args:
            earlier: facts of an earlier version of the dataset, whose order of reference models, offset tags and
                predictions are kept; None for a new dataset: it has no predictions, and the others are chosen.

        Raises:
            InvalidTasksError: there are no tasks, an id is repeated, or no task has one of the offset tags.
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
            description=self.header.description,
            reference_models=self.header.reference_models,
            reference_order=order,
            size=self.size,
            profiles=pool.profiles,
            offset_tags=offset_tags,
            tags={tag: len(tasks) for tag, tasks in tags.items()},
            digest=self.digest(),
            repeatable=self.header.repeatable,
            predictions=() if earlier is None else earlier.predictions,
        )
        return facts, ids, pool


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
    """Return an open dataset, ready for selections."""
    return OpenDataset(row, ids, replace(pool, retired=frozen(retired)))
