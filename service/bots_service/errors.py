"""Everything that is refused on purpose, named by the fact.

A ValueError means that our own code called a kernel wrongly. Status codes stand in `api/problems.py` only.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import islice

from msgspec import Struct

SHOWN_FLAWS = 20  # enough to see the pattern
LONGEST_CHOICE = 50  # characters of a value that are compared with names and shown


class BotsError(Exception):
    """Root of everything raised on purpose; the message is written for the user."""


class NotFoundError(BotsError):
    """What was named does not exist."""


class UnknownDatasetError(NotFoundError):
    """No dataset of that name."""


class UnknownRunError(NotFoundError):
    """No run of that name in the dataset."""


class UnknownStepError(NotFoundError):
    """The run's present history has no such step."""


class UnknownApiKeyError(NotFoundError):
    """No API key of that id."""


class MethodNotAllowedError(BotsError):
    """There is such a path, but not for this method."""


class ConflictError(BotsError):
    """The request does not fit what stands."""


class DatasetExistsError(ConflictError):
    """The name is taken by a dataset with other content."""


class TaskExistsError(ConflictError):
    """An appended task has the id of a task that exists."""


class RunHasHistoryError(ConflictError):
    """The run's journal is no longer empty, so its settings are changed step by step, by PATCH."""


class StaleEpochError(ConflictError):
    """Evidence from before the run was rewound: it counts for nothing."""


class BusyError(ConflictError):
    """Another request is changing the same thing; try again."""


class LimitReachedError(ConflictError):
    """No more tasks, datasets, runs or API keys are kept; the message names the limit and what sets it."""


class Flaw(Struct, frozen=True, rename={"where": "loc", "what": "msg"}):
    """One thing that is wrong with the input.

    loc: its location, beginning with body, query, path or header.
    msg: what is wrong.
    """

    where: tuple[str | int, ...]  # as in ("body", "outcomes", 3, "successes"); within the body, it may begin there
    what: str


def not_a_choice(value: object, choices: Sequence[str]) -> str:
    """Return what to say of a value that is none of the choices: it names all, and the nearest if one is near."""
    if not isinstance(value, str):
        return f"{value!r} is not one of {', '.join(choices)}"
    return f"{value[:LONGEST_CHOICE]!r} is not one of {', '.join(choices)}{meant(value, choices)}"


def meant(value: str, names: Iterable[str]) -> str:
    """Return "; did you mean 'limit'?" with the name that is nearest to a value; nothing if none is near."""
    nearest = get_close_matches(value[:LONGEST_CHOICE], list(names), 1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


class InvalidInputError(BotsError):
    """The input can't be true; nothing was changed."""

    def __init__(self, message: str, flaws: tuple[Flaw, ...] = ()) -> None:
        super().__init__(message)
        self.flaws = flaws

    @classmethod
    def refuse(cls, message: str, flaws: Iterable[Flaw]) -> None:
        """Raise this error, with the first flaws, if there are any."""
        if shown := tuple(islice(flaws, SHOWN_FLAWS)):
            raise cls(message, shown)


class InvalidTasksError(InvalidInputError):
    """A dataset's tasks can't be true: repeated ids, pass rates outside [0, 1]."""


class InvalidOutcomesError(InvalidInputError):
    """Evidence that can't be true: unknown tasks, more successes than trials."""


class InvalidSettingsError(InvalidInputError):
    """A run's settings are outside their range."""


class InvalidSelectionError(InvalidInputError):
    """A selection that can't be made as asked, or a selection id that this run did not give out."""


class PoolTooSmallError(InvalidInputError):
    """Fewer eligible tasks than were asked for."""


class KeyReusedError(InvalidInputError):
    """An idempotency key that is known came with another body."""


class InvalidJournalError(InvalidInputError):
    """An exported journal that was cut, is none, or does not fold."""


class UnauthenticatedError(BotsError):
    """No API key, or none that is good. The message never holds what was sent."""


class ForbiddenError(BotsError):
    """The API key has no scope for this, or no access to this dataset."""


class MalformedRequestError(BotsError):
    """What came is no HTTP/1.1 request that the service reads."""


class HeadersTooLargeError(BotsError):
    """The request line and the headers, or trailers, are larger than the service accepts."""


class MalformedBodyError(BotsError):
    """The body can't be read at all: truncated JSON."""


class PayloadTooLargeError(BotsError):
    """The body is larger than the service accepts."""


class UnsupportedMediaTypeError(BotsError):
    """The body is of a kind that this route does not read."""


class InternalError(BotsError):
    """The service failed; the log has the details."""


class DamagedStateError(BotsError):
    """Stored bytes don't match their checksum, or their format is unknown."""


class SlowSenderError(BotsError):
    """The body came too slowly, or stopped coming."""


class TryLaterError(BotsError):
    """It can't be done now; nothing was acknowledged, try again after `retry_after_s`."""

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class OverloadedError(TryLaterError):
    """More requests wait for their turn than the service lets wait."""


class DeadlinePassedError(TryLaterError):
    """The request was not done in time; what it began may still happen, so try again under the same key."""


class StorageUnavailableError(TryLaterError):
    """The database did not answer; nothing was acknowledged, try again."""


class OutdatedTablesError(StorageUnavailableError):
    """The database's tables are at an older revision than this version of the service needs."""
