"""What the stores need of a database: two verbs, whatever the product."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, NotSupportedError, ProgrammingError

from bots_service.errors import StorageUnavailableError

Result = TypeVar("Result")
Job = Callable[[Connection], Result]

SqlRow = Any  # its columns are those of its statement, which no type can say

# Of a statement whose answer nobody needs before the commit, so that it travels with the next one.
UNANSWERED = {"unanswered": True}
OUR_FAULT = (DataError, IntegrityError, NotSupportedError, ProgrammingError)


class Database(Protocol):
    """Runs jobs, each a function of a connection and of nothing else that changes: one may be run again."""

    def write(self, job: Job[Result], *, alone: bool = False) -> asyncio.Future[Result]:
        """Put the job in line at once, and return what it will return, once that is committed to stable storage.

        A caller that no longer waits changes nothing.

        Args:
            job: what to do.
            alone: it is one statement, which does the same if it is sent twice, so that it needs no second trip.

        Raises:
            StorageUnavailableError: (from the future, too) nothing was acknowledged.
        """
        ...

    def read(self, job: Job[Result]) -> asyncio.Future[Result]:
        """Return what the job will return; it sees everything committed before this call, and one state throughout.

        Raises:
            StorageUnavailableError: (from the future, too) the database did not answer.
        """
        ...

    async def close(self) -> None:
        """End what is in line, then let the database go; what comes later is refused."""
        ...


@contextmanager
def storage_errors() -> Iterator[None]:
    """Turn what the driver says of a database in trouble into StorageUnavailableError; our own mistakes stay."""
    try:
        yield
    except OUR_FAULT:
        raise
    except DBAPIError as error:
        raise StorageUnavailableError(f"the database did not answer: {error.orig}") from error
