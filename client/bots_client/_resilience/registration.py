"""Making a dataset hold the tasks that a trainer has."""

import json
import logging
from collections.abc import Iterator, Sequence

from bots_client._calls import dataset_calls, run_calls
from bots_client._errors import ConflictError, NotFoundError
from bots_client._inputs import Task
from bots_client._resilience.connection import Connection

MOST_EXCLUDED = 100_000  # ids that the service lets a selection exclude
AT_A_TIME = 10_000  # tasks that are appended by one request
CALL_S = 10.0  # a page of a thousand tasks takes some 30 ms
UPLOAD_S = 600.0  # a million tasks take about 10 s

logger = logging.getLogger("bots_client")


def register(connection: Connection, dataset: str, run: str, ids: Sequence[str]) -> list[str]:
    """Make a dataset hold a trainer's tasks, and return its other tasks: those that the trainer lacks.

    Dataset and run are made where they are missing.

    Raises:
        ValueError: the dataset has other tasks only, or more others than a selection can exclude.
        BotsClientError: the service is away, or refuses.
    """
    others = [] if _made(connection, dataset, ids) else _completed(connection, dataset, ids)
    try:
        connection.ask(run_calls.run(dataset, run), CALL_S)
    except NotFoundError:
        try:
            connection.ask(run_calls.create_run(dataset, run), CALL_S)
        except ConflictError:  # another process of this job was quicker
            return others
        logger.warning("run %s of dataset %s did not exist: it was made, with default settings", run, dataset)
    return others


def _made(connection: Connection, dataset: str, ids: Sequence[str]) -> bool:
    """Make the dataset, if it is missing; say whether that was so."""
    try:
        connection.ask(dataset_calls.dataset(dataset), CALL_S)
    except NotFoundError:
        upload = dataset_calls.upload_dataset(dataset, lambda: _lines(ids), media_type="application/x-ndjson")
        try:
            connection.ask(upload, UPLOAD_S)
        except ConflictError:
            return False
        logger.warning("dataset %s did not exist: it was made of the trainer's %d tasks", dataset, len(ids))
        return True
    return False


def _completed(connection: Connection, dataset: str, ids: Sequence[str]) -> list[str]:
    """Add what the dataset lacks; return what the trainer lacks."""
    held = dict.fromkeys(_held(connection, dataset))
    own = frozenset(ids)
    others = [task for task in held if task not in own]
    missing = [task for task in ids if task not in held]
    if held and len(missing) == len(ids):
        raise ValueError(
            f"dataset {dataset!r} has none of the trainer's {len(ids)} tasks: its ids are such as {others[0]!r}, the"
            f" trainer's such as {ids[0]!r}. Name another dataset, or make both ids of the same columns"
        )
    if len(others) > MOST_EXCLUDED:
        raise ValueError(
            f"dataset {dataset!r} has {len(held)} tasks, of which the trainer lacks {len(others)}; at most"
            f" {MOST_EXCLUDED} can be kept from a selection. Name a dataset of this trainer's own: it is made for you"
        )
    if missing:
        _add(connection, dataset, missing)
    if others:
        logger.warning(
            "dataset %s has %d tasks that are not among the trainer's %d, such as %r: they are not selected here",
            dataset,
            len(others),
            len(ids),
            others[0],
        )
    return others


def _add(connection: Connection, dataset: str, missing: Sequence[str]) -> None:
    added, conflict = 0, None
    for begin in range(0, len(missing), AT_A_TIME):
        part = missing[begin : begin + AT_A_TIME]
        try:
            connection.ask(dataset_calls.append_tasks(dataset, map(Task, part)), UPLOAD_S)
            added += len(part)
        except ConflictError as error:  # some are retired, or another process of this job was quicker
            conflict = error
    if added:
        logger.warning("%d of the trainer's tasks were added to dataset %s", added, dataset)
    held = frozenset(_held(connection, dataset)) if conflict else frozenset(missing)
    left_out = [task for task in missing if task not in held]
    if left_out:
        logger.warning(
            "%d of the trainer's tasks, such as %r, are not in dataset %s and were not added; they are never selected"
            " until they are: %s",
            len(left_out),
            left_out[0],
            dataset,
            conflict,
        )


def _held(connection: Connection, dataset: str) -> Iterator[str]:
    pages = run_calls.tasks(dataset)
    while pages.next_call is not None:
        yield from (task.id for task in pages.take(connection.ask(pages.next_call, CALL_S)))


def _lines(ids: Sequence[str]) -> Iterator[bytes]:
    for begin in range(0, len(ids), AT_A_TIME):
        yield b"".join(json.dumps({"id": task}).encode() + b"\n" for task in ids[begin : begin + AT_A_TIME])
