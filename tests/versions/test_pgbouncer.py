"""PgBouncer between the service and PostgreSQL: it gives one connection to the server to many clients, in turn."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection, text

from bots_service.doctor import examine
from bots_service.errors import StorageUnavailableError
from bots_service.settings import Settings
from bots_service.storage.postgres import PostgresDatabase
from bots_service.storage.sql.migrate import head, upgrade
from tests.servers import PostgresServer, RedisServer, running
from tests.system.faults.oracle import assert_settled
from tests.versions.conftest import Note
from tests.versions.deployment import deployed, under_load
from tests.versions.servers import PgBouncer

TIMEOUT_S = 8.5
LIMITS = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")


@pytest.fixture(scope="module", params=["transaction", "session"])
def pooler(request: pytest.FixtureRequest, postgres: PostgresServer) -> Iterator[PgBouncer]:
    with running(PgBouncer(postgres, mode=request.param, size=12)) as started:
        yield started


@pytest.fixture
def pooled_url(pooler: PgBouncer, postgres_url: str) -> str:
    return pooler.through(postgres_url)


def limits(connection: Connection) -> list[str]:
    return [str(connection.scalar(text(f"SHOW {name}"))) for name in LIMITS]


def count_runs(connection: Connection) -> int:
    return int(connection.scalar(text("SELECT count(*) FROM runs WHERE id > :id"), {"id": 1}))


async def test_limits_are_set_for_our_transactions_and_no_others(pooled_url: str):
    database = PostgresDatabase(pooled_url, pool_size=6, timeout_s=TIMEOUT_S)
    for verb in (database.read, database.write):
        assert await verb(limits) == ["8500ms"] * 3
    for _ in range(20):  # a statement that is repeated would be prepared, on one of several connections
        await database.read(count_runs)
    await database.close()
    with psycopg.connect(pooled_url) as others:
        assert [others.execute(f"SHOW {name}").fetchone() for name in LIMITS] == [("0",)] * 3
        assert others.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)


def test_tables_are_migrated_at_postgresqls_own_address(postgres: PostgresServer, pooler: PgBouncer):
    url = postgres.new_database()
    with pytest.raises(StorageUnavailableError):
        upgrade(pooler.through(url))
    found = {each.about: each for each in examine(Settings(database_url=pooler.through(url)))}
    assert (found["tables"].grade, "PostgreSQL's own address" in found["tables"].advice) == ("problem", True)
    upgrade(url)
    assert upgrade(pooler.through(url)) == (head(), head())
    found = {each.about: each for each in examine(Settings(database_url=pooler.through(url)))}
    assert found["tables"].grade == found["connections"].grade == "ok"
    assert "through a pooler" in found["connections"].said


@pytest.mark.parametrize("victim", ["PgBouncer", "PostgreSQL"])
def test_a_kill_under_load_loses_nothing(redis_server: RedisServer, note: Note, tmp_path: Path, victim: str):
    redis_server.client().flushall()
    with running(PostgresServer()) as postgres, running(PgBouncer(postgres)) as pooler:
        url = postgres.new_database()
        upgrade(url)
        killed = pooler if victim == "PgBouncer" else postgres

        def fail() -> None:
            killed.kill()
            killed.start()

        services = {"database_url": pooler.through(url), "redis_url": redis_server.url, "look_at": url}
        with deployed(tmp_path, **services) as made:
            account, cost = under_load(made, fail)
            note("PgBouncer killed" if victim == "PgBouncer" else "PostgreSQL killed, behind PgBouncer", cost)
            assert (cost.lost, cost.twice) == (0, 0)
            assert_settled(made.urls, url, account, tmp_path)
