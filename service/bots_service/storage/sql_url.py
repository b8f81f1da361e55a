"""Addresses of databases, as users write them, and as SQLAlchemy wants them."""

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from bots_service.errors import StorageUnavailableError


def sql_url(address: str) -> URL:
    """Return the address with the driver that this service uses; `postgres://` is what some hosts call it.

    Raises:
        StorageUnavailableError: it is no address, or of a product that this service does not know.
    """
    try:
        url = make_url(address)
    except ArgumentError as error:  # its message would show the password
        raise StorageUnavailableError(
            "the database's address can't be read: write sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"
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
