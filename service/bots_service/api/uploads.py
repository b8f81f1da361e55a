"""Uploads of tasks and of predictions: a stream of blocks from any supported format."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from math import nan
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from bots_service.api.decoding import decode
from bots_service.api.requests import DATASET_LIMIT, JSON, NDJSON, PARQUET, Body, services_of, state_of
from bots_service.api.responses import filled
from bots_service.api.task_formats.parquet import (
    TASK_COLUMNS,
    Columns,
    block_of_batch,
    blocks_of_file,
    known_texts,
    open_spooled,
)
from bots_service.api.task_formats.text import (
    AppendRequest,
    DatasetRequest,
    Header,
    TaskFile,
    block_of,
    blocks_of_document,
    blocks_of_lines,
    read_ndjson,
    split_lines,
)
from bots_service.datasets import DatasetHeader
from bots_service.errors import Flaw, InvalidTasksError
from bots_service.records import PredictionBlock, TaskBlock


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
        yield TaskFile(header, lambda models: blocks_of_document(document.tasks, partial(block_of, models=models)))
    elif body.media_type == NDJSON:
        yield await read_ndjson(body.chunks())
    else:
        most = state_of(body.request.app).uploads.max_tasks
        async with open_spooled(body.chunks(), TASK_COLUMNS, ["id"], max_tasks=most) as file:
            yield TaskFile(Header(), lambda models: blocks_of_file(file, partial(block_of_batch, models=models)))


@asynccontextmanager
async def open_more_tasks(body: Body, dataset: str) -> AsyncIterator[AsyncIterator[TaskBlock]]:
    """Yield the tasks of a body, in the form of those that a dataset has.

    Raises:
        InvalidTasksError: they have other reference models.
    """
    models = (await services_of(body.request).store.datasets.get(dataset)).facts.reference_models
    async with open_tasks(body, append=True) as file:
        if file.header.reference_models not in (None, models):
            flaw = Flaw(("body", "reference_models"), f"the dataset's are {', '.join(models) or 'none'}"[:200])
            raise InvalidTasksError("the tasks have other reference models", (flaw,))
        yield file.blocks(len(models))


def header_of(file: Header, said: Header) -> DatasetHeader:
    """Return the dataset's fields from the body and the query, which is for bodies that can't contain them.

    Raises:
        InvalidTasksError: they contradict each other.
    """
    flaws = []
    if said.reference_models and file.reference_models not in (None, said.reference_models):
        flaws.append(Flaw(("query", "reference_model"), "the body names other reference models"))
    if said.description is not None and file.description not in (None, said.description):
        flaws.append(Flaw(("query", "description"), "the body gives another description"))
    if said.repeatable is not None and file.repeatable not in (None, said.repeatable):
        flaws.append(Flaw(("query", "repeatable"), f"the body says {str(file.repeatable).lower()}"))
    if flaws:
        raise InvalidTasksError("query and body contradict each other", tuple(flaws))
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
    """Yield the predictions of a body as blocks.

    Raises:
        MalformedBodyError, InvalidInputError, PayloadTooLargeError: it can't be read, or is of another shape.
        LimitReachedError: a file has more rows than a dataset may have tasks.
    """
    if body.media_type == JSON:
        document = await asyncio.to_thread(decode, PredictionsRequest, await body.whole())
        yield blocks_of_document(document.predictions, _block)
    elif body.media_type == NDJSON:
        yield blocks_of_lines([], split_lines(body.chunks()), _block_of_lines)
    else:
        most = state_of(body.request.app).uploads.max_tasks
        async with open_spooled(body.chunks(), COLUMNS, COLUMNS, max_tasks=most) as file:
            yield blocks_of_file(file, _block_of_batch)


def _block_of_lines(lines: list[bytes], first: int) -> PredictionBlock:
    rows = [decode(PredictionRequest, line, ("body", "predictions", row)) for row, line in enumerate(lines, first)]
    return _block(rows, first)


def _block(rows: list[PredictionRequest], _first: int) -> PredictionBlock:
    rates = np.array([nan if row.pass_rate is None else row.pass_rate for row in rows], np.float64)
    return PredictionBlock([row.id for row in rows], rates)


def _block_of_batch(batch: Any, first: int) -> PredictionBlock:
    ids, rates = (batch.column(name).cast(kind) for name, kind in COLUMNS.items())
    texts = known_texts(ids, "a prediction has no id", lambda row: ("body", "predictions", first + row, "id"))
    return PredictionBlock(texts, rates.to_numpy(zero_copy_only=False))  # null turns into NaN
