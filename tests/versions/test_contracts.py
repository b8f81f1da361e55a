"""The contracts of the stores through PgBouncer and TLS; the hot stores with TLS."""

from collections.abc import AsyncIterator, Iterator

import pytest

from bots_service.storage.memory import MemoryLeases, MemoryStates
from bots_service.storage.postgres import PostgresDatabase
from bots_service.storage.sql.migrate import upgrade
from tests.servers import PostgresServer, running
from tests.storage import made
from tests.storage.contracts.hot import Clock, Hot, history
from tests.storage.made import Stores
from tests.storage.redis_stores import PATIENT_S, RedisClock, replica
from tests.storage.test_contracts import (  # noqa: F401 - run here with the stores below
    TestAnswers,
    TestCapacity,
    TestCourses,
    TestDatasets,
    TestJournal,
    TestKeys,
    TestLineage,
    TestOutlooks,
    TestPredictions,
    TestRuns,
    TestSnapshots,
    TestTaskHistory,
)
from tests.versions.pgbouncer import PgBouncer
from tests.versions.tls import Authority, TlsPostgres, TlsRedis

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
async def stores(way: tuple[PostgresServer, str, PgBouncer | None]) -> AsyncIterator[Stores]:
    server, template, pooler = way
    own = server.new_database(like=template)
    url = pooler.through(own) if pooler is not None else own
    if isinstance(server, TlsPostgres):
        url = server.secured(own)
    database = PostgresDatabase(url, pool_size=CALLERS, timeout_s=30)
    yield made.stores_over(database)
    await database.close()
    server.drop_database(own)  # else the pooler's connections to all of them would be too many


async def test_the_same_calls_find_the_same_as_in_memory(files: Authority):
    clock = Clock()
    memory = Hot(MemoryStates(10**6), MemoryLeases(clock=clock), clock)
    with running(TlsRedis(files)) as server:
        async with replica(server.url, RedisClock(server.client()), timeout_s=PATIENT_S) as hot:
            assert hot.connection is not None
            await hot.connection.open()
            assert await history(hot, 3) == await history(memory, 3)
            assert not hot.connection.is_away
