"""Everything that is refused on purpose, named by the fact.

    BotsError
    ├── NotFoundError
    │   ├── UnknownDatasetError       no dataset of that name
    │   ├── UnknownRunError           no run of that name in the dataset
    │   └── UnknownStepError          the run's present history has no such step
    ├── ConflictError
    │   ├── DatasetExistsError        the name is taken by other content
    │   ├── TaskExistsError           an appended task's id is taken
    │   ├── RunHasHistoryError        settings can't be replaced once evidence came
    │   ├── StaleEpochError           evidence from before a rewind
    │   └── BusyError                 another request is changing the same thing
    ├── InvalidInputError             carries where and what
    │   ├── InvalidTasksError         a dataset that can't be true
    │   ├── InvalidOutcomesError      evidence that can't be true
    │   ├── InvalidSettingsError      settings outside their range
    │   ├── InvalidSelectionError     a selection that can't be made, or an id that was not given out
    │   ├── PoolTooSmallError         fewer tasks than asked for
    │   └── KeyReusedError            an idempotency key came with another body
    ├── MalformedBodyError            the body can't be read at all
    ├── PayloadTooLargeError
    ├── UnsupportedMediaTypeError
    ├── DamagedStateError             stored bytes don't match their checksum
    └── StorageUnavailableError       SQL did not answer; try again

A ValueError means that our own code called a kernel wrongly. Status codes stand in `api/problems.py` only.
"""

from dataclasses import dataclass


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


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing that is wrong with the input.

    where: the path to it, as in ("body", "outcomes", 3, "successes").
    what: what is wrong, with the value.
    """

    where: tuple[str | int, ...]
    what: str


class InvalidInputError(BotsError):
    """The input can't be true; nothing was changed."""

    def __init__(self, message: str, flaws: tuple[Flaw, ...] = ()) -> None:
        super().__init__(message)
        self.flaws = flaws


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


class MalformedBodyError(BotsError):
    """The body can't be read at all: truncated JSON, a broken Parquet file."""


class PayloadTooLargeError(BotsError):
    """The body is larger than the service accepts."""


class UnsupportedMediaTypeError(BotsError):
    """The body is of a kind that this route does not read."""


class DamagedStateError(BotsError):
    """Stored bytes don't match their checksum, or their format is unknown."""


class StorageUnavailableError(BotsError):
    """The database did not answer; nothing was acknowledged, try again."""

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
