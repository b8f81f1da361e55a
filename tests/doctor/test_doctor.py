"""What the doctor finds: at settings and files, and at real servers."""

import os
import re
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from pydantic import ValidationError

from bots_service import doctor
from bots_service.doctor import examine
from bots_service.settings import Settings, unknown_variables
from bots_service.storage.sql.migrate import head, upgrade
from tests.ports import free_port

OK, WARNING, PROBLEM = "ok", "warning", "problem"
ROOT = Path(__file__).parents[2]
SOURCES = [
    *ROOT.glob("client/bots_client/**/*.py"),
    *ROOT.glob("service/**/*.py"),
    *ROOT.glob("examples/clusters/*.sh"),
    ROOT / "docker-compose.yml",
]
IS_READ = re.compile(r"""(?:environ(?:\.get\(|\[)|envvar=)"(BOTS_\w+)"|\$\{?(BOTS_\w+)""")


@pytest.fixture
def look(tmp_path, monkeypatch):
    """Examine settings that keep their data in the test's folder; gives the findings by what they are about."""
    for name in [name for name in os.environ if name.startswith("BOTS_")]:
        monkeypatch.delenv(name)

    def examined(**settings):
        return {each.about: each for each in examine(Settings(**{"data_dir": tmp_path / "data", **settings}))}

    return examined


def grades(found):
    return {about: each.grade for about, each in found.items()}


def test_the_defaults_are_fit_and_looking_changes_nothing(look, tmp_path):
    found = look()
    assert {each.grade for each in found.values()} <= {OK, WARNING}, found
    assert found["tables"].said == "at revision none; the service migrates them when it starts"
    assert str(tmp_path / "data") in found["disk"].said
    assert list(tmp_path.iterdir()) == []


def test_a_variable_that_nothing_reads_is_named_with_the_nearest(look, monkeypatch):
    monkeypatch.setenv("BOTS_PROT", "4711")
    found = look()["variables"]
    assert found.grade == WARNING
    assert re.findall(r"BOTS_\w+", found.said) == ["BOTS_PROT", "BOTS_PORT"]
    assert "4711" not in found.said  # it may be a secret


def test_each_variable_that_is_read_anywhere_is_known():
    read = {name for path in SOURCES for each in IS_READ.findall(path.read_text("utf-8")) for name in each if name}
    assert unknown_variables(dict.fromkeys(read, "")) == []


def test_what_the_start_would_refuse_is_a_problem_with_the_same_words(look):
    assert look()["address"].grade == OK
    found = look(host="0.0.0.0")["address"]  # noqa: S104 - what is judged
    assert (found.grade, "set BOTS_ADMIN_KEY" in found.said) == (PROBLEM, True)


@pytest.mark.parametrize(("free", "grade"), [(10, PROBLEM), (2**29, WARNING), (2**30, OK)])
def test_the_room_on_the_disk_is_judged(tmp_path, monkeypatch, free, grade):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    assert {each.about: each.grade for each in examine(Settings(data_dir=tmp_path))}["disk"] == grade


@pytest.mark.parametrize("url", ["nonsense", "mysql://u:secret@db/bots", "sqlite://", "sqlite:///:memory:"])
def test_a_database_that_the_service_can_not_use_is_refused_without_its_password(url):
    with pytest.raises(ValidationError, match="database") as refused:
        Settings(database_url=url)
    assert "secret" not in str(refused.value)


def test_a_database_file_is_looked_at_without_being_changed(look, tmp_path):
    path = tmp_path / "bots.db"
    url = f"sqlite:///{path}"
    upgrade(url)
    before = path.read_bytes()
    found = look(database_url=url)
    assert found["tables"].said == f"at revision {head()}"
    assert path.read_bytes() == before
    path.write_bytes(b"something else entirely")
    found = grades(look(database_url=url, host="10.0.0.7"))
    assert {about for about, grade in found.items() if grade == PROBLEM} == {"database", "address"}


@pytest.mark.parametrize(
    ("revision", "migrates", "grade", "says"),
    [
        (head(), False, OK, head()),
        (None, False, PROBLEM, "bots migrate"),
        ("0000", False, PROBLEM, "bots migrate"),
        ("0000", True, OK, "when it starts"),
        ("9999", False, OK, "9999"),
    ],
)
def test_tables_must_fit_this_version(revision, migrates, grade, says):
    found = doctor.tables(revision, migrates=migrates)
    assert (found.grade, says in found.said) == (grade, True)


# --- PostgreSQL ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "grade"), [(7, PROBLEM), (15, WARNING), (16, OK)])
def test_connections_must_be_enough_for_two_machines(count, grade):
    assert doctor.judge_connections(count, 8).grade == grade


def test_a_standby_that_lags_is_a_warning():
    facts = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "local", "read_only": "off"}
    found = grades({each.about: each for each in doctor.judge_postgres({**facts, "may_lose": True})})
    assert found == {"database role": OK, "durability": OK, "standbys": WARNING}


def test_a_postgresql_is_found_as_it_is(look, postgres_url):
    found = look(database_url=postgres_url, migrate_on_start=False, host="10.0.0.7")
    assert found["database"].grade == found["database role"].grade == OK
    assert found["connections"].grade == OK
    assert found["durability"].grade == PROBLEM  # the tests' server does without fsync, to be quicker
    assert found["durability"].said.startswith("fsync and full_page_writes off")
    # What the server keeps for superusers is not for us: 300 less the default 3.
    assert found["connections"].said == "297 connections, 3 needed per machine with these settings: enough for 99"
    assert found["tables"].said == f"at revision {head()}"
    assert found["address"].grade == PROBLEM
    name = postgres_url.rpartition("/")[2]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = %s", ["0" * len(head())])
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        connection.execute("DROP ROLE IF EXISTS doctor_guest")
        connection.execute("CREATE ROLE doctor_guest LOGIN")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO doctor_guest")
    found = look(database_url=postgres_url.replace("bots@", "doctor_guest@"), migrate_on_start=False)
    assert (found["tables"].grade, "bots migrate" in found["tables"].said) == (PROBLEM, True)
    assert "synchronous_commit = on" in found["durability"].advice
    assert (found["database role"].grade, found["database role"].said) == (PROBLEM, "read-only")


def test_a_database_that_is_not_there_is_told_without_its_password(look, postgres):
    port = free_port()
    found = look(database_url=f"postgresql://bots:hunter2@127.0.0.1:{port}/bots")
    assert (found["database"].grade, "hunter2" in found["database"].said) == (PROBLEM, False)
    assert f"port {port}" in found["database"].said
    assert found["database"].said.endswith("; start it, or correct BOTS_DATABASE_URL")  # as `bots serve` says, too
    found = look(database_url=postgres.url("no_such_database"))["database"]
    assert 'database "no_such_database" does not exist' in found.said


def test_servers_that_hang_are_given_up(look, postgres, redis_server):
    hanging = (postgres, redis_server)
    for server in hanging:
        server.hang()
    try:
        found = look(redis_url=redis_server.url, database_url=postgres.url())
    finally:
        for server in hanging:
            server.resume()
    assert {found[about].grade for about in ("redis", "database")} == {PROBLEM}
    assert "Timeout" in found["redis"].said
    assert "timeout" in found["database"].said


# --- Redis -----------------------------------------------------------------------------------------------------------


def look_at_redis(url):
    return {each.about: each for each in doctor.redis(url, timeout_s=10)}


@contextmanager
def configured(server, **settings):
    """Change a Redis's configuration for a while."""
    with server.client() as client:
        before = {name: client.config_get(name)[name] for name in settings}
        for name, value in settings.items():
            client.config_set(name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                client.config_set(name, value)


def test_a_redis_is_found_as_it_is_and_eviction_is_a_problem_once_there_is_a_limit(redis_server):
    with configured(redis_server, **{"maxmemory-policy": "noeviction", "maxmemory": "0"}):
        found = look_at_redis(redis_server.url)
    parts = ("eviction", "persistence")
    assert grades(found) == {"redis": OK, **{f"redis {part}": OK for part in parts}}
    assert f"127.0.0.1:{redis_server.port}" in found["redis"].said
    with configured(redis_server, **{"maxmemory-policy": "allkeys-lru", "maxmemory": "0"}):
        assert look_at_redis(redis_server.url)["redis eviction"].grade == WARNING
    with configured(redis_server, **{"maxmemory-policy": "volatile-ttl", "maxmemory": "1gb"}):
        found = look_at_redis(redis_server.url)["redis eviction"]
    assert (found.grade, found.advice) == (PROBLEM, "set maxmemory-policy noeviction")
    with configured(redis_server, appendonly="no"):
        assert look_at_redis(redis_server.url)["redis persistence"].grade == WARNING


def test_a_user_who_may_not_run_scripts_is_a_problem_and_the_advice_is_enough(redis_server):
    url = f"redis://doctor:hunter2@127.0.0.1:{redis_server.port}/0"
    with redis_server.client() as client:
        client.acl_setuser(
            "doctor", enabled=True, passwords=["+hunter2"], categories=["+@all", "-@scripting"], keys=["*"]
        )
        found = look_at_redis(url)["redis"]
        assert found.grade == PROBLEM
        rights = found.said.partition("ACL SETUSER NAME ")[2].partition(": ")[0].split()
        client.execute_command("ACL", "SETUSER", "doctor", "reset", "on", ">hunter2", *rights)
    assert look_at_redis(url)["redis"].grade == OK
    found = look_at_redis(url.replace("hunter2", "hunter3"))["redis"]
    assert (found.grade, "hunter3" in found.said) == (PROBLEM, False)
