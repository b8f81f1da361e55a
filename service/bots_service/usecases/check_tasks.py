"""Refuses tasks that can't be true, before they are stored."""

import numpy as np

from bots_service.errors import Flaw, InvalidTasksError
from bots_service.ports.records import TaskBlock

MAX_ID = 256
MAX_TAG = 64
MAX_TAGS = 32
SHOWN_FLAWS = 20  # enough to see the pattern; a million-line error helps nobody


def check_block(block: TaskBlock, *, models: int, first: int) -> None:
    """Check some consecutive tasks.

    Args:
        block: the tasks.
        models: how many reference models the dataset has.
        first: the place of the block's first task in the dataset, for messages.

    Raises:
        InvalidTasksError: an id, a pass rate or a tag is impossible; carries the first flaws.
    """
    flaws = [*_id_flaws(block, first), *_reference_flaws(block, models, first), *_tag_flaws(block, first)]
    if flaws:
        raise InvalidTasksError("the tasks are not possible", tuple(flaws[:SHOWN_FLAWS]))


def _id_flaws(block: TaskBlock, first: int) -> list[Flaw]:
    return [
        Flaw(("tasks", task, "id"), f"{task_id[:40]!r} is not an id: 1 to {MAX_ID} printable characters")
        for task, task_id in enumerate(block.ids, start=first)
        if not 0 < len(task_id) <= MAX_ID or not task_id.isprintable()
    ]


def _reference_flaws(block: TaskBlock, models: int, first: int) -> list[Flaw]:
    rates = block.references
    if rates.shape != (len(block), models):
        return [Flaw(("tasks", first, "reference_pass_rates"), f"{rates.shape[1]} pass rates for {models} models")]
    impossible = ~(np.isnan(rates) | ((rates >= 0) & (rates <= 1)))
    return [
        Flaw(("tasks", first + task, "reference_pass_rates", model), f"{rates[task, model]} is not in [0, 1]")
        for task, model in np.argwhere(impossible)[:SHOWN_FLAWS].tolist()
    ]


def _tag_flaws(block: TaskBlock, first: int) -> list[Flaw]:
    flaws = []
    for task, tags in enumerate(block.tags, start=first):
        if not tags:
            continue
        if len(tags) > MAX_TAGS:
            flaws.append(Flaw(("tasks", task, "tags"), f"{len(tags)} tags; at most {MAX_TAGS} are possible"))
        flaws.extend(
            Flaw(("tasks", task, "tags"), f"{tag[:40]!r} is not a tag: 1 to {MAX_TAG} printable characters")
            for tag in tags
            if not 0 < len(tag) <= MAX_TAG or not tag.isprintable()
        )
    return flaws
