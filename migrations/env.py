"""How alembic reaches the database: over the connection that `storage/migrate.py` opened."""

from alembic import context

from bots_service.storage.sql.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite can't alter most of a table; batch mode copies it instead
    compare_type=True,
    transaction_per_migration=True,  # locks are held for one revision, and what is done stays done
)
with context.begin_transaction():
    context.run_migrations()
