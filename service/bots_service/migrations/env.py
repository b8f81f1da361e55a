"""How alembic reaches the database: over a connection that it is given, or by the address in its configuration."""

from alembic import context
from sqlalchemy import Connection, NullPool, create_engine

from bots_service.storage.tables import metadata


def migrate(connection: Connection) -> None:
    """Run the migrations that are asked for, in one transaction."""
    # SQLite can't alter most of a table; batch mode copies it instead.
    context.configure(connection=connection, target_metadata=metadata, render_as_batch=True, compare_type=True)
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    migrate(given)
else:
    with create_engine(context.config.get_main_option("sqlalchemy.url", ""), poolclass=NullPool).connect() as opened:
        migrate(opened)
