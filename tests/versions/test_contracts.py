"""The contracts of the stores through PgBouncer and TLS; the live store with TLS."""

from collections.abc import AsyncIterator, Iterator

import pytest

from bots_service.storage.postgres import PostgresDatabase
from bots_service.storage.sql.migrate import upgrade
from bots_service.storage.sql.stores import SqlStores
from tests.servers import PostgresServer, running
from tests.storage import test_datasets, test_history, test_stores
from tests.storage.live import Clock, history, in_memory, replica
from tests.versions.servers import Authority, PgBouncer, TlsPostgres, TlsRedis

# Run here with the stores below.
for module in (test_datasets, test_history, test_stores):
    globals().update({name: test for name, test in vars(module).items() if name.startswith("test_")})

CALLERS = 6  # connections of the service's; more than PgBouncer has to the server


@pytest.fixture(scope="module", params=["pgbouncer", "tls"])
def way(request: pytest.FixtureRequest, files: Authority) -> Iterator[tuple[PostgresServer, str, PgBouncer | None]]:
    """A server, a database with its tables, and the pooler in front of it, if any."""
    server = PostgresServer(fsync="off") if request.param == "pgbouncer" else TlsPostgres(files)
    with running(server):
        template = server.new_database()
        upgrade(template)
        if request.param == "tls":
            yield server, template, None
        else:
            with running(PgBouncer(server)) as pooler:
                yield server, template, pooler


@pytest.fixture
async def stores(way: tuple[PostgresServer, str, PgBouncer | None]) -> AsyncIterator[SqlStores]:
    server, template, pooler = way
    own = server.new_database(like=template)
    url = pooler.through(own) if pooler is not None else own
    if isinstance(server, TlsPostgres):
        url = server.secured(own)
    database = PostgresDatabase(url, pool_size=CALLERS, timeout_s=30)
    yield SqlStores(database)
    await database.close()
    server.drop_database(own)  # else the pooler's connections to all of them would be too many


async def test_the_same_calls_find_the_same_as_in_memory(files: Authority):
    with running(TlsRedis(files)) as server, server.client() as client:
        async with replica(server.url, Clock(client)) as caller:
            assert await history(caller, 7) == await history(in_memory(), 7)
