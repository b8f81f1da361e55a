"""How PostgreSQL is connected to: no connection may wait for ever, on either side."""

import math
from collections.abc import Callable
from typing import Any, cast

import psycopg
from sqlalchemy import URL, Connection, Engine, QueuePool, create_engine, event

from bots_service.storage.lifeline import Lifeline
from bots_service.storage.sql_url import sql_url


class _Connection(psycopg.Connection[Any]):
    """A driver's connection with its lifeline."""

    lifeline: Lifeline

    def close(self) -> None:
        """Close both."""
        super().close()
        self.lifeline.close()


def postgres_engine(address: str, *, pool_size: int, timeout_s: float, opened: Callable[[Lifeline], None]) -> Engine:
    """Return an engine with a pool.

    Args:
        address: `postgresql://` and so on; what it says of waiting counts more than `timeout_s`.
        pool_size: how many connections there are at most.
        timeout_s: longest wait for an answer, for a lock, and for the next statement of a transaction.
        opened: told of each new connection, in the thread that opened it, before anything is asked of it.
    """
    url = sql_url(address)
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=pool_size,
        max_overflow=0,
        isolation_level="READ COMMITTED",  # whatever the server's default is: the locks are made for this
        use_native_hstore=False,  # would ask the server for a type that no table has
        connect_args=_arguments(url, timeout_s),
    )

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, arguments: Any, named_arguments: dict[str, Any]) -> _Connection:
        connection = _Connection.connect(*arguments, **named_arguments)
        connection.lifeline = Lifeline(connection.fileno())
        opened(connection.lifeline)
        return connection

    return engine


def lifeline_of(connection: Connection) -> Lifeline:
    """Return a connection's lifeline."""
    return cast("_Connection", connection.connection.dbapi_connection).lifeline


def _arguments(url: URL, timeout_s: float) -> dict[str, Any]:
    """Return the driver's arguments: what the address does not say itself."""
    milliseconds = math.ceil(timeout_s * 1000)
    limits = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    arguments = {
        "application_name": "bots",
        "connect_timeout": max(2, math.ceil(timeout_s)),  # the driver takes a shorter one for 2
        "keepalives_idle": 10,  # then every 5 s, thrice: a connection to nobody ends in half a minute
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": milliseconds,
    }
    named = {name: value for name, value in arguments.items() if name not in url.query}
    # The server ends what we no longer wait for, so that its locks are free.
    options = " ".join(f"-c {name}={milliseconds}" for name in limits)
    return {**named, "options": f"{options} {url.query.get('options', '')}".strip()}
