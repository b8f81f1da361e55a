"""What the stores need of a database, whatever the product: an address, and two verbs."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast
from urllib.parse import urlsplit

from sqlalchemy import URL, Connection, NullPool, create_engine, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, NotSupportedError, ProgrammingError

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
        alone: the job is one statement, which does the same if it is sent twice, so that it needs no second trip.

        Raises StorageUnavailableError: (from the future, too) nothing was acknowledged.
        """

    def read(self, job: Job[Result]) -> asyncio.Future[Result]:
        """Return what the job will return; it sees everything committed before this call, and one state throughout.

        Raises StorageUnavailableError: (from the future, too) the database did not answer.
        """

    async def close(self) -> None:
        """End what is in line, then let the database go; what comes later is refused."""


def settle(answer: asyncio.Future[Any], outcome: object) -> None:
    """Hand on what a job returned or raised, unless its caller stopped waiting."""
    if answer.done():
        return
    if isinstance(outcome, BaseException):
        answer.set_exception(outcome)
        answer.exception()  # no warning if nobody ever awaits it
    else:
        answer.set_result(outcome)


@contextmanager
def storage_errors(todo: str = "") -> Iterator[None]:
    """Turn what the driver says of a database in trouble into StorageUnavailableError and `todo`; our mistakes stay."""
    try:
        yield
    except OUR_FAULT:
        raise
    except DBAPIError as error:
        raise StorageUnavailableError(f"the database did not answer: {error.orig}{todo}") from error


def sql_url(address: str) -> URL:
    """Return the address with the driver that this service uses; `postgres://` is what some hosts call it.

    It may name several hosts, as libpq reads them: `postgresql://USER@HOST1:PORT,HOST2/NAME`.

    Raises StorageUnavailableError: it is no address, or of a product that this service does not know, or of no file.
    """
    try:
        url = make_url(_with_hosts_apart(address))
    except (ArgumentError, ValueError) as error:  # its message would show the password
        raise StorageUnavailableError(
            "BOTS_DATABASE_URL is not a database URL: write sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"
        ) from error
    product = url.drivername.partition("+")[0]
    if product in {"postgres", "postgresql"}:
        return url.set(drivername="postgresql+psycopg")
    if product == "sqlite":
        if url.database in (None, "", ":memory:"):
            raise StorageUnavailableError("an in-memory database is lost when the process ends: name sqlite:///FILE")
        return url
    raise StorageUnavailableError(f"the database {product!r} is not known here: name sqlite:/// or postgresql://")


def is_postgresql(address: str) -> bool:
    return sql_url(address).get_backend_name() == "postgresql"


def is_missing(url: URL) -> bool:
    """Return whether it names a SQLite file that is not there, and that connecting would make."""
    return url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file()


def _with_hosts_apart(address: str) -> str:
    """Return the address with several hosts in its query, where SQLAlchemy expects them."""
    parts = urlsplit(address)
    user, at, hosts = parts.netloc.rpartition("@")
    if "," not in hosts:
        return address
    query = [*(f"host={host}" for host in hosts.split(",")), *filter(None, [parts.query])]
    return parts._replace(netloc=user + at, query="&".join(query)).geturl()


CONNECT_S = 10
ENCODING = "UTF8"  # of a database: another one can't hold every task's id


@contextmanager
def connected(address: str) -> Iterator[Connection]:
    """Give a connection for a few questions.

    Raises StorageUnavailableError: the database did not answer, or its encoding is not UTF8.
    """
    url = sql_url(address)
    is_server = url.get_backend_name() == "postgresql"
    # Whatever the database's encoding is: of SQL_ASCII, the driver returns bytes, which SQLAlchemy can't read.
    options: dict[str, Any] = {"connect_timeout": CONNECT_S, "client_encoding": ENCODING} if is_server else {}
    todo = f"; {'start it, or ' if is_server else ''}correct BOTS_DATABASE_URL"
    with storage_errors(todo), create_engine(url, poolclass=NullPool, connect_args=options).connect() as connection:
        if is_server:
            _require_utf8(connection)
        yield connection


def is_pooled(connection: Connection) -> bool:
    """Return whether something like PgBouncer is between us and PostgreSQL: its process has another id."""
    if connection.dialect.name != "postgresql":
        return False
    return bool(connection.scalar(text("SELECT pg_backend_pid()")) != _driver(connection).info.backend_pid)


def _require_utf8(connection: Connection) -> None:
    encoding = _driver(connection).info.parameter_status("server_encoding")
    if encoding != ENCODING:
        raise StorageUnavailableError(
            f"the database's encoding is {encoding}, which can't store all ids: "
            "create it again with ENCODING 'UTF8' TEMPLATE template0"
        )


def _driver(connection: Connection) -> Any:
    return cast("Any", connection.connection.dbapi_connection)


def keys_exist(address: str) -> bool:
    """Return whether there ever was a key, revoked or not.

    Raises StorageUnavailableError: the database did not answer.
    """
    if is_missing(sql_url(address)):
        return False
    with connected(address) as connection:
        # Not by the tables' module: who starts the service's processes does without what it loads.
        has_table = inspect(connection).has_table("api_keys")
        return has_table and connection.scalar(text("SELECT id FROM api_keys LIMIT 1")) is not None
