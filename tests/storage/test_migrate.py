"""Migrations: from nothing to the newest revision, once, on each product; and tables newer than the service."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import NullPool, create_engine, insert, inspect, text

from bots_service.errors import OutdatedTablesError, StorageUnavailableError
from bots_service.storage.sql.database import is_postgresql, keys_exist, sql_url
from bots_service.storage.sql.migrate import MIGRATOR_LOCK, current, head, require_tables, upgrade
from bots_service.storage.sql.tables import api_keys, metadata
from tests.ports import free_port
from tests.servers import PostgresServer

OLDER = f"{int(head()) - 1:04}"
NEWER = f"{int(head()) + 1:04}"


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'with 100% space.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    url = server.new_database()
    yield url
    server.drop_database(url)


def set_revision(url: str, revision: str) -> None:
    with create_engine(sql_url(url), poolclass=NullPool).begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})


def test_an_empty_database_gets_every_table(empty: str):
    assert current(empty) is None
    assert upgrade(empty) == (None, head())
    assert upgrade(empty) == (head(), head())
    engine = create_engine(sql_url(empty), poolclass=NullPool)
    assert set(inspect(engine).get_table_names()) == {*metadata.tables, "alembic_version"}


def test_a_service_refuses_tables_that_are_too_old_and_says_what_to_do(empty: str):
    with pytest.raises(OutdatedTablesError):
        require_tables(empty)
    upgrade(empty)
    require_tables(empty)
    set_revision(empty, OLDER)
    with pytest.raises(OutdatedTablesError, match=rf"at revision {OLDER}, .* run `bots migrate`"):
        require_tables(empty)


def test_tables_of_a_later_revision_are_fine_and_stay_as_they_are(empty: str):
    upgrade(empty)
    set_revision(empty, NEWER)
    require_tables(empty)
    assert upgrade(empty) == (NEWER, NEWER)
    assert current(empty) == NEWER


@pytest.mark.parametrize("revision", ["1975ea83b712", "9", "00001"])
def test_tables_of_another_program_are_refused(empty: str, revision: str):
    upgrade(empty)
    set_revision(empty, revision)
    for act in (upgrade, require_tables):
        with pytest.raises(StorageUnavailableError):
            act(empty)


def test_of_several_migrators_one_migrates_and_the_others_wait_for_it(postgres: PostgresServer):
    url = postgres.new_database()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(upgrade, [url] * 4))
    assert sorted(map(str, found)) == sorted(map(str, [(None, head())] + [(head(), head())] * 3))


def test_who_has_nothing_to_migrate_does_not_wait_for_a_migrator(postgres_url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bots_service.storage.sql.migrate.WAIT_FOR_MIGRATOR", ("SET lock_timeout = '50ms'",))
    with psycopg.connect(postgres_url) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [MIGRATOR_LOCK])
        assert upgrade(postgres_url) == (head(), head())
        set_revision(postgres_url, OLDER)
        with pytest.raises(StorageUnavailableError, match="lock timeout"):
            upgrade(postgres_url)


def test_a_migration_that_waits_for_a_table_gives_up_and_leaves_the_lock(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("bots_service.storage.sql.migrate.WAIT_FOR_TABLE", "SET lock_timeout = '50ms'")
    url = postgres.new_database()
    with psycopg.connect(url) as other:
        other.execute("CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)")
        other.commit()
        other.execute("LOCK TABLE alembic_version IN SHARE ROW EXCLUSIVE MODE")
        with pytest.raises(StorageUnavailableError, match="lock timeout"):
            upgrade(url)
    assert upgrade(url) == (None, head())


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_of_another_encoding_is_refused_by_name(postgres: PostgresServer, encoding: str):
    with made_in(postgres, encoding) as url:
        for act in (upgrade, current, require_tables, keys_exist):
            with pytest.raises(StorageUnavailableError, match=f"encoding is {encoding}.* ENCODING 'UTF8'"):
                act(url)


@contextmanager
def made_in(server: PostgresServer, encoding: str) -> Iterator[str]:
    name = f"made_in_{encoding.lower()}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0")
    yield server.url(name)
    server.drop_database(server.url(name))


def test_a_database_that_can_not_be_opened_is_reported(tmp_path: Path):
    (tmp_path / "text.db").write_text("this is no database, however long it may be " * 100)
    for url in (f"sqlite:///{tmp_path / 'text.db'}", f"postgresql://bots@127.0.0.1:{free_port()}/bots"):
        for act in (upgrade, keys_exist):
            with pytest.raises(StorageUnavailableError):
                act(url)


def test_whether_there_are_keys_is_known_before_the_service_listens(empty: str):
    assert not keys_exist(empty)
    upgrade(empty)
    assert not keys_exist(empty)
    with create_engine(sql_url(empty), poolclass=NullPool).begin() as connection:
        key = {"id": "k", "name": "", "digest": b"", "scopes": (), "datasets": (), "created_at": 0.0}
        connection.execute(insert(api_keys), {**key, "revoked_at": 1.0})  # a revoked one counts, too
    assert keys_exist(empty)


def test_looking_for_keys_makes_no_file(tmp_path: Path):
    assert not keys_exist(f"sqlite:///{tmp_path / 'bots.db'}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg", "postgresql+psycopg2"])
def test_every_spelling_of_postgresql_gets_the_one_driver(scheme: str):
    url = sql_url(f"{scheme}://me:secret@host:5433/name?sslmode=require")
    assert url.render_as_string(hide_password=False) == (
        "postgresql+psycopg://me:secret@host:5433/name?sslmode=require"
    )
    assert is_postgresql(f"{scheme}://host/name")
    assert not is_postgresql("sqlite:///file")


def test_several_hosts_are_read_as_libpq_reads_them():
    url = sql_url("postgresql://me:secret@one:5433,two/name?target_session_attrs=read-write")
    _, arguments = url.get_dialect()().create_connect_args(url)
    assert arguments == {
        "host": "one,two",
        "port": "5433,",
        "user": "me",
        "password": "secret",
        "dbname": "name",
        "target_session_attrs": "read-write",
    }


@pytest.mark.parametrize(
    "address", ["postgresql://me:secret@host:port/name", "mysql://me:secret@host/name", "no address with a secret"]
)
def test_an_address_that_is_not_known_is_refused_without_showing_it(address: str):
    with pytest.raises(StorageUnavailableError) as caught:
        sql_url(address)
    assert "secret" not in str(caught.value)
