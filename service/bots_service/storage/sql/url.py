"""Database URLs, and the questions that are asked before tables are upgraded."""

from pathlib import Path

from sqlalchemy import URL, NullPool, create_engine, exists, inspect, make_url, select
from sqlalchemy.exc import ArgumentError

from bots_service.errors import StorageUnavailableError
from bots_service.storage.sql.database import storage_errors
from bots_service.storage.sql.tables import api_keys


def sql_url(address: str) -> URL:
    """Return the address with the driver that this service uses; `postgres://` is what some hosts call it.

    Raises:
        StorageUnavailableError: it is no address, or of a product that this service does not know.
    """
    try:
        url = make_url(address)
    except ArgumentError as error:  # its message would show the password
        raise StorageUnavailableError(
            "BOTS_DATABASE_URL is not a database URL: write sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"
        ) from error
    product = url.drivername.partition("+")[0]
    if product in {"postgres", "postgresql"}:
        return url.set(drivername="postgresql+psycopg")
    if product == "sqlite":
        return url
    raise StorageUnavailableError(f"the database {product!r} is not known here: name sqlite:/// or postgresql://")


def is_postgresql(address: str) -> bool:
    """Return whether the address is one of PostgreSQL's."""
    return sql_url(address).get_backend_name() == "postgresql"


CONNECT_S = 10


def keys_exist(address: str) -> bool:
    """Return whether there ever was a key, revoked or not.

    Raises:
        StorageUnavailableError: the database did not answer.
    """
    url = sql_url(address)
    is_sqlite = url.get_backend_name() == "sqlite"
    if is_sqlite and not Path(url.database or "").is_file():  # connecting would make it
        return False
    options = {} if is_sqlite else {"connect_timeout": CONNECT_S}
    with storage_errors(), create_engine(url, poolclass=NullPool, connect_args=options).connect() as connection:
        if not inspect(connection).has_table(api_keys.name):
            return False
        return bool(connection.execute(select(exists(select(api_keys.c.id)))).scalar_one())
