"""Uploads of tasks, as a stream of blocks: from a JSON document, or from NDJSON line by line."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from math import nan
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta, Struct
from starlette.requests import Request

from bots_service.api.requests import DATASET_LIMIT, JSON, MIB, NDJSON, Body, decode, services_of, state_of
from bots_service.errors import Flaw, InvalidTasksError, PayloadTooLargeError
from bots_service.records import DatasetFacts, TaskBlock

BLOCK_TASKS = 65_536  # about 10 MB of tasks at work at a time

# --- tasks ------------------------------------------------------------------------------------------------------------


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


def _task_block(tasks: list[TaskRequest], first: int, models: int) -> TaskBlock:
    """Return some consecutive tasks as a block. first: the place of the first task, for messages."""
    unknown = [nan] * models
    rows = [unknown if task.reference_pass_rates is None else task.reference_pass_rates for task in tasks]
    todo = "" if models else "; name the models in reference_models, or leave the pass rates out"
    flaws = (
        Flaw(
            ("body", "tasks", place, "reference_pass_rates"),
            f"{len(row)} pass rates for {models} reference models{todo}",
        )
        for place, row in enumerate(rows, first)
        if len(row) != models
    )
    InvalidTasksError.refuse("the number of reference pass rates is wrong", flaws)
    references = np.array(rows, np.float64).reshape(len(tasks), models)  # None turns into NaN
    return TaskBlock([task.id for task in tasks], references, [_tidy(tuple(task.tags or ())) for task in tasks])


@lru_cache(4096)  # few combinations occur, most of them often
def _tidy(tags: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(tags)))


class TasksRequest(Header, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tasks, and what is said of their dataset.

    reference_models: names of the models, in the order of the pass rates.
    description: a text for people.
    tasks: the tasks.
    """

    tasks: list[TaskRequest]


async def _blocks_of_document(tasks: list[TaskRequest], models: int) -> AsyncIterator[TaskBlock]:
    """Yield the tasks of a JSON document as blocks."""
    for first in range(0, len(tasks), BLOCK_TASKS):
        yield await asyncio.to_thread(_task_block, tasks[first : first + BLOCK_TASKS], first, models)


LINE_LIMIT = MIB
BLOCK_BYTES = 16 * MIB  # of text; bounds memory where lines are long


async def read_ndjson(chunks: AsyncIterator[bytes]) -> TaskFile:
    """Return the tasks of an NDJSON body; its first line may be the header."""
    more = split_lines(chunks)
    lines: list[bytes] = await anext(more, [])
    header = Header()
    if lines and _is_header(lines[0]):
        header = decode(Header, lines[0], ("body", "header"))
        lines = lines[1:]

    return TaskFile(header, partial(_blocks_of_lines, lines, more))


def _is_header(line: bytes) -> bool:
    """Say whether a first line is the header: an object that says nothing about a task."""
    try:
        names = msgspec.json.decode(line, type=dict[str, msgspec.Raw]).keys()
    except (ValueError, RecursionError):
        return False  # it will be refused as a task
    return set() < names <= set(Header.__struct_fields__)


async def split_lines(chunks: AsyncIterator[bytes], *, longest: int = LINE_LIMIT) -> AsyncIterator[list[bytes]]:
    """Yield the lines that are not blank, some at a time. Raises PayloadTooLargeError: a line is too long."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        if max(map(len, [*lines, rest])) > longest:
            raise PayloadTooLargeError(f"a line is longer than {longest} bytes")
        if whole := [line for line in lines if line.strip()]:
            yield whole
    if rest.strip():
        yield [rest]


async def _blocks_of_lines(
    lines: list[bytes], more: AsyncIterator[list[bytes]], models: int
) -> AsyncIterator[TaskBlock]:
    """Yield blocks, each once it is large enough. more: brings what comes behind the first lines, some at a time."""
    first, size = 0, sum(map(len, lines))
    async for fresh in more:
        lines.extend(fresh)
        size += sum(map(len, fresh))
        if len(lines) >= BLOCK_TASKS or size >= BLOCK_BYTES:
            yield await asyncio.to_thread(_block_of_lines, lines, first, models)
            first, size = first + len(lines), 0
            lines = []
    if lines:
        yield await asyncio.to_thread(_block_of_lines, lines, first, models)


def _block_of_lines(lines: list[bytes], first: int, models: int) -> TaskBlock:
    tasks = [decode(TaskRequest, line, ("body", "tasks", place)) for place, line in enumerate(lines, first)]
    return _task_block(tasks, first, models)


_encoder = msgspec.json.Encoder()


def header_line(facts: DatasetFacts) -> bytes:
    """Return the first line of a dataset's tasks."""
    return _encoder.encode(Header(facts.reference_models, facts.description)) + b"\n"


def task_lines(block: TaskBlock) -> bytes:
    """Return the lines of some tasks, which `read_ndjson` reads. NaN is written as null."""
    return _encoder.encode_lines(map(TaskRequest, block.ids, block.references.tolist(), map(list, block.tags)))


# --- bodies -----------------------------------------------------------------------------------------------------------


def upload_of(request: Request) -> Body:
    """Return the body of a request that uploads tasks, as one JSON document or as NDJSON."""
    most = state_of(request.app).upload_bytes
    return Body(request, {JSON: min(DATASET_LIMIT, most), NDJSON: most})


async def read_tasks(body: Body) -> TaskFile:
    """Return the tasks of a body."""
    if body.media_type == NDJSON:
        return await read_ndjson(body.chunks())
    document = await asyncio.to_thread(decode, TasksRequest, await body.whole())
    return TaskFile(document, partial(_blocks_of_document, document.tasks))


async def read_more_tasks(body: Body, dataset: str) -> AsyncIterator[TaskBlock]:
    """Return the tasks of a body, in the form of those that a dataset has."""
    facts = (await services_of(body.request).store.datasets.get(dataset)).facts
    file = await read_tasks(body)
    named, known = file.header.reference_models, facts.reference_models  # what else is said is of where they come from
    if named is not None and named != known:
        flaw = Flaw(("body", "reference_models"), f"the dataset has {msgspec.json.encode(known).decode()}")
        InvalidTasksError.refuse("the tasks have other reference models", [flaw])
    return file.blocks(len(known))
