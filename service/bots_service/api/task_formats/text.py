"""Tasks as JSON: a document that is read as a whole, or NDJSON, which is read line by line."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from math import isnan, nan
from typing import Annotated, TypeVar

import msgspec
import numpy as np
from msgspec import Meta, Struct

from bots_service.api.decoding import decode
from bots_service.api.requests import MIB
from bots_service.errors import Flaw, InvalidTasksError, PayloadTooLargeError
from bots_service.records import DatasetFacts, TaskBlock

BLOCK_TASKS = 65_536  # about 10 MB of tasks at work at a time
SHOWN_FLAWS = 20


class TaskRequest(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A task.

    id: the task's id, unique in its dataset.
    reference_pass_rates: one for each reference model, null where it is not known.
    """

    # gc=False: values without cycles, in numbers that would keep Python's collector busy.

    id: str
    reference_pass_rates: list[float | None] | None = None
    tags: list[str] | None = None


class Header(Struct, frozen=True, forbid_unknown_fields=True):
    """What is said of a dataset before its tasks; None where it is not said.

    repeatable: whether tasks are handed out again without waiting.
    """

    reference_models: (
        Annotated[tuple[Annotated[str, Meta(min_length=1, max_length=256)], ...], Meta(max_length=64)] | None
    ) = None
    description: Annotated[str, Meta(max_length=10_000)] | None = None
    repeatable: bool | None = None


@dataclass(frozen=True, slots=True)
class TaskFile:
    """Tasks that stream in. blocks: yields them, given how many reference models there are."""

    header: Header
    blocks: Callable[[int], AsyncIterator[TaskBlock]]


def block_of(tasks: list[TaskRequest], first: int, models: int) -> TaskBlock:
    """Return some consecutive tasks as a block. first: the place of the first task, for messages.

    Raises:
        InvalidTasksError: a task has another number of pass rates.
    """
    unknown = [nan] * models
    rows = [unknown if task.reference_pass_rates is None else task.reference_pass_rates for task in tasks]
    flaws = [wrong_length(place, len(row), models) for place, row in enumerate(rows, first) if len(row) != models]
    if flaws:
        raise InvalidTasksError("the number of reference pass rates is wrong", tuple(flaws[:SHOWN_FLAWS]))
    references = np.array(rows, np.float64).reshape(len(tasks), models)  # None turns into NaN
    return TaskBlock([task.id for task in tasks], references, [tidy(tuple(task.tags or ())) for task in tasks])


def wrong_length(place: int, length: int, models: int) -> Flaw:
    """Return the refusal of a task's number of pass rates."""
    todo = "" if models else "; name the models in reference_models, or leave the pass rates out"
    said = f"{length} pass rates for {models} reference models{todo}"
    return Flaw(("body", "tasks", place, "reference_pass_rates"), said)


@lru_cache(4096)  # few combinations occur, most of them often
def tidy(tags: tuple[str, ...]) -> tuple[str, ...]:
    """Return each tag once, sorted."""
    return tuple(sorted(set(tags)))


class DatasetRequest(Header, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A dataset: its tasks, and the models that their reference pass rates are of.

    reference_models: names of the models, in the order of the pass rates.
    description: a text for people.
    repeatable: whether tasks are handed out again without waiting, such as generators that make a fresh one each time.
    tasks: the tasks.
    """

    tasks: list[TaskRequest]


class AppendRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Tasks to append.

    tasks: the tasks.
    """

    tasks: list[TaskRequest]


Row = TypeVar("Row")
Block = TypeVar("Block")


async def blocks_of_document(rows: list[Row], block_of: Callable[[list[Row], int], Block]) -> AsyncIterator[Block]:
    """Yield the rows of a JSON document as blocks. block_of: makes one of rows and the number of the first."""
    for first in range(0, len(rows), BLOCK_TASKS):
        yield await asyncio.to_thread(block_of, rows[first : first + BLOCK_TASKS], first)


LINE_LIMIT = MIB
BLOCK_BYTES = 16 * MIB  # of text; bounds memory where lines are long


async def read_ndjson(chunks: AsyncIterator[bytes]) -> TaskFile:
    """Return the tasks of an NDJSON body; its first line may be the header.

    Raises:
        MalformedBodyError, InvalidInputError, PayloadTooLargeError: of the first line.
    """
    more = split_lines(chunks)
    lines: list[bytes] = await anext(more, [])
    header = Header()
    if lines and _is_header(lines[0]):
        header = decode(Header, lines[0], ("body", "header"))
        lines = lines[1:]
    return TaskFile(header, lambda models: blocks_of_lines(lines, more, partial(_block, models=models)))


def _is_header(line: bytes) -> bool:
    """Say whether a first line is the header: an object that says nothing about a task."""
    try:
        names = msgspec.json.decode(line, type=dict[str, msgspec.Raw]).keys()
    except (ValueError, RecursionError):
        return False  # it will be refused as a task
    return set() < names <= set(Header.__struct_fields__)


async def split_lines(chunks: AsyncIterator[bytes], *, longest: int = LINE_LIMIT) -> AsyncIterator[list[bytes]]:
    """Yield the lines that are not blank, some at a time, wherever the chunks end.

    Raises:
        PayloadTooLargeError: a line is too long.
    """
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        if max(map(len, [*lines, rest])) > longest:
            raise PayloadTooLargeError(f"a line is longer than {longest} bytes")
        if whole := _not_blank(lines):
            yield whole
    if last := _not_blank([rest]):
        yield last


def _not_blank(lines: list[bytes]) -> list[bytes]:
    return [line for line in lines if line and not line.isspace()]


async def blocks_of_lines(
    lines: list[bytes], more: AsyncIterator[list[bytes]], block_of_lines: Callable[[list[bytes], int], Block]
) -> AsyncIterator[Block]:
    """Yield blocks, each once it is large enough. more: brings what comes behind the first lines, some at a time."""
    first, size = 0, sum(map(len, lines))
    async for fresh in more:
        lines.extend(fresh)
        size += sum(map(len, fresh))
        if len(lines) >= BLOCK_TASKS or size >= BLOCK_BYTES:
            yield await asyncio.to_thread(block_of_lines, lines, first)
            first, size = first + len(lines), 0
            lines = []
    if lines:
        yield await asyncio.to_thread(block_of_lines, lines, first)


_encoder = msgspec.json.Encoder()


def header_line(facts: DatasetFacts) -> bytes:
    """Return the first line of a dataset's tasks."""
    return _encoder.encode(Header(facts.reference_models, facts.description, facts.repeatable)) + b"\n"


def task_lines(block: TaskBlock) -> bytes:
    """Return the lines of some tasks, which `read_ndjson` reads."""
    rates = [[None if isnan(rate) else rate for rate in row] for row in block.references.tolist()]
    tasks = map(TaskRequest, block.ids, rates, map(list, block.tags))
    return _encoder.encode_lines(tasks)


def _block(lines: list[bytes], first: int, *, models: int) -> TaskBlock:
    tasks = [decode(TaskRequest, line, ("body", "tasks", place)) for place, line in enumerate(lines, first)]
    return block_of(tasks, first, models)
