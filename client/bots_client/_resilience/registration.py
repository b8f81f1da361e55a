"""Registration of a trainer's tasks in a dataset."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from json.encoder import encode_basestring_ascii
from typing import TypeVar

from bots_client._client import Client
from bots_client._errors import ConflictError, NotFoundError
from bots_client._http import NDJSON
from bots_client._models import Dataset, Run
from bots_client._resilience.connection import Connection

T = TypeVar("T")

CALL_S = 10.0
UPLOAD_S = 600.0  # a million tasks take about 10 s
PROGRESS_S = 5.0  # between two lines about how far an upload is
CHUNK_TASKS = 10_000  # of an upload
ATTEMPTS = 5  # to add tasks while other processes of the job do the same

logger = logging.getLogger("bots_client")


@dataclass(frozen=True, slots=True)
class Registration:
    """What a trainer registers.

    ids: of all its tasks.
    reward_range: for the run; None: it keeps its own, which is [0, 1] for a new one.
    """

    ids: Sequence[str]
    reward_range: tuple[float, float] | None


def register(connection: Connection, name: str, run: str, wanted: Registration) -> tuple[Dataset, str, Run]:
    """Make a trainer's tasks a subset of a dataset, which gets the missing ones, and give the run its reward range.

    Creates the dataset and the run if they don't exist.

    Returns:
        The dataset as it was found, the name of the subset, and the run.

    Raises:
        ValueError: the dataset has none of these tasks.
        BotsClientError: a call failed.
    """
    ask, ids = connection.ask, wanted.ids
    dataset = _found_or_made(
        f"dataset {name} with the trainer's {len(ids)} tasks",
        lambda: ask(lambda bots: bots.dataset(name), CALL_S),
        lambda: ask(_upload(Client.create_dataset, name, ids, f"creating dataset {name}"), UPLOAD_S),
    )
    subset = _subset(connection, name, ids)
    found = _found_or_made(
        f"run {run} of dataset {name} with default settings",
        lambda: ask(lambda bots: bots.run(name, run), CALL_S),
        lambda: ask(lambda bots: bots.create_run(name, run), CALL_S),
    )
    before, after = found.settings.reward_range, wanted.reward_range
    if after is not None and after != before:
        logger.warning("changed the reward range of run %s of dataset %s from %s to %s", run, name, before, after)
        found = ask(lambda bots: bots.update_run(name, run, reward_range=after), CALL_S)
    return dataset, subset, found


def _found_or_made(what: str, find: Callable[[], T], make: Callable[[], T]) -> T:
    try:
        return find()
    except NotFoundError:
        try:
            made = make()
        except ConflictError:  # another process of this job made it first
            return find()
    logger.warning("created %s: it did not exist", what)
    return made


def _subset(connection: Connection, name: str, ids: Sequence[str]) -> str:
    """Return the name of the subset of these tasks, once the dataset has all of them."""
    ask = connection.ask
    for _ in range(ATTEMPTS):
        made = ask(_upload(Client.make_subset, name, ids, f"registering with dataset {name}"), UPLOAD_S)
        if made.subset is not None:
            if made.others:
                text = "dataset %s has %d tasks that are not among the trainer's %d: they are not selected here"
                logger.warning(text, name, made.others, len(ids))
            if made.retired:
                text = "%d of the trainer's tasks are retired from dataset %s: they are not selected"
                logger.warning(text, made.retired, name)
            return made.subset
        if not made.tasks:
            first = ask(lambda bots: next(bots.tasks(name, limit=1), None), CALL_S)
            look = "its tasks are all retired;" if first is None else f"its ids look like {first.id!r},"
            raise ValueError(
                f"dataset {name!r} has none of the trainer's {len(ids)} tasks: {look} the trainer's like {ids[0]!r}."
                " Use another dataset, or build both ids from the same columns"
            )
        missing = [ids[place] for place in made.missing]
        try:
            ask(_upload(Client.append_tasks, name, missing, f"adding tasks to dataset {name}"), UPLOAD_S)
        except ConflictError:  # another process of this job added some of them first, and others may be missing
            continue
        logger.warning("added %d of the trainer's tasks to dataset %s", len(missing), name)
    raise ConflictError(f"dataset {name!r} does not have tasks that were added to it: it was deleted meanwhile")


def _upload(call: Callable[..., T], name: str, ids: Sequence[str], doing: str) -> Callable[[Client], T]:
    """Return the question that uploads tasks by a call of the client."""
    return lambda bots: call(bots, name, partial(_lines, ids, doing), media_type=NDJSON)


def _lines(ids: Sequence[str], doing: str) -> Iterator[bytes]:
    """Yield tasks as chunks of NDJSON; a line in the log says now and then how far the upload is."""
    said_at = time.monotonic()
    for begin in range(0, len(ids), CHUNK_TASKS):
        if time.monotonic() - said_at >= PROGRESS_S:
            said_at = time.monotonic()
            logger.warning("%s: sent %d of %d tasks", doing, begin, len(ids))
        part = ids[begin : begin + CHUNK_TASKS]
        yield "".join([f'{{"id":{encode_basestring_ascii(task)}}}\n' for task in part]).encode()
