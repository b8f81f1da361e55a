"""Whether a database holds API keys: asked before anything listens, and before its tables are brought up to date."""

from pathlib import Path

from sqlalchemy import NullPool, create_engine, exists, inspect, select

from bots_service.storage.database import storage_errors
from bots_service.storage.sql_url import sql_url
from bots_service.storage.tables import api_keys

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
