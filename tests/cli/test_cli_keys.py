"""`bots keys`, and `bots serve` where others can reach it."""

import re
import sqlite3
from datetime import datetime, timedelta

import httpx
import pytest

from bots_service.cli.app import app
from bots_service.storage.sql.migrate import upgrade
from tests.cli.running import CommandLine, Done
from tests.serving import API_KEY, running_service

OPERATOR = "the-operators-own-key"
SOON_S = 60.0


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    with running_service(tmp_path_factory.mktemp("guarded"), admin_key=OPERATOR) as running:
        yield running


@pytest.fixture
def bots(guarded, tmp_path, monkeypatch):
    """Commands that have the operator's key."""
    line = CommandLine(guarded.url, tmp_path)
    return lambda *arguments, **more: line(*arguments, **{"BOTS_API_KEY": OPERATOR, **more})


def test_a_key_is_made_used_listed_and_revoked(bots):
    shown = bots("keys", "create", "root", "--scope", "admin", "--dataset", "*").out
    assert API_KEY.search(shown.encode())
    assert "not shown again" in shown
    made = bots(
        *("keys", "create", "trainer 7", "--scope", "select", "--scope", "report", "--dataset", "guru*"),
        *("--dataset", "b?", "--days", "1.5", "--json"),
    ).json
    assert API_KEY.fullmatch(made["key"].encode())
    assert (made["scopes"], made["datasets"]) == (["report", "select"], ["guru*", "b?"])
    age = datetime.fromisoformat(made["expires_at"]) - datetime.fromisoformat(made["created_at"])
    assert abs(age - timedelta(days=1.5)) < timedelta(seconds=1)
    assert "no dataset 'guru'" in bots("datasets", "show", "guru", BOTS_API_KEY=made["key"]).assert_one_line(1)
    line = bots("datasets", "show", "other", BOTS_API_KEY=made["key"]).assert_one_line(1)
    assert "has no access to dataset 'other', only to guru*, b?" in line
    assert line.endswith("; set BOTS_API_KEY to a key with this permission\n")

    mine = bots("whoami", BOTS_API_KEY=made["key"])
    assert re.search(r"scopes\s+report, select\s+datasets\s+guru\*, b\?\s+name\s+trainer 7", mine.out)
    assert bots("whoami", "--json").json["name"] == "BOTS_ADMIN_KEY"

    listed = bots("keys", "list")
    assert re.search(rf"{made['id']}\s+trainer 7\s+report, select\s+guru\*, b\?\s+20", listed.out)
    assert made["key"][-64:] not in listed.out + bots("keys", "list", "--json").out
    assert bots("keys", "revoke", made["id"]).out == f"key {made['id']} is revoked\n"
    line = bots("datasets", "show", "guru", BOTS_API_KEY=made["key"]).assert_one_line(1)
    assert "invalid, expired or revoked" in line
    assert "; set BOTS_API_KEY" in line
    assert "revoked at" in bots("keys", "list").out
    assert made["key"][-64:] not in line


def test_a_whole_key_is_no_id_and_is_not_sent(bots):
    line = bots("keys", "revoke", f"bots_{'0' * 16}_{'1' * 64}").assert_one_line(1)
    assert "that is a whole key; pass its id" in line
    assert "1111" not in line
    assert "`bots keys list`" in bots("keys", "revoke", "0" * 16).assert_one_line(1)


# --- serve -----------------------------------------------------------------------------------------------------------


def test_where_others_can_reach_it_it_listens_once_there_was_any_key(serve, tmp_path):
    for _ in range(2):  # also once the tables are there
        process, line = serve("--host", "0.0.0.0", "--port", "0", "--data-dir", tmp_path)  # noqa: S104
        assert "bots: 0.0.0.0 is reachable from other machines, and the service requires no keys" in line
        assert "set BOTS_ADMIN_KEY" in line
        assert process.wait(SOON_S) == 1
        upgrade(f"sqlite:///{tmp_path / 'bots.db'}")
    with sqlite3.connect(tmp_path / "bots.db") as database:
        columns = "id, name, digest, scopes, datasets, created_at, revoked_at"
        database.execute(f"INSERT INTO api_keys ({columns}) VALUES ('0', 'x', '0', 'read', 'a', 1.0, 2.0)")  # noqa: S608
    database.close()
    _, line = serve("--host", "0.0.0.0", "--port", "0", "--data-dir", tmp_path)  # noqa: S104
    port = re.search(r"listens on http://0\.0\.0\.0:(\d+)", line)
    assert port
    headers = {"Authorization": f"Bearer {OPERATOR}"}
    assert httpx.get(f"http://127.0.0.1:{port[1]}/datasets", headers=headers).status_code == 401


@pytest.mark.parametrize("key", ["", "short", "with a blank in it", "x" * 513, "sch\u00f6ner-langer-key"])
def test_a_key_of_the_operator_that_is_soon_guessed_is_refused(capsys, monkeypatch, key):
    monkeypatch.setenv("BOTS_ADMIN_KEY", key)
    with pytest.raises(SystemExit) as left:
        app(["serve", "--port", "0"])
    written = capsys.readouterr()
    assert isinstance(left.value.code, int)
    line = Done(left.value.code, written.out, written.err).assert_one_line(2)
    assert "BOTS_ADMIN_KEY" in line
    assert "must have 16 to 512 printable characters" in line
    assert not key or key not in line
