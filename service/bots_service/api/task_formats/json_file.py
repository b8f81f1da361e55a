"""Tasks as one JSON document, read as a whole."""

import asyncio
from collections.abc import AsyncIterator

import msgspec

from bots_service.api.bodies import Body
from bots_service.api.decoding import decode
from bots_service.api.task_formats.blocks import BLOCK_TASKS, Header, TaskFile, TaskRequest, block_of
from bots_service.ports.records import TaskBlock


class DatasetRequest(Header, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A dataset: its tasks, and the models that their reference pass rates are of."""

    tasks: list[TaskRequest]


class AppendRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tasks to append."""

    tasks: list[TaskRequest]


_DATASET, _APPEND = msgspec.json.Decoder(DatasetRequest), msgspec.json.Decoder(AppendRequest)


async def read_json(body: Body, *, append: bool) -> TaskFile:
    """Return the tasks of a JSON body.

    Args:
        body: the body.
        append: whether they are appended, so that nothing else may be said.

    Raises:
        MalformedBodyError, InvalidInputError: it is not JSON, or of another shape.
    """
    text = await body.whole()
    if append:
        appended = await asyncio.to_thread(decode, _APPEND, text)
        return TaskFile(Header(), lambda models: _blocks(appended.tasks, models))
    dataset = await asyncio.to_thread(decode, _DATASET, text)
    header = Header(dataset.reference_models, dataset.description)
    return TaskFile(header, lambda models: _blocks(dataset.tasks, models))


async def _blocks(tasks: list[TaskRequest], models: int) -> AsyncIterator[TaskBlock]:
    for first in range(0, len(tasks), BLOCK_TASKS):
        yield await asyncio.to_thread(block_of, tasks[first : first + BLOCK_TASKS], models, first)
