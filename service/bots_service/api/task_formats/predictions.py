"""Predictions as JSON, NDJSON and Parquet: an id and a pass rate for each task."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import nan
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct

from bots_service.api.bodies import JSON, Body
from bots_service.api.decoding import decode
from bots_service.api.task_formats.parquet import (
    Columns,
    blocks_of_file,
    is_number,
    is_text,
    known_texts,
    open_spooled,
    require_short,
)
from bots_service.api.task_formats.text import blocks_of_document, blocks_of_lines, split_lines
from bots_service.records import PredictionBlock

COLUMNS: Columns = {"id": ("string", is_text), "pass_rate": ("double", is_number)}


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


_ONE, _ALL = msgspec.json.Decoder(PredictionRequest), msgspec.json.Decoder(PredictionsRequest)


@asynccontextmanager
async def open_predictions(body: Body, *, ndjson: str, max_tasks: int) -> AsyncIterator[AsyncIterator[PredictionBlock]]:
    """Yield the predictions of a body as blocks.

    Args:
        body: JSON, NDJSON or Parquet.
        ndjson: the media type of NDJSON.
        max_tasks: of a dataset.

    Raises:
        MalformedBodyError, InvalidInputError, PayloadTooLargeError: it can't be read, or is of another shape.
        LimitReachedError: a file has more rows.
    """
    if body.media_type == JSON:
        document = await asyncio.to_thread(decode, _ALL, await body.whole())
        yield blocks_of_document(document.predictions, _block)
    elif body.media_type == ndjson:
        yield blocks_of_lines([], split_lines(body.chunks()), _block_of_lines)
    else:
        async with open_spooled(body.chunks(), COLUMNS, COLUMNS, max_tasks=max_tasks) as file:
            yield blocks_of_file(file, _block_of_batch)


def _block_of_lines(lines: list[bytes], first: int) -> PredictionBlock:
    return _block([decode(_ONE, line, ("body", "predictions", row)) for row, line in enumerate(lines, first)], first)


def _block(rows: list[PredictionRequest], _first: int) -> PredictionBlock:
    rates = np.array([nan if row.pass_rate is None else row.pass_rate for row in rows], np.float64)
    return PredictionBlock([row.id for row in rows], rates)


def _block_of_batch(batch: Any, first: int) -> PredictionBlock:
    ids, rates = batch.column("id"), batch.column("pass_rate")
    require_short("id", ids)
    texts = known_texts(ids, "a prediction has no id", lambda row: ("body", "predictions", first + row, "id"))
    numbers = rates.cast(pa.float64()).to_numpy(zero_copy_only=False)  # null turns into NaN
    return PredictionBlock(texts, numbers)
