"""What the doctor finds without any server: settings, this machine, a SQLite file, clocks."""

import os
import re
import sqlite3
from pathlib import Path

import pytest
from pydantic import SecretStr

from bots_service.doctor import configuration, examine, machine, sqlite_file, tables
from bots_service.doctor import finding as clock
from bots_service.doctor.finding import Grade, without_secrets
from bots_service.settings import Settings
from bots_service.storage.sql.migrate import head, upgrade

ROOT = Path(__file__).parents[2]
SOURCES = [
    *ROOT.glob("client/bots_client/**/*.py"),
    *ROOT.glob("service/**/*.py"),
    *ROOT.glob("examples/clusters/*.sh"),
    ROOT / "docker-compose.yml",
]
IS_READ = re.compile(r"""(?:environ(?:\.get\(|\[)|envvar=)"(BOTS_\w+)"|\$\{?(BOTS_\w+)""")
READ = {name for path in SOURCES for each in IS_READ.findall(path.read_text("utf-8")) for name in each if name}
PG, REDIS = "postgresql://bots@db/bots", "redis://redis:6379/0"


@pytest.fixture
def look(tmp_path, monkeypatch):
    """Examine settings that keep their data in the test's folder; gives the findings by what they are about."""
    for name in [name for name in os.environ if name.startswith("BOTS_")]:
        monkeypatch.delenv(name)

    def examined(**settings):
        return {each.about: each for each in examine(Settings(**{"data_dir": tmp_path / "data", **settings}))}

    return examined


def test_the_defaults_are_fit_and_looking_changes_nothing(look, tmp_path):
    found = look()
    assert {each.grade for each in found.values()} <= {Grade.OK, Grade.WARNING}, found
    assert found["tables"].said == f"none yet; the service migrates them to {head()} when it starts"
    assert list(tmp_path.iterdir()) == []


def test_a_variable_that_nothing_reads_is_named_with_the_nearest(look, monkeypatch):
    monkeypatch.setenv("BOTS_PROT", "4711")
    found = look()["variables"]
    assert found.grade is Grade.WARNING
    assert re.findall(r"BOTS_\w+", found.said) == ["BOTS_PROT", "BOTS_PORT"]
    assert "4711" not in found.said  # it may be a secret


def test_each_variable_that_is_read_anywhere_is_known():
    names = {*READ, *(f"BOTS_{name.upper()}" for name in Settings.model_fields), "bots_port", "PATH"}
    assert [each.grade for each in configuration.variables(dict.fromkeys(names, ""))] == [Grade.OK]


@pytest.mark.parametrize(
    ("settings", "grade"),
    [
        ({"host": "127.0.0.1"}, Grade.OK),
        ({"host": "::1"}, Grade.OK),
        ({"host": "0.0.0.0"}, Grade.PROBLEM),  # noqa: S104 - what is judged
        ({"host": "10.0.0.7", "insecure": True}, Grade.WARNING),
        ({"host": "10.0.0.7", "admin_key": SecretStr("made for this test".replace(" ", "-"))}, Grade.OK),
    ],
)
def test_an_address_that_others_reach_needs_a_key(look, settings, grade):
    assert look(**settings)["address"].grade is grade


@pytest.mark.parametrize(
    ("settings", "grade", "named"),
    [
        ({}, Grade.OK, []),
        ({"workers": 2}, Grade.PROBLEM, ["BOTS_DATABASE_URL", "BOTS_REDIS_URL"]),
        ({"workers": 2, "database_url": PG}, Grade.PROBLEM, ["BOTS_REDIS_URL"]),
        ({"workers": 2, "redis_url": REDIS}, Grade.PROBLEM, ["BOTS_DATABASE_URL"]),
        ({"workers": 2, "database_url": PG, "redis_url": REDIS}, Grade.OK, []),
        ({"database_url": PG}, Grade.OK, []),
        ({"redis_url": REDIS}, Grade.WARNING, ["BOTS_DATABASE_URL"]),
    ],
)
def test_several_processes_need_stores_that_they_can_share(settings, grade, named):
    found = configuration.stores(Settings(**settings))
    assert found.grade is grade
    assert [name for name in ("BOTS_DATABASE_URL", "BOTS_REDIS_URL") if f"{name}=" in found.advice] == named


@pytest.mark.parametrize(
    ("url", "grade"),
    [
        ("redis://redis:6379/0", Grade.OK),
        ("redis://:secret@localhost/0", Grade.OK),
        ("rediss://:secret@redis/0", Grade.OK),
        ("redis:///0", Grade.PROBLEM),
        ("redis://:secret@redis/0", Grade.WARNING),
        ("http://redis:6379", Grade.PROBLEM),
        ("redis:6379", Grade.PROBLEM),
    ],
)
def test_the_form_of_the_redis_url_is_judged(url, grade):
    found = configuration.redis_url(url)
    assert found.grade is grade
    assert "secret" not in found.said + found.advice


@pytest.mark.parametrize("url", ["nonsense", "mysql://u:secret@db/bots", "sqlite://", "sqlite:///:memory:"])
def test_a_database_that_the_service_can_not_use_is_a_problem(look, url):
    found = look(database_url=url)["database"]
    assert found.grade is Grade.PROBLEM
    assert "BOTS_DATABASE_URL" in found.advice
    assert "secret" not in found.said


def test_a_database_file_is_looked_at_without_being_changed(look, tmp_path):
    path = tmp_path / "bots.db"
    url = f"sqlite:///{path}"
    path.write_bytes(b"")
    assert look(database_url=url)["database file"].said == f"{path} is empty"
    path.unlink()
    upgrade(url)
    before = path.read_bytes()
    found = look(database_url=url)
    assert found["database file"].grade is Grade.WARNING  # the service turns the log on, the migrations don't
    assert found["tables"].said == f"at the newest revision, {head()}"
    assert path.read_bytes() == before
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert look(database_url=url)["database file"].grade is Grade.OK
    path.write_bytes(b"something else entirely")
    found = look(database_url=url, host="10.0.0.7")
    wrong = {about for about, each in found.items() if each.grade is Grade.PROBLEM}
    assert wrong == {"database file", "tables", "address"}


def test_a_folder_that_can_not_be_written_is_a_problem(tmp_path, monkeypatch):
    assert sqlite_file.folder(tmp_path / "new" / "deeper").grade is Grade.OK
    (tmp_path / "file").write_text("")
    assert sqlite_file.folder(tmp_path / "file" / "below").grade is Grade.PROBLEM
    # Root may write anywhere, so the tests can't take the right away in earnest.
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert sqlite_file.folder(tmp_path).grade is Grade.PROBLEM


def test_a_network_file_system_is_found_by_the_deepest_and_last_mount(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/sda / ext4 rw 0 0\nserver:/x {tmp_path} ext4 rw 0 0\nserver:/y {tmp_path} nfs4 rw 0 0\n")
    (tmp_path / "data").mkdir()
    assert sqlite_file.file_system_of(tmp_path / "data", mounts) == "nfs4"
    assert sqlite_file.file_system_of(Path("/"), mounts) == "ext4"
    assert sqlite_file.file_system_of(tmp_path, tmp_path / "none") is None
    assert sqlite_file.file_system("nfs4").grade is Grade.PROBLEM
    assert sqlite_file.file_system("ext4").grade is Grade.OK


def test_an_old_sqlite_is_a_problem():
    assert sqlite_file.version((3, 34, 1)).grade is Grade.PROBLEM
    assert sqlite_file.version((3, 35, 0)).grade is Grade.OK


@pytest.mark.parametrize(
    ("found", "migrate_on_start", "grade", "says"),
    [
        (head(), False, Grade.OK, head()),
        (None, True, Grade.OK, "when it starts"),
        (None, False, Grade.PROBLEM, "bots migrate"),
        ("0000", False, Grade.PROBLEM, "bots migrate"),
        ("0000", True, Grade.OK, "when it starts"),
        ("9999", False, Grade.OK, "can use them"),
    ],
)
def test_tables_must_fit_this_version(found, migrate_on_start, grade, says):
    finding = tables.judge(found, migrate_on_start=migrate_on_start)
    assert finding.grade is grade
    assert says in finding.said + finding.advice


def test_the_tables_of_another_program_are_a_problem(look, tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("INSERT INTO alembic_version VALUES ('a1b2c3')")
    connection.close()
    found = look(database_url=f"sqlite:///{path}")["tables"]
    assert (found.grade, "a1b2c3" in found.said) == (Grade.PROBLEM, True)


def test_more_processes_than_processors_are_warned_of():
    assert machine.processors(4, available=4).grade is Grade.OK
    assert "BOTS_WORKERS=2" in machine.processors(4, available=2).advice
    assert machine.available_processors() >= 1


@pytest.mark.parametrize(
    ("limit", "grade"),
    [(-1, Grade.OK), (99, Grade.PROBLEM), (100, Grade.WARNING), (399, Grade.WARNING), (400, Grade.OK)],
)
def test_the_limit_of_open_files_is_judged_by_what_is_needed(limit, grade):
    assert machine.open_files(limit, needed=100).grade is grade


@pytest.mark.parametrize(("free", "grade"), [(10, Grade.PROBLEM), (2**29, Grade.WARNING), (2**30, Grade.OK)])
def test_the_room_on_the_disk_is_judged(tmp_path, free, grade):
    assert machine.disk(tmp_path, free=free).grade is grade


def test_the_disk_is_looked_at_where_the_database_lies(look, tmp_path):
    assert str(tmp_path / "data") in look()["disk"].said
    assert "disk" not in look(database_url=PG, database_timeout_s=0.1)


@pytest.mark.parametrize(
    ("theirs", "grade"), [(97.9, Grade.WARNING), (98.5, Grade.OK), (102.5, Grade.OK), (103.2, Grade.WARNING)]
)
def test_a_clock_may_differ_by_two_seconds_beyond_the_time_that_asking_took(theirs, grade):
    assert clock.compare("clock", theirs, before=100.0, after=101.0).grade is grade


def test_an_error_is_told_in_one_line_without_secrets():
    assert (
        without_secrets(ValueError("user a,\n password  hunter2 is wrong"), "hunter2", None, "")
        == "user a, password *** is wrong"
    )
    assert without_secrets(TimeoutError()) == "TimeoutError"
