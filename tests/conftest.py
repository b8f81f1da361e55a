"""How hard random tests try, and the servers that tests share: one of each a pytest process, started when asked for.

BOTS_TEST_PROFILE is `default`, `ci` (the same examples each time) or `thorough`.
"""

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from bots_service.storage.migrate import upgrade
from tests.servers import PostgresServer, RedisServer, running

# No deadline: on a busy machine a slow example says nothing about the code.
settings.register_profile("default", deadline=None, print_blob=True)
settings.register_profile("ci", parent=settings.get_profile("default"), derandomize=True)
settings.register_profile(
    "thorough",
    parent=settings.get_profile("default"),
    max_examples=2000,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("BOTS_TEST_PROFILE", "default"))


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL for all tests that don't kill it, nor ask what is on the disk."""
    with running(PostgresServer(fsync="off", full_page_writes="off", max_connections="300")) as server:
        yield server


@pytest.fixture(scope="session")
def migrated_postgres(postgres: PostgresServer) -> str:
    """The URL of a database with its tables, to be copied: that is quicker than migrating."""
    url = postgres.new_database()
    upgrade(url)
    return url


@pytest.fixture
def postgres_url(postgres: PostgresServer, migrated_postgres: str) -> Iterator[str]:
    """The URL of a fresh database with its tables, for one test."""
    url = postgres.new_database(like=migrated_postgres)
    yield url
    postgres.drop_database(url)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A Redis for all tests that don't kill it. Tests share it, so each names its own keys, or empties it first."""
    with running(RedisServer()) as server:
        yield server
