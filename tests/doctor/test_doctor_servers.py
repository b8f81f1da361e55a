"""What the doctor finds at real servers."""

from contextlib import contextmanager
from dataclasses import replace

import psycopg
import pytest
from sqlalchemy import make_url

from bots_service.doctor import examine, postgres_server
from bots_service.doctor import redis_server as redis_checks
from bots_service.doctor.finding import Grade
from bots_service.settings import Settings
from bots_service.storage.sql.migrate import head
from bots_service.storage.sql.url import sql_url
from tests.ports import free_port
from tests.servers import RedisServer, running

OK, WARNING, PROBLEM = Grade.OK, Grade.WARNING, Grade.PROBLEM


def look_at_postgres(url, *, connections=8):
    found = postgres_server.examine(make_url(url), timeout_s=10, connections=connections)
    return {each.about: each for each in found}


def look_at_redis(url):
    return {each.about: each for each in redis_checks.examine(url, timeout_s=10)}


@pytest.fixture(scope="module")
def facts(postgres):
    """What the tests' PostgreSQL says of itself."""
    return postgres_server.ask(make_url(postgres.url()), timeout_s=10)


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


def test_a_database_is_found_as_it_is(postgres_url, facts):
    found = look_at_postgres(postgres_url)
    assert {about: each.grade for about, each in found.items()} == {
        "database": OK,
        "database role": OK,
        "durability": PROBLEM,  # the tests' server does without fsync, to be quicker
        "encoding": OK,
        "rights": OK,
        "connections": OK,
        "database clock": OK,
    }
    assert facts.version_shown in found["database"].said
    assert found["durability"].said.startswith("fsync and full_page_writes off")
    # What the server keeps for superusers is not for us: 300 less the default 3.
    assert found["connections"].said == "297 connections, 8 needed per machine with these settings: enough for 37"


def test_all_that_the_settings_name_is_looked_at(postgres_url, redis_server):
    named = {"redis_url": redis_server.url, "database_url": postgres_url, "migrate_on_start": False, "host": "10.0.0.7"}
    found = {each.about: each for each in examine(Settings(**named))}
    assert found["tables"].said == f"at the newest revision, {head()}"
    assert found["address"].grade is PROBLEM
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE alembic_version SET version_num = %s", ["0" * len(head())])
    found = {each.about: each for each in examine(Settings(**named))}
    assert (found["tables"].grade, "bots migrate" in found["tables"].advice) == (PROBLEM, True)


def test_settings_of_one_database_count(postgres_url):
    name = postgres_url.rpartition("/")[2]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    found = look_at_postgres(postgres_url)
    assert "synchronous_commit = on" in found["durability"].advice
    assert (found["database role"].grade, found["database role"].said) == (PROBLEM, "its transactions are read-only")


def test_a_user_who_may_not_make_tables_is_warned_of(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS doctor_guest")
        connection.execute("CREATE ROLE doctor_guest LOGIN")
    guest = postgres_url.replace("bots@", "doctor_guest@")
    assert look_at_postgres(guest)["rights"].grade is WARNING


@pytest.mark.parametrize(
    ("check", "changes", "grade"),
    [
        (lambda facts: postgres_server.version(facts, "db"), {"version": 130_022}, PROBLEM),
        (lambda facts: postgres_server.version(facts, "db"), {"version": 140_000}, OK),
        (postgres_server.role, {"is_standby": True}, PROBLEM),
        (postgres_server.durability, {"fsync": "on", "full_page_writes": "on"}, OK),
        (postgres_server.durability, {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "local"}, OK),
        (postgres_server.encoding, {"encoding": "SQL_ASCII"}, PROBLEM),
        (postgres_server.rights, {"can_create": None}, WARNING),
        (lambda facts: postgres_server.room(facts, needed=8), {"connections": 7}, PROBLEM),
        (lambda facts: postgres_server.room(facts, needed=8), {"connections": 15}, WARNING),
        (lambda facts: postgres_server.room(facts, needed=8), {"connections": 16}, OK),
        (postgres_server.standbys, {"standbys": 1}, WARNING),
        (postgres_server.standbys, {"standbys": 1, "synchronous_standbys": "*"}, OK),
        (postgres_server.standbys, {"standbys": 0, "synchronous_standbys": "*"}, PROBLEM),
        (
            postgres_server.standbys,
            {"standbys": 1, "synchronous_standbys": "*", "synchronous_commit": "local"},
            WARNING,
        ),
    ],
)
def test_each_fact_is_judged(facts, check, changes, grade):
    assert check(replace(facts, **changes)).grade is grade


def test_a_database_that_is_not_there_is_told_without_its_password(postgres):
    port = free_port()
    (found,) = look_at_postgres(f"postgresql://bots:hunter2@127.0.0.1:{port}/bots").values()
    assert (found.grade, "hunter2" in found.said) == (PROBLEM, False)
    assert f"127.0.0.1:{port}/bots" in found.said
    (found,) = look_at_postgres(postgres.url("no_such_database")).values()
    assert 'database "no_such_database" does not exist' in found.said


def test_servers_that_hang_are_given_up(postgres, redis_server):
    hanging = (postgres, redis_server)
    for server in hanging:
        server.hang()
    try:
        named = {"redis_url": redis_server.url, "database_url": postgres.url(), "database_timeout_s": 1}
        found = {each.about: each for each in examine(Settings(**named))}
    finally:
        for server in hanging:
            server.resume()
    assert {found[about].grade for about in ("redis", "database", "tables")} == {PROBLEM}
    assert "Timeout" in found["redis"].said
    assert "timeout" in found["database"].said


def test_a_redis_is_found_as_it_is(redis_server):
    with configured(redis_server, **{"maxmemory-policy": "noeviction", "maxmemory": "0"}):
        found = look_at_redis(redis_server.url)
    assert {about: each.grade for about, each in found.items()} == {
        "redis": OK,
        "redis role": OK,
        "redis eviction": OK,
        "redis memory": OK,
        "redis persistence": OK,
        "redis scripts": OK,
        "redis clock": OK,
    }
    assert f"127.0.0.1:{redis_server.port}" in found["redis"].said


def test_eviction_is_a_problem_once_there_is_a_limit(redis_server):
    with configured(redis_server, **{"maxmemory-policy": "allkeys-lru", "maxmemory": "0"}):
        assert look_at_redis(redis_server.url)["redis eviction"].grade is WARNING
    with configured(redis_server, **{"maxmemory-policy": "volatile-ttl", "maxmemory": "1gb"}):
        found = look_at_redis(redis_server.url)["redis eviction"]
    assert (found.grade, found.advice) == (PROBLEM, "set maxmemory-policy noeviction")


def test_a_redis_without_an_append_only_file_is_warned_of(redis_server):
    with configured(redis_server, appendonly="no"):
        assert look_at_redis(redis_server.url)["redis persistence"].grade is WARNING


def test_a_replica_is_a_problem(redis_server):
    with running(RedisServer()) as follower:
        with follower.client() as client:
            client.replicaof("127.0.0.1", redis_server.port)
        assert look_at_redis(follower.url)["redis role"].grade is PROBLEM


def test_the_advice_for_scripts_is_enough(redis_server):
    advice = "~bots:* +@all -@dangerous +info"
    with redis_server.client() as client:
        client.execute_command("ACL", "SETUSER", "careful", "reset", "on", ">hunter2", *advice.split())
    found = look_at_redis(f"redis://careful:hunter2@127.0.0.1:{redis_server.port}/0")
    assert found["redis scripts"].grade is OK


def test_a_user_who_may_not_run_scripts_is_a_problem_and_the_password_is_not_shown(redis_server):
    with redis_server.client() as client:
        client.acl_setuser(
            "doctor", enabled=True, passwords=["+hunter2"], categories=["+@all"], commands=["-eval"], keys=["*"]
        )
    found = look_at_redis(f"redis://doctor:hunter2@127.0.0.1:{redis_server.port}/0")
    assert found["redis scripts"].grade is PROBLEM
    assert "ACL SETUSER" in found["redis scripts"].advice
    (wrong,) = look_at_redis(f"redis://doctor:hunter3@127.0.0.1:{redis_server.port}/0").values()
    assert (wrong.grade, "hunter3" in wrong.said) == (PROBLEM, False)


@pytest.mark.parametrize(
    ("check", "changes", "grade"),
    [
        (lambda info: redis_checks.version(info, "redis"), {"redis_version": "6.0.16"}, PROBLEM),
        (lambda info: redis_checks.version(info, "redis"), {"redis_version": "10.0.1"}, OK),
        (redis_checks.role, {"role": "master", "redis_mode": "cluster"}, PROBLEM),
        (redis_checks.role, {"redis_mode": "sentinel"}, PROBLEM),
        (redis_checks.memory, {"used_memory": 81, "maxmemory": 100}, WARNING),
        (redis_checks.memory, {"used_memory": 80, "maxmemory": 100}, OK),
        (redis_checks.persistence, {"aof_enabled": 1, "aof_last_write_status": "err"}, PROBLEM),
    ],
)
def test_what_redis_says_is_judged(check, changes, grade):
    assert check(changes).grade is grade


@pytest.mark.parametrize("url", ["redis://127.0.0.1:99999/0", "redis://127.0.0.1:1/0", "http://127.0.0.1/"])
def test_a_redis_that_can_not_be_there_is_a_problem(url):
    (found,) = look_at_redis(url).values()
    assert found.grade is PROBLEM


def test_a_database_of_another_encoding_is_a_problem(postgres):
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE doctor_ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
    url = postgres.url("doctor_ascii")
    found = {each.about: each for each in examine(Settings(database_url=url))}
    postgres.drop_database(url)
    assert (found["encoding"].grade, "SQL_ASCII" in found["encoding"].said) == (PROBLEM, True)
    assert (found["tables"].grade, "SQL_ASCII" in found["tables"].said) == (PROBLEM, True)


def test_all_hosts_of_a_database_are_named():
    places = postgres_server.where_to(sql_url("postgresql://bots:hunter2@one:5433,two/bots"))
    assert places == "one:5433,two:5432/bots"
