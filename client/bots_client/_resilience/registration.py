"""Registration of a trainer's tasks in a dataset."""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii

from bots_client._errors import ConflictError, NotFoundError
from bots_client._http import NDJSON
from bots_client._models import Dataset, Run, Subset
from bots_client._resilience.connection import Connection

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


class Registrar:
    """Adds a trainer's tasks to a dataset, makes them a subset of it, and gives the run its reward range.

    Creates the dataset and the run if they don't exist.

    Raises:
        ValueError: the dataset has none of these tasks.
        BotsClientError: by every method; a call failed.
    """

    def __init__(self, connection: Connection, dataset: str, run: str, wanted: Registration) -> None:
        self._ask = connection.ask
        self._dataset = dataset
        self._run = run
        self._wanted = wanted

    def dataset(self) -> Dataset:
        """Return the dataset; create it with these tasks if it doesn't exist."""
        name, ids = self._dataset, self._wanted.ids
        try:
            return self._ask(lambda bots: bots.dataset(name), CALL_S)
        except NotFoundError:
            lines = _Lines(ids, f"creating dataset {name}")
            try:
                created = self._ask(lambda bots: bots.create_dataset(name, lines, media_type=NDJSON), UPLOAD_S)
            except ConflictError:  # another process of this job created it first
                return self._ask(lambda bots: bots.dataset(name), CALL_S)
            logger.warning("created dataset %s with the trainer's %d tasks: it did not exist", name, len(ids))
            return created

    def subset(self) -> str:
        """Return the name of the subset of these tasks, once the dataset has all of them."""
        name, ids = self._dataset, self._wanted.ids
        for _ in range(ATTEMPTS):
            lines = _Lines(ids, f"registering with dataset {name}")
            made = self._ask(lambda bots: bots.make_subset(name, lines, media_type=NDJSON), UPLOAD_S)  # noqa: B023 - called at once
            if made.subset is not None:
                _log_left_out(made, len(ids))
                return made.subset
            if not made.tasks:
                raise ValueError(
                    f"dataset {name!r} has none of the trainer's {len(ids)} tasks: {self._ids_look()} the trainer's"
                    f" like {ids[0]!r}. Use another dataset, or build both ids from the same columns"
                )
            self._add([ids[place] for place in made.missing])
        raise ConflictError(f"dataset {name!r} does not have tasks that were added to it: it was deleted meanwhile")

    def run(self) -> Run:
        """Return the run with the wanted reward range; create it if it doesn't exist."""
        names = (self._dataset, self._run)
        try:
            found = self._ask(lambda bots: bots.run(*names), CALL_S)
        except NotFoundError:
            try:
                found = self._ask(lambda bots: bots.create_run(*names), CALL_S)
            except ConflictError:  # another process of this job created it first
                found = self._ask(lambda bots: bots.run(*names), CALL_S)
            else:
                logger.warning("created run %s of dataset %s with default settings: it did not exist", *names[::-1])
        before, wanted = found.settings.reward_range, self._wanted.reward_range
        if wanted is None or before == wanted:
            return found
        logger.warning("changed the reward range of run %s of dataset %s from %s to %s", *names[::-1], before, wanted)
        return self._ask(lambda bots: bots.update_run(*names, reward_range=wanted), CALL_S)

    def _add(self, missing: Sequence[str]) -> None:
        name = self._dataset
        lines = _Lines(missing, f"adding tasks to dataset {name}")
        try:
            self._ask(lambda bots: bots.append_tasks(name, lines, media_type=NDJSON), UPLOAD_S)
        except ConflictError:  # another process of this job added some of them first, and others may be missing
            return
        logger.warning("added %d of the trainer's tasks to dataset %s", len(missing), name)

    def _ids_look(self) -> str:
        first = self._ask(lambda bots: next(bots.tasks(self._dataset, limit=1), None), CALL_S)
        return "its tasks are all retired;" if first is None else f"its ids look like {first.id!r},"


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
