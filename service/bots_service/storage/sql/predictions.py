"""Predictions in SQL: their content, and which of them new runs see. A run's own stand in its row."""

import json
from collections.abc import Sequence

import msgspec
import numpy as np
from sqlalchemy import Connection, bindparam, delete, select

from bots_service.core.arrays import frozen
from bots_service.core.codec import pack, unpack
from bots_service.core.predictions import Predictions, PredictionsKey
from bots_service.errors import BusyError, DamagedStateError, UnknownRunError
from bots_service.records import DatasetFacts
from bots_service.storage.sql.answers import insert_missing
from bots_service.storage.sql.tables import datasets, predictions, runs

_OF_DATASET = predictions.c.dataset_id == bindparam("dataset")
_CONTENT = select(predictions.c.content).where(_OF_DATASET, predictions.c.digest == bindparam("wanted"))
_DIGESTS = select(predictions.c.digest).where(_OF_DATASET)
_DROP = delete(predictions).where(_OF_DATASET, predictions.c.digest == bindparam("unused"))
_FACTS_LOCKED = select(datasets.c.facts).where(datasets.c.id == bindparam("dataset")).with_for_update(key_share=True)
_KNOWN_TO_RUNS = select(runs.c.predictions).where(runs.c.dataset_id == bindparam("dataset")).distinct()


def content_of(column: Predictions) -> bytes:
    """Return predictions without their name, as checksummed bytes."""
    return pack({"parts": column.parts}, {"levels": column.levels.astype(np.int32)})


def predictions_in(name: str, content: bytes) -> Predictions:
    """Return the predictions that are in the bytes.

    Raises:
        DamagedStateError: they don't match their checksum, or are no predictions.
    """
    header, arrays = unpack(content)
    try:
        return Predictions(name, int(header["parts"]), frozen(arrays["levels"].astype(np.uint8)))
    except (LookupError, TypeError, ValueError) as error:
        raise DamagedStateError(f"these are no predictions: {error!r}") from error


def current(connection: Connection, dataset_id: int) -> tuple[PredictionsKey, ...]:
    """Return the predictions that new runs see; they stay so until the transaction ends.

    Ask for this before you lock runs: another order could end in a deadlock.
    """
    facts = connection.scalar(_FACTS_LOCKED, {"dataset": dataset_id})
    return () if facts is None else msgspec.json.decode(facts, type=DatasetFacts).prediction_keys


def require(connection: Connection, dataset_id: int, keys: tuple[PredictionsKey, ...], *, only_current: bool) -> None:
    """Check that a new run can begin with these predictions.

    Raises:
        BusyError: they are gone, or `only_current` and others were put since.
    """
    newest = current(connection, dataset_id)
    missing = {key.digest for key in keys} - set(connection.scalars(_DIGESTS, {"dataset": dataset_id}))
    if missing or (only_current and keys != newest):
        raise BusyError("another request changed the dataset's predictions at the same time; try again")


def read(connection: Connection, dataset_id: int, keys: Sequence[PredictionsKey]) -> list[tuple[str, bytes]]:
    """Return names and contents, in the order of the keys.

    Raises:
        UnknownRunError: one is not there any more.
    """
    found = []
    for name, digest in keys:
        content = connection.scalar(_CONTENT, {"dataset": dataset_id, "wanted": digest})
        if content is None:
            raise UnknownRunError("the run that knew these predictions was deleted or replaced")
        found.append((name, content))
    return found


def keep(connection: Connection, dataset_id: int, digest: str, content: bytes) -> None:
    """Keep predictions; the same ones again change nothing."""
    row = {"dataset_id": dataset_id, "digest": digest, "content": content}
    connection.execute(insert_missing(connection, predictions), row)


def drop_unused(connection: Connection, dataset_id: int, newest: tuple[PredictionsKey, ...]) -> None:
    """Delete the predictions that neither new runs see nor any run knows."""
    known = connection.scalars(_KNOWN_TO_RUNS, {"dataset": dataset_id})
    used = {key.digest for key in newest} | {digest for text in known for _, digest in json.loads(text)}
    for digest in set(connection.scalars(_DIGESTS, {"dataset": dataset_id})) - used:
        connection.execute(_DROP, {"dataset": dataset_id, "unused": digest})
