"""Tasks as they are written in JSON, and blocks made of them."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from math import nan
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from bots_service.errors import Flaw, InvalidTasksError
from bots_service.ports.records import TaskBlock

BLOCK_TASKS = 65_536  # about 10 MB of tasks at work at a time
SHOWN_FLAWS = 20


class TaskRequest(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A task. reference_pass_rates: one for each reference model, null where it is not known."""

    # gc=False: values without cycles, in numbers that would keep Python's collector busy.

    id: str
    reference_pass_rates: list[float | None] | None = None
    tags: list[str] | None = None


class Header(Struct, frozen=True, forbid_unknown_fields=True):
    """What is said of a dataset before its tasks; None where it is not said."""

    reference_models: (
        Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=256)], ...], Meta(max_length=64)] | None
    ) = None
    description: Annotated[str, Meta(max_length=10_000)] | None = None


@dataclass(frozen=True, slots=True)
class TaskFile:
    """Tasks that stream in. blocks: yields them, given how many reference models there are."""

    header: Header
    blocks: Callable[[int], AsyncIterator[TaskBlock]]


def block_of(tasks: list[TaskRequest], models: int, first: int) -> TaskBlock:
    """Return some consecutive tasks as a block.

    Args:
        tasks: the tasks.
        models: how many reference models there are.
        first: the place of the first task, for messages.

    Raises:
        InvalidTasksError: a task has another number of pass rates.
    """
    unknown = [nan] * models
    rows = [unknown if task.reference_pass_rates is None else task.reference_pass_rates for task in tasks]
    flaws = [wrong_length(place, len(row), models) for place, row in enumerate(rows, first) if len(row) != models]
    if flaws:
        raise InvalidTasksError("the number of reference pass rates is wrong", tuple(flaws[:SHOWN_FLAWS]))
    references = np.array(rows, np.float64).reshape(len(tasks), models)  # None turns into NaN
    return TaskBlock([task.id for task in tasks], references, [tidy(task.tags) for task in tasks])


def wrong_length(place: int, length: int, models: int) -> Flaw:
    """Return the refusal of a task's number of pass rates."""
    return Flaw(("body", "tasks", place, "reference_pass_rates"), f"{length} pass rates for {models} reference models")


def tidy(tags: Sequence[str] | None) -> tuple[str, ...]:
    """Return each tag once, sorted."""
    return tuple(sorted(set(tags))) if tags else ()
