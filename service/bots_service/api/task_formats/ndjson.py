"""Tasks as NDJSON, one a line, read as they come."""

import asyncio
from collections.abc import AsyncIterator

import msgspec

from bots_service.api.bodies import MIB
from bots_service.api.decoding import decode
from bots_service.api.task_formats.blocks import BLOCK_TASKS, Header, TaskFile, TaskRequest, block_of
from bots_service.errors import PayloadTooLargeError
from bots_service.ports.records import TaskBlock

LINE_LIMIT = MIB
BLOCK_BYTES = 16 * MIB  # of text; bounds memory where lines are long

_TASK, _HEADER = msgspec.json.Decoder(TaskRequest), msgspec.json.Decoder(Header)


async def read_ndjson(chunks: AsyncIterator[bytes]) -> TaskFile:
    """Return the tasks of an NDJSON body; its first line may be the header.

    Raises:
        MalformedBodyError, InvalidInputError, PayloadTooLargeError: of the first line.
    """
    more = split_lines(chunks)
    lines: list[bytes] = await anext(more, [])
    header = Header()
    if lines and _is_header(lines[0]):
        header = decode(_HEADER, lines[0], ("body", "header"))
        lines = lines[1:]
    return TaskFile(header, lambda models: _blocks(lines, more, models))


def _is_header(line: bytes) -> bool:
    """Say whether a first line is the header: an object that says nothing about a task."""
    try:
        names = msgspec.json.decode(line, type=dict[str, msgspec.Raw]).keys()
    except (ValueError, RecursionError):
        return False  # it will be refused as a task
    return set() < names <= set(Header.__struct_fields__)


async def split_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """Yield the lines that are not blank, some at a time, wherever the chunks end.

    Raises:
        PayloadTooLargeError: a line is too long.
    """
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        _require_short([*lines, rest])
        if whole := _not_blank(lines):
            yield whole
    if last := _not_blank([rest]):
        yield last


def _not_blank(lines: list[bytes]) -> list[bytes]:
    return [line for line in lines if line and not line.isspace()]


def _require_short(lines: list[bytes]) -> None:
    if max(map(len, lines)) > LINE_LIMIT:
        raise PayloadTooLargeError(f"a line is longer than {LINE_LIMIT} bytes")


async def _blocks(lines: list[bytes], more: AsyncIterator[list[bytes]], models: int) -> AsyncIterator[TaskBlock]:
    """Yield blocks, each once it is large enough; `more` brings a network packet's lines at a time."""
    first, size = 0, sum(map(len, lines))
    async for fresh in more:
        lines.extend(fresh)
        size += sum(map(len, fresh))
        if len(lines) >= BLOCK_TASKS or size >= BLOCK_BYTES:
            yield await asyncio.to_thread(_block, lines, models, first)
            first, size = first + len(lines), 0
            lines = []
    if lines:
        yield await asyncio.to_thread(_block, lines, models, first)


def _block(lines: list[bytes], models: int, first: int) -> TaskBlock:
    tasks = [decode(_TASK, line, ("body", "tasks", place)) for place, line in enumerate(lines, first)]
    return block_of(tasks, models, first)
