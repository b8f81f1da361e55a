"""What `bots doctor` looks at: whether what the settings name is there, and fit to keep what the service promises."""

import os
from collections.abc import Iterator

from sqlalchemy import URL

from bots_service.doctor import configuration, machine, postgres_server, redis_server, sqlite_file, tables
from bots_service.doctor.finding import Finding, Grade, problem
from bots_service.errors import StorageUnavailableError
from bots_service.settings import Settings
from bots_service.storage.sql.url import sql_url


def examine(settings: Settings) -> Iterator[Finding]:
    """Yield what is found, one thing after the other. The database, the files and the leases stay as they are."""
    yield from configuration.variables(os.environ)
    yield configuration.stores(settings)
    yield from machine.examine(settings)
    database = list(_database(settings))
    yield from database
    answers = not any(each.about == "database" and each.grade is Grade.PROBLEM for each in database)
    if answers:
        yield tables.examine(settings.sql_url, migrate_on_start=settings.migrate_on_start)
    else:
        yield problem("tables", "not checked: the database can't be used", "fix the database first")
    yield configuration.address(settings, database_answers=answers)
    if settings.redis_url is not None:
        yield configuration.redis_url(settings.redis_url)
        yield from redis_server.examine(settings.redis_url, timeout_s=settings.redis_timeout_s)


def _database(settings: Settings) -> Iterator[Finding]:
    try:
        url: URL = sql_url(settings.sql_url)
    except StorageUnavailableError as error:
        yield problem("database", str(error), "set BOTS_DATABASE_URL to postgresql://USER:PASSWORD@HOST/NAME")
        return
    if url.get_backend_name() == "postgresql":
        connections = settings.database_pool * settings.workers
        yield from postgres_server.examine(url, timeout_s=settings.database_timeout_s, connections=connections)
    else:
        yield from sqlite_file.examine(url)
