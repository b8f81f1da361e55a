"""Uploads of tasks: a stream of blocks from any supported format."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from bots_service.api.bodies import DATASET_LIMIT, JSON, Body
from bots_service.api.task_formats.parquet import open_parquet
from bots_service.api.task_formats.text import Header, TaskFile, read_json, read_ndjson
from bots_service.dataset_builder import DatasetHeader
from bots_service.errors import Flaw, InvalidTasksError

NDJSON = "application/x-ndjson"
PARQUET = "application/vnd.apache.parquet"


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
async def open_tasks(body: Body, *, max_tasks: int, append: bool = False) -> AsyncIterator[TaskFile]:
    """Yield the tasks of a body.

    Args:
        body: one of the media types in `UploadLimits.by_media_type`.
        max_tasks: of a dataset.
        append: whether the tasks are appended to a dataset.
    """
    async with AsyncExitStack() as stack:
        if body.media_type == JSON:
            yield await read_json(body, append=append)
        elif body.media_type == NDJSON:
            yield await read_ndjson(body.chunks())
        else:
            yield await stack.enter_async_context(open_parquet(body.chunks(), max_tasks=max_tasks))


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


def require_models(file: Header, models: tuple[str, ...]) -> None:
    """Check that appended tasks have the dataset's reference models.

    Raises:
        InvalidTasksError: they have others.
    """
    if file.reference_models not in (None, models):
        flaw = Flaw(("body", "reference_models"), f"the dataset's are {', '.join(models) or 'none'}"[:200])
        raise InvalidTasksError("the tasks have other reference models", (flaw,))
