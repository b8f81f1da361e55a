"""Uploads of tasks and of predictions, as a stream of blocks: from JSON, NDJSON (read line by line), or Parquet.

Parquet is spooled to a temporary file, because its index stands at the end, then read batch by batch.
"""

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sized
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from math import isnan, nan
from typing import Annotated, Any, BinaryIO, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Meta, Struct

from bots_service.api.requests import (
    DATASET_LIMIT,
    JSON,
    MIB,
    NDJSON,
    PARQUET,
    Body,
    decode,
    filled,
    services_of,
    state_of,
)
from bots_service.core.arrays import Floats
from bots_service.datasets import MAX_TAGS, DatasetHeader
from bots_service.errors import Flaw, InvalidTasksError, LimitReachedError, MalformedBodyError, PayloadTooLargeError
from bots_service.records import DatasetFacts, PredictionBlock, TaskBlock

Place = tuple[str | int, ...]  # in a request, for messages
BLOCK_TASKS = 65_536  # about 10 MB of tasks at work at a time
SHOWN_FLAWS = 20

# --- JSON and NDJSON --------------------------------------------------------------------------------------------------


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


Row = TypeVar("Row")
Block = TypeVar("Block", bound=Sized)


@dataclass(frozen=True, slots=True)
class TaskFile:
    """Tasks that stream in. blocks: yields them, given how many reference models there are."""

    header: Header
    blocks: Callable[[int], AsyncIterator[TaskBlock]]


def _task_block(tasks: list[TaskRequest], first: int, models: int) -> TaskBlock:
    """Return some consecutive tasks as a block. first: the place of the first task, for messages."""
    unknown = [nan] * models
    rows = [unknown if task.reference_pass_rates is None else task.reference_pass_rates for task in tasks]
    wrong = ((place, len(row)) for place, row in enumerate(rows, first) if len(row) != models)
    _refuse_lengths(wrong, models)
    references = np.array(rows, np.float64).reshape(len(tasks), models)  # None turns into NaN
    return TaskBlock([task.id for task in tasks], references, [_tidy(tuple(task.tags or ())) for task in tasks])


def _refuse_lengths(wrong: Iterable[tuple[int, int]], models: int) -> None:
    """Refuse tasks that have another number of pass rates. wrong: their places and numbers."""
    todo = "" if models else "; name the models in reference_models, or leave the pass rates out"
    flaws = (
        Flaw(_place(task, "reference_pass_rates"), f"{length} pass rates for {models} reference models{todo}")
        for task, length in wrong
    )
    _refuse("the number of reference pass rates is wrong", flaws)


def _refuse(message: str, flaws: Iterable[Flaw]) -> None:
    if shown := tuple(islice(flaws, SHOWN_FLAWS)):
        raise InvalidTasksError(message, shown)


def _place(task: int, *inside: str | int) -> Place:
    return ("body", "tasks", task, *inside)


@lru_cache(4096)  # few combinations occur, most of them often
def _tidy(tags: tuple[str, ...]) -> tuple[str, ...]:
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


async def _blocks_of_document(rows: list[Row], block_of: Callable[[list[Row], int], Block]) -> AsyncIterator[Block]:
    """Yield the rows of a JSON document as blocks. block_of: makes one of rows and the number of the first."""
    for first in range(0, len(rows), BLOCK_TASKS):
        yield await asyncio.to_thread(block_of, rows[first : first + BLOCK_TASKS], first)


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

    def block_of(lines: list[bytes], first: int, models: int) -> TaskBlock:
        tasks = [decode(TaskRequest, line, _place(place)) for place, line in enumerate(lines, first)]
        return _task_block(tasks, first, models)

    return TaskFile(header, lambda models: _blocks_of_lines(lines, more, partial(block_of, models=models)))


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
    return _encoder.encode_lines(map(TaskRequest, block.ids, rates, map(list, block.tags)))


# --- Parquet ----------------------------------------------------------------------------------------------------------

FOOTER_BYTES = 16 * MIB  # of metadata, which is read at once; 10,000 row groups of three columns take some 5 MiB
GROUP_VALUES = 2**25  # of a column in a row group: one task could hold them all, and 12 bytes each are read at once
GROUP_BYTES = 256 * MIB  # of a column in a row group once it is unpacked: all of it stands in memory at once
VALUES_PER_TASK = 256  # four times the reference models, eight times the tags that a task can have
BYTES_PER_TEXT = 2048  # an id has at most 256 characters of at most 4 bytes
SLACK_BYTES = MIB  # a row group of few tasks still has page headers and a dictionary


def _require_short_footer(spool: BinaryIO) -> None:
    size = spool.seek(0, os.SEEK_END)
    spool.seek(max(size - 8, 0))  # where the footer's length stands, before "PAR1"
    length = int.from_bytes(spool.read(4), "little")
    spool.seek(0)
    if FOOTER_BYTES < length < size:  # one that is longer than its file is broken, and pyarrow says so
        flaw = Flaw(("body", "metadata"), f"it has {length} bytes; at most {FOOTER_BYTES} are read")
        raise InvalidTasksError("the file has too many columns or row groups; write larger row groups", (flaw,))


def _require_bounded(spool: BinaryIO, metadata: Any, *, max_tasks: int) -> None:
    """Check that there are not too many tasks, and that no column holds more than its tasks can explain."""
    if metadata.num_rows > max_tasks:
        said = f"a dataset has at most {max_tasks} tasks (BOTS_MAX_TASKS); the file has {metadata.num_rows} rows"
        raise LimitReachedError(said)
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group)
        most_bytes = rows.num_rows * BYTES_PER_TEXT + SLACK_BYTES
        for place in range(rows.num_columns):
            column = rows.column(place)
            if column.num_values > rows.num_rows * VALUES_PER_TASK or column.total_uncompressed_size > most_bytes:
                raise _oversized(column.path_in_schema)
            if column.num_values > GROUP_VALUES or column.total_uncompressed_size > GROUP_BYTES:
                raise _oversized(column.path_in_schema, group)
    _require_short_texts(spool, metadata)


def _require_short_texts(spool: BinaryIO, metadata: Any) -> None:
    """Check the dictionaries of texts: each text stands there once, and the tasks repeat it."""
    columns = enumerate(metadata.schema.column(place) for place in range(metadata.num_columns))
    texts = {column.path: place for place, column in columns if column.physical_type == "BYTE_ARRAY"}
    file = pq.ParquetFile(spool, metadata=metadata, read_dictionary=list(texts))
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group)
        # No text is longer than its column, so small row groups need no look.
        large = [path for path, place in texts.items() if rows.column(place).total_uncompressed_size > BYTES_PER_TEXT]
        # The first row brings the row group's whole dictionary with it.
        for batch in file.iter_batches(batch_size=1, row_groups=[group], columns=large, use_threads=False):
            for path, column in zip(large, batch.columns, strict=True):
                longest = _longest_text(column)
                if longest > BYTES_PER_TEXT:  # longer than any id or tag may be
                    raise _oversized(path)
                if pa.types.is_nested(column.type) and rows.column(texts[path]).num_values * longest > GROUP_BYTES:
                    raise _oversized(path, group)  # one task could hold them all
            break


def _longest_text(column: Any) -> int:
    texts = column.values if pa.types.is_nested(column.type) else column
    if pa.types.is_dictionary(texts.type):
        texts = texts.dictionary
    return 0 if pa.types.is_null(texts.type) else pc.max(pc.binary_length(texts)).as_py() or 0


def _oversized(column: str, group: int | None = None) -> InvalidTasksError:
    """Return the refusal of a column that holds more than its tasks can, or too much in one row group."""
    message, said = "a row group is too large; write several smaller ones", f"it is too large in row group {group}"
    if group is None:
        message = "the file holds more than its tasks can explain"
        said = "it holds more than a column of this many tasks can"
    return InvalidTasksError(message, (Flaw(("body", "columns", column.partition(".")[0][:80]), said),))


Columns = dict[str, Any]  # name -> the type to which its values are cast
TASK_COLUMNS: Columns = {
    "id": pa.string(),
    "reference_pass_rates": pa.list_(pa.float64()),
    "tags": pa.list_(pa.string()),
}


def _fits(kind: Any, wanted: Any) -> bool:
    """Return whether values of a type can stand for those of the wanted one; nulls can stand for any."""
    types = pa.types
    if types.is_null(kind):
        return True
    if types.is_list(wanted):
        is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        return is_list and _fits(kind.value_type, wanted.value_type)
    if types.is_string(wanted):
        kind = kind.value_type if types.is_dictionary(kind) else kind
        return bool(types.is_string(kind) or types.is_large_string(kind))
    return bool(types.is_floating(kind) or types.is_integer(kind))


def _require_columns(schema: Any, columns: Columns, required: Iterable[str]) -> None:
    wrong = {name: "there is no such column" for name in required if name not in schema.names}
    for name, times in Counter(schema.names).items():
        if name not in columns:
            wrong[name] = f"unknown column; known: {', '.join(columns)}"
        elif times > 1:
            wrong[name] = "there are several columns of this name"
        elif not _fits(kind := schema.field(name).type, columns[name]):
            wrong[name] = f"it is {str(kind)[:80]}, not {columns[name]}"
    flaws = (Flaw(("body", "columns", name[:80]), said) for name, said in wrong.items())
    _refuse("the columns are not those of a dataset", flaws)


@asynccontextmanager
async def _spooled(
    chunks: AsyncIterator[bytes], columns: Columns, required: Iterable[str], *, max_tasks: int
) -> AsyncIterator[Any]:
    """Yield a Parquet body as a file; the temporary file is gone afterwards. columns: those that may be there."""
    pieces, size = list[bytes](), 0
    with tempfile.TemporaryFile() as spool:
        async for chunk in chunks:
            pieces.append(chunk)
            size += len(chunk)
            if size >= MIB:  # a switch to a thread for each network packet would cost more
                await asyncio.to_thread(spool.write, b"".join(pieces))
                pieces, size = [], 0
        await asyncio.to_thread(spool.write, b"".join(pieces))
        yield await asyncio.to_thread(_opened, spool, columns, required, max_tasks)


def _opened(spool: BinaryIO, columns: Columns, required: Iterable[str], max_tasks: int) -> Any:
    _require_short_footer(spool)
    try:
        metadata = pq.ParquetFile(spool).metadata
        _require_columns(metadata.schema.to_arrow_schema(), columns, required)
        _require_bounded(spool, metadata, max_tasks=max_tasks)
        # Without pre_buffer and with a small buffer_size, memory does not grow with the file's row groups.
        return pq.ParquetFile(spool, metadata=metadata, pre_buffer=False, buffer_size=MIB)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(error) from error


async def _blocks_of_file(file: Any, block_of: Callable[[Any, int], Block]) -> AsyncIterator[Block]:
    """Yield the rows of a file as blocks. block_of: makes one of a record batch and the number of its first row."""
    batches = file.iter_batches(batch_size=BLOCK_TASKS, use_threads=False)
    first = 0

    def next_block() -> Block | None:
        try:
            batch = next(batches, None)
            return None if batch is None else block_of(batch, first)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise _unreadable(error) from error

    while (block := await asyncio.to_thread(next_block)) is not None:
        yield block
        first += len(block)


def _task_block_of_batch(batch: Any, first: int, *, models: int) -> TaskBlock:
    columns = {name: batch.column(name).cast(TASK_COLUMNS[name]) for name in batch.schema.names}
    ids = _known_texts(columns["id"], "a task has no id", lambda place: _place(first + place, "id"))
    references = _references(columns.get("reference_pass_rates"), len(ids), models, first)
    return TaskBlock(ids, references, _tags(columns.get("tags"), len(ids), first))


def _known_texts(column: Any, refusal: str, where: Callable[[int], Place]) -> list[str]:
    """Return a column's texts once none of them is null."""
    if column.null_count:
        place = int(np.argmin(column.is_valid().to_numpy(zero_copy_only=False)))
        raise InvalidTasksError(refusal, (Flaw(where(place), "it is null"),))
    texts: list[str] = column.to_pylist()
    return texts


def _tags(column: Any, tasks: int, first: int) -> list[tuple[str, ...]]:
    if column is None:
        return [()] * tasks
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    # Before they become texts: one task could have millions.
    flaws = (
        Flaw(_place(first + task, "tags"), f"{int(lengths[task])} tags; at most {MAX_TAGS} are possible")
        for task in np.flatnonzero(lengths > MAX_TAGS).tolist()
    )
    _refuse("a task has too many tags", flaws)
    ends = np.cumsum(lengths)

    def where(place: int) -> Place:
        return _place(first + int(np.searchsorted(ends, place, side="right")), "tags")

    tags = iter(_known_texts(pc.list_flatten(column), "a tag is null", where))
    return [_tidy(tuple(islice(tags, length))) for length in lengths.tolist()]


def _references(column: Any, tasks: int, models: int, first: int) -> Floats:
    """Return [tasks, models] pass rates; a null list or a null in it is unknown, as NaN."""
    rows = np.full((tasks, models), np.nan)
    if column is None:
        return rows
    lengths = pc.list_value_length(column).fill_null(models).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(lengths != models).tolist()
    _refuse_lengths(((first + task, int(lengths[task])) for task in wrong), models)
    known, values = np.flatnonzero(column.is_valid()), pc.list_flatten(column)
    not_numbers = np.flatnonzero(pc.is_nan(values).fill_null(False)).tolist()
    places = ((first + int(known[place // models]), "reference_pass_rates", place % models) for place in not_numbers)
    flaws = (Flaw(_place(*place), "NaN; unknown is null") for place in places)
    _refuse("a reference pass rate is not a number", flaws)
    rows[known] = values.to_numpy(zero_copy_only=False).reshape(len(known), models)
    return rows


def _unreadable(error: Exception) -> MalformedBodyError:
    return MalformedBodyError(f"the Parquet file can't be read: {str(error)[:200]}")


# --- bodies of tasks --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """Limits of uploads. max_bytes: of an NDJSON or Parquet body; max_tasks: of a dataset."""

    max_bytes: int
    max_tasks: int

    @property
    def by_media_type(self) -> dict[str, int]:
        """Maximum size of a body of tasks, in bytes, by media type."""
        return {JSON: min(DATASET_LIMIT, self.max_bytes), NDJSON: self.max_bytes, PARQUET: self.max_bytes}


@asynccontextmanager
async def open_tasks(body: Body, *, append: bool = False) -> AsyncIterator[TaskFile]:
    """Yield the tasks of a body in one of the media types of `UploadLimits`. append: whether a dataset has others."""
    if body.media_type == JSON:
        kind: type[AppendRequest] | type[DatasetRequest] = AppendRequest if append else DatasetRequest
        document = await asyncio.to_thread(decode, kind, await body.whole())
        header = filled(Header, document) if isinstance(document, Header) else Header()
        yield TaskFile(header, lambda models: _blocks_of_document(document.tasks, partial(_task_block, models=models)))
    elif body.media_type == NDJSON:
        yield await read_ndjson(body.chunks())
    else:
        most = state_of(body.request.app).uploads.max_tasks
        async with _spooled(body.chunks(), TASK_COLUMNS, ["id"], max_tasks=most) as file:
            yield TaskFile(Header(), lambda models: _blocks_of_file(file, partial(_task_block_of_batch, models=models)))


@asynccontextmanager
async def open_more_tasks(body: Body, dataset: str) -> AsyncIterator[AsyncIterator[TaskBlock]]:
    """Yield the tasks of a body, in the form of those that a dataset has."""
    models = (await services_of(body.request).store.datasets.get(dataset)).facts.reference_models
    async with open_tasks(body, append=True) as file:
        if file.header.reference_models not in (None, models):
            flaw = Flaw(("body", "reference_models"), f"the dataset's are {', '.join(models) or 'none'}"[:200])
            raise InvalidTasksError("the tasks have other reference models", (flaw,))
        yield file.blocks(len(models))


def header_of(file: Header, said: Header) -> DatasetHeader:
    """Return the dataset's fields from the body and the query, which is for bodies that can't contain them."""
    flaws = []
    if said.reference_models and file.reference_models not in (None, said.reference_models):
        flaws.append(Flaw(("query", "reference_model"), "the body names other reference models"))
    if said.description is not None and file.description not in (None, said.description):
        flaws.append(Flaw(("query", "description"), "the body gives another description"))
    if said.repeatable is not None and file.repeatable not in (None, said.repeatable):
        flaws.append(Flaw(("query", "repeatable"), f"the body says {str(file.repeatable).lower()}"))
    _refuse("query and body contradict each other", flaws)
    return DatasetHeader(
        file.reference_models or said.reference_models or (),
        file.description or said.description or "",
        bool(file.repeatable or said.repeatable),
    )


# --- predictions -----------------------------------------------------------------------------------------------------

COLUMNS: Columns = {"id": pa.string(), "pass_rate": pa.float64()}


class PredictionRequest(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """What is predicted of a task.

    id: the task's id.
    pass_rate: the predicted pass rate, from 0 to 1; null where it is not known.
    """

    # gc=False: values without cycles, in numbers that would keep Python's collector busy.

    id: str
    pass_rate: float | None


class PredictionsRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Predictions of tasks.

    predictions: one for each task; tasks that are left out have none.
    """

    predictions: list[PredictionRequest]


@asynccontextmanager
async def open_predictions(body: Body) -> AsyncIterator[AsyncIterator[PredictionBlock]]:
    """Yield the predictions of a body as blocks."""
    if body.media_type == JSON:
        document = await asyncio.to_thread(decode, PredictionsRequest, await body.whole())
        yield _blocks_of_document(document.predictions, _predictions)
    elif body.media_type == NDJSON:
        yield _blocks_of_lines([], split_lines(body.chunks()), _predictions_of_lines)
    else:
        most = state_of(body.request.app).uploads.max_tasks
        async with _spooled(body.chunks(), COLUMNS, COLUMNS, max_tasks=most) as file:
            yield _blocks_of_file(file, _predictions_of_batch)


def _predictions_of_lines(lines: list[bytes], first: int) -> PredictionBlock:
    rows = [decode(PredictionRequest, line, ("body", "predictions", row)) for row, line in enumerate(lines, first)]
    return _predictions(rows, first)


def _predictions(rows: list[PredictionRequest], _first: int) -> PredictionBlock:
    rates = np.array([nan if row.pass_rate is None else row.pass_rate for row in rows], np.float64)
    return PredictionBlock([row.id for row in rows], rates)


def _predictions_of_batch(batch: Any, first: int) -> PredictionBlock:
    ids, rates = (batch.column(name).cast(kind) for name, kind in COLUMNS.items())
    texts = _known_texts(ids, "a prediction has no id", lambda row: ("body", "predictions", first + row, "id"))
    return PredictionBlock(texts, rates.to_numpy(zero_copy_only=False))  # null turns into NaN
