"""TLS to PostgreSQL and Redis, with certificates of an authority of our own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bots_service.doctor import examine
from bots_service.errors import StorageUnavailableError
from bots_service.settings import Settings
from bots_service.storage.redis import RedisServer
from bots_service.storage.sql.migrate import current, upgrade
from tests.servers import running
from tests.storage.live import PATIENT_S
from tests.system.faults.oracle import assert_settled
from tests.versions.conftest import Note
from tests.versions.deployment import deployed, under_load
from tests.versions.servers import Authority, TlsPostgres, TlsRedis


@pytest.fixture(scope="module")
def postgres_tls(files: Authority) -> Iterator[TlsPostgres]:
    with running(TlsPostgres(files)) as started:
        yield started


@pytest.fixture(scope="module")
def redis_tls(files: Authority) -> Iterator[TlsRedis]:
    with running(TlsRedis(files)) as started:
        yield started


def test_a_database_whose_authority_is_not_named_is_refused(postgres_tls: TlsPostgres):
    url = postgres_tls.url()
    assert current(postgres_tls.secured(url)) is None
    with pytest.raises(StorageUnavailableError, match="certificate verify failed"):
        current(f"{url}?sslmode=verify-full&sslrootcert=system")
    with pytest.raises(StorageUnavailableError, match="no encryption"):
        current(f"{url}?sslmode=disable")


async def test_a_redis_whose_authority_is_not_named_is_refused_by_name(redis_tls: TlsRedis):
    connection = RedisServer(redis_tls.bare_url, timeout_s=PATIENT_S)
    with pytest.raises(StorageUnavailableError, match="name its CA"):
        await connection.open()
    await connection.close()


def test_the_doctor_finds_both_well_and_says_what_an_unknown_authority_needs(
    postgres_tls: TlsPostgres, redis_tls: TlsRedis
):
    url = postgres_tls.secured(postgres_tls.new_database())
    found = {each.about: each for each in examine(Settings(database_url=url, redis_url=redis_tls.url))}
    assert {each.about for each in found.values() if each.grade == "problem"} <= {"disk"}
    assert "redis url" not in found
    found = {each.about: each for each in examine(Settings(database_url=url, redis_url=redis_tls.bare_url))}
    assert (found["redis"].grade, "ssl_ca_certs=FILE" in found["redis"].said) == ("problem", True)


@pytest.mark.parametrize("victim", ["PostgreSQL", "Redis"])
def test_a_kill_under_load_loses_nothing(
    postgres_tls: TlsPostgres, redis_tls: TlsRedis, note: Note, tmp_path: Path, victim: str
):
    redis_tls.client().flushall()
    killed = postgres_tls if victim == "PostgreSQL" else redis_tls
    url = postgres_tls.secured(postgres_tls.new_database())
    upgrade(url)

    def fail() -> None:
        killed.kill()
        killed.start()

    with deployed(tmp_path, database_url=url, redis_url=redis_tls.url) as made:
        account, cost = under_load(made, fail)
        note(f"{victim} killed and started again, TLS to both", cost)
        assert (cost.lost, cost.twice) == (0, 0)
        assert_settled(made.urls, url, account, tmp_path)
