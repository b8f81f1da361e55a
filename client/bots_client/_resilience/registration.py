"""Registration of a trainer's tasks in a dataset."""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bots_client._admin_models import Dataset
from bots_client._calls import dataset_calls, run_calls
from bots_client._errors import ConflictError, NotFoundError
from bots_client._inputs import Task
from bots_client._models import Run
from bots_client._resilience.connection import Connection

MAX_EXCLUDED = 100_000  # ids; the service's limit for one selection
BATCH_TASKS = 10_000  # appended per request
CALL_S = 10.0  # a page of a thousand tasks takes about 30 ms
UPLOAD_S = 600.0  # a million tasks take about 10 s

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
    """What a trainer trains on: the ids of the dataset's other tasks, and settings of dataset and run."""

    others: list[str]
    generators: bool
    reward_range: tuple[float, float]


def register(connection: Connection, dataset: str, run: str, wanted: Registration) -> Registered:
    """Add a trainer's tasks to a dataset, and give the run its reward range.

    Creates the dataset and the run if they don't exist.

    Raises:
        ValueError: the dataset has none of these tasks, or more others than a selection can exclude.
        BotsClientError: a call failed.
    """
    found, is_new = _found_or_created(connection, dataset, wanted.ids)
    others = [] if is_new else _add_missing(connection, dataset, wanted.ids)
    settings = _run(connection, dataset, run, wanted.reward_range).settings
    return Registered(others, found.generators, settings.reward_range)


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


def _found_or_created(connection: Connection, dataset: str, ids: Sequence[str]) -> tuple[Dataset, bool]:
    """Return the dataset, and whether it didn't exist and was created."""
    try:
        return connection.ask(dataset_calls.dataset(dataset), CALL_S), False
    except NotFoundError:
        upload = dataset_calls.upload_dataset(dataset, lambda: _lines(ids), media_type="application/x-ndjson")
        try:
            created = connection.ask(upload, UPLOAD_S)
        except ConflictError:  # another process of this job created it first
            return connection.ask(dataset_calls.dataset(dataset), CALL_S), False
        logger.warning("created dataset %s with the trainer's %d tasks: it did not exist", dataset, len(ids))
        return created, True


def _add_missing(connection: Connection, dataset: str, ids: Sequence[str]) -> list[str]:
    """Append the tasks that the dataset does not have; return its tasks that the trainer does not have."""
    held = dict.fromkeys(_ids_in(connection, dataset))
    own = frozenset(ids)
    others = [task for task in held if task not in own]
    missing = [task for task in ids if task not in held]
    if held and len(missing) == len(ids):
        raise ValueError(
            f"dataset {dataset!r} has none of the trainer's {len(ids)} tasks: its ids look like {others[0]!r}, the"
            f" trainer's like {ids[0]!r}. Use another dataset, or build both ids from the same columns"
        )
    if len(others) > MAX_EXCLUDED:
        raise ValueError(
            f"dataset {dataset!r} has {len(others)} tasks that the trainer does not have; a selection can exclude at"
            f" most {MAX_EXCLUDED}. Use a dataset of this trainer's own: a new name creates it"
        )
    if missing:
        _append(connection, dataset, missing)
    if others:
        logger.warning(
            "dataset %s has %d tasks that are not among the trainer's %d, such as %r: this trainer excludes them",
            dataset,
            len(others),
            len(ids),
            others[0],
        )
    return others


def _append(connection: Connection, dataset: str, missing: Sequence[str]) -> None:
    added, conflict = 0, None
    for begin in range(0, len(missing), BATCH_TASKS):
        part = missing[begin : begin + BATCH_TASKS]
        try:
            connection.ask(dataset_calls.append_tasks(dataset, map(Task, part)), UPLOAD_S)
            added += len(part)
        except ConflictError as error:  # some are retired, or another process of this job appended them first
            conflict = error
    if added:
        logger.warning("added %d of the trainer's tasks to dataset %s", added, dataset)
    held = frozenset(_ids_in(connection, dataset)) if conflict else frozenset(missing)
    left_out = [task for task in missing if task not in held]
    if left_out:
        logger.warning(
            "%d of the trainer's tasks, such as %r, could not be added to dataset %s and will never be selected: %s",
            len(left_out),
            left_out[0],
            dataset,
            conflict,
        )


def _ids_in(connection: Connection, dataset: str) -> Iterator[str]:
    pages = run_calls.tasks(dataset)
    while pages.next_call is not None:
        yield from (task.id for task in pages.take(connection.ask(pages.next_call, CALL_S)))


def _lines(ids: Sequence[str]) -> Iterator[bytes]:
    for begin in range(0, len(ids), BATCH_TASKS):
        yield b"".join(json.dumps({"id": task}).encode() + b"\n" for task in ids[begin : begin + BATCH_TASKS])
