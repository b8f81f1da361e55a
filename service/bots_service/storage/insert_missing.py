"""INSERT that leaves rows alone which are there: the one statement that SQL writes differently on each product."""

from functools import cache

from sqlalchemy import Connection, Insert, Table
from sqlalchemy.dialects import postgresql, sqlite


def insert_missing(connection: Connection, table: Table) -> Insert:
    """Return a statement that inserts the rows whose key is not in the table yet."""
    return _statement(connection.dialect.name, table)


@cache
def _statement(product: str, table: Table) -> Insert:
    insert = postgresql.insert if product == "postgresql" else sqlite.insert
    return insert(table).on_conflict_do_nothing()
