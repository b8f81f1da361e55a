"""Registration of a trainer's tasks in a dataset."""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii

from bots_client._admin_models import Dataset, Subset
from bots_client._calls import dataset_calls, run_calls
from bots_client._errors import ConflictError, NotFoundError
from bots_client._models import Run
from bots_client._resilience.connection import Connection

CALL_S = 10.0
UPLOAD_S = 600.0  # a million tasks take about 10 s
PROGRESS_S = 5.0  # between two lines about how far an upload is
CHUNK_TASKS = 10_000  # of an upload
ATTEMPTS = 5  # to add tasks while other processes of the job do the same
NDJSON = "application/x-ndjson"

logger = logging.getLogger("bots_client")


@dataclass(frozen=True, slots=True)
class Registration:
    """What a trainer registers.

    ids: of all its tasks.
    reward_range: for the run; None: it keeps its own, which is [0, 1] for a new one.
    """

    ids: Sequence[str]
    reward_range: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Registered:
    """What a trainer trains on: the name of the subset of its tasks, and settings of dataset and run."""

    subset: str
    repeatable: bool
    reward_range: tuple[float, float]


def register(connection: Connection, dataset: str, run: str, wanted: Registration) -> Registered:
    """Add a trainer's tasks to a dataset, make them a subset of it, and give the run its reward range.

    Creates the dataset and the run if they don't exist.

    Raises:
        ValueError: the dataset has none of these tasks.
        BotsClientError: a call failed.
    """
    found = _found_or_created(connection, dataset, wanted.ids)
    subset = _subset(connection, dataset, wanted.ids)
    settings = _run(connection, dataset, run, wanted.reward_range).settings
    return Registered(subset, found.repeatable, settings.reward_range)


def _run(connection: Connection, dataset: str, run: str, reward_range: tuple[float, float] | None) -> Run:
    """Return the run with the wanted reward range; create it if it doesn't exist."""
    try:
        found = connection.ask(run_calls.run(dataset, run), CALL_S)
    except NotFoundError:
        try:
            found = connection.ask(run_calls.create_run(dataset, run), CALL_S)
        except ConflictError:  # another process of this job created it first
            found = connection.ask(run_calls.run(dataset, run), CALL_S)
        else:
            logger.warning("created run %s of dataset %s with default settings: it did not exist", run, dataset)
    before = found.settings.reward_range
    if reward_range is None or before == reward_range:
        return found
    logger.warning("changed the reward range of run %s of dataset %s from %s to %s", run, dataset, before, reward_range)
    return connection.ask(run_calls.update_run(dataset, run, reward_range=reward_range), CALL_S)


def _found_or_created(connection: Connection, dataset: str, ids: Sequence[str]) -> Dataset:
    """Return the dataset; create it with these tasks if it doesn't exist."""
    try:
        return connection.ask(dataset_calls.dataset(dataset), CALL_S)
    except NotFoundError:
        lines = _Lines(ids, f"creating dataset {dataset}")
        try:
            created = connection.ask(dataset_calls.upload_dataset(dataset, lines, media_type=NDJSON), UPLOAD_S)
        except ConflictError:  # another process of this job created it first
            return connection.ask(dataset_calls.dataset(dataset), CALL_S)
        logger.warning("created dataset %s with the trainer's %d tasks: it did not exist", dataset, len(ids))
        return created


def _subset(connection: Connection, dataset: str, ids: Sequence[str]) -> str:
    """Return the name of the subset of these tasks, once the dataset has all of them."""
    for _ in range(ATTEMPTS):
        lines = _Lines(ids, f"registering with dataset {dataset}")
        made = connection.ask(dataset_calls.make_subset(dataset, lines, media_type=NDJSON), UPLOAD_S)
        if made.subset is not None:
            _log_left_out(made, len(ids))
            return made.subset
        if not made.tasks:
            raise ValueError(
                f"dataset {dataset!r} has none of the trainer's {len(ids)} tasks: {_ids_look(connection, dataset)} the"
                f" trainer's like {ids[0]!r}. Use another dataset, or build both ids from the same columns"
            )
        _add(connection, dataset, [ids[place] for place in made.missing])
    raise ConflictError(f"dataset {dataset!r} does not have tasks that were added to it: it was deleted meanwhile")


def _add(connection: Connection, dataset: str, missing: Sequence[str]) -> None:
    lines = _Lines(missing, f"adding tasks to dataset {dataset}")
    try:
        connection.ask(dataset_calls.upload_tasks(dataset, lines, media_type=NDJSON), UPLOAD_S)
    except ConflictError:  # another process of this job added some of them first, and others may be missing
        return
    logger.warning("added %d of the trainer's tasks to dataset %s", len(missing), dataset)


def _log_left_out(made: Subset, count: int) -> None:
    if made.others:
        logger.warning(
            "dataset %s has %d tasks that are not among the trainer's %d: they are not selected here",
            made.dataset,
            made.others,
            count,
        )
    if made.retired:
        logger.warning(
            "%d of the trainer's tasks are retired from dataset %s: they are not selected", made.retired, made.dataset
        )


def _ids_look(connection: Connection, dataset: str) -> str:
    pages = run_calls.tasks(dataset, limit=1)
    page = () if pages.next_call is None else pages.take(connection.ask(pages.next_call, CALL_S))
    return f"its ids look like {page[0].id!r}," if page else "its tasks are all retired;"


class _Lines:
    """Tasks as chunks of NDJSON; a line in the log says now and then how far the upload is."""

    def __init__(self, ids: Sequence[str], doing: str) -> None:
        self._ids = ids
        self._doing = doing

    def __call__(self) -> Iterator[bytes]:
        said_at = time.monotonic()
        for begin in range(0, len(self._ids), CHUNK_TASKS):
            if time.monotonic() - said_at >= PROGRESS_S:
                said_at = time.monotonic()
                logger.warning("%s: sent %d of %d tasks", self._doing, begin, len(self._ids))
            part = self._ids[begin : begin + CHUNK_TASKS]
            yield "".join([f'{{"id":{encode_basestring_ascii(task)}}}\n' for task in part]).encode()
