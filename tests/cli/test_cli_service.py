"""`bots serve`, `migrate` and `doctor`."""

import json
import os
import re
import signal
import subprocess

from bots_client import Client, Version
from bots_service import __version__
from bots_service.cli.service import version_finding
from tests.cli.running import BOTS, CommandLine
from tests.ports import free_port
from tests.serving import running_service

SOON_S = 60.0


def test_the_service_takes_a_free_port_tells_it_and_keeps_its_data_in_the_folder(serve, tmp_path):
    process, line = serve("--port", "0", BOTS_PORT="1", BOTS_DATA_DIR="kept")
    with Client(re.findall(r"listens on (http://\S+)", line)[0]) as client:
        assert client.version().version
    assert (tmp_path / "kept" / "bots.db").exists()
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=SOON_S)
    assert (process.returncode, out) == (130, b"")


def test_the_tables_are_brought_up_to_date_once(tmp_path):
    bots = CommandLine("", tmp_path)
    first, second = (bots("migrate", "--json").json for _ in range(2))
    assert (first["before"], first["changed"]) == (None, True)
    assert second == {"before": first["newest"], "newest": first["newest"], "changed": False}
    elsewhere = f"sqlite:///{tmp_path}/elsewhere.db"
    assert "migrated" in bots.ok("migrate", "--database-url", elsewhere)
    assert "up to date" in bots.ok("migrate", BOTS_DATABASE_URL=elsewhere)


def test_help_comes_quickly_as_it_loads_nothing_heavy(tmp_path):
    code = "import sys; from bots_service.cli import app; print(*sys.modules)"
    loaded = subprocess.run([BOTS[0], "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "scipy", "pyarrow", "fastapi", "sqlalchemy", "pydantic", "httpx"} & set(loaded)


# --- doctor ----------------------------------------------------------------------------------------------------------


def by_subject(document):
    return {each["about"]: each for each in document["checks"]}


def test_a_fit_machine_and_a_running_service_have_no_problem(bots):
    found = bots("doctor", "--json").json
    assert found["problems"] == 0
    subjects = by_subject(found)
    assert f"version {__version__} " in subjects["service"]["said"]
    assert subjects["service"]["said"].endswith(f"at {bots.url}")
    assert subjects["service readiness"]["grade"] == "ok"
    assert list(bots.folder.iterdir()) == []


def test_problems_end_with_exit_code_1_and_passwords_are_never_shown(tmp_path):
    bots = CommandLine("", tmp_path)
    port = free_port()
    asked = {
        "BOTS_HOST": "0.0.0.0",  # noqa: S104 - what the doctor is to find
        "BOTS_DATABASE_URL": f"postgresql://bots:hunter2@127.0.0.1:{port}/bots",
        "BOTS_REDIS_URL": f"redis://:hunter2@127.0.0.1:{port}/0",
        "BOTS_DATABASE_TIMEOUT_S": "1",
    }
    done = bots("doctor", "--json", "--url", f"http://127.0.0.1:{port}", **asked)
    assert (done.code, done.err) == (1, "")
    found = json.loads(done.out)
    wrong = {each["about"] for each in found["checks"] if each["grade"] == "problem"}
    assert wrong == {"address", "database", "redis", "service"}
    assert found["problems"] == len(wrong)
    assert "hunter2" not in done.out
    plain = bots("doctor", **asked)
    assert (plain.code, plain.err) == (1, "")
    assert "hunter2" not in plain.out
    assert plain.out.splitlines()[-1].startswith("3 problems")


def test_another_service_at_the_address_is_a_problem(bots):
    done = bots("doctor", "--json", "--url", f"{bots.url}/elsewhere")  # where nothing is
    found = by_subject(json.loads(done.out))
    assert (done.code, found["service"]["grade"]) == (1, "problem")
    assert "--url" in found["service"]["advice"]


def test_a_service_that_wants_a_key_is_a_warning(tmp_path):
    key = "made-for-this-test-alone"
    with running_service(tmp_path / "service", admin_key=key) as service:
        bots = CommandLine(service.url, tmp_path)
        without, with_key = bots("doctor", "--json").json, bots("doctor", "--json", BOTS_API_KEY=key).json
    assert by_subject(without)["service"]["grade"] == "warning"
    assert "BOTS_API_KEY" in by_subject(without)["service"]["said"]
    assert by_subject(with_key)["service"]["grade"] == "ok"


def test_a_service_of_another_version_is_told():
    theirs = Version(version="0.0.1", numpy="1.26.4", schema="0001")
    found = version_finding(theirs, where="http://service")
    assert found.grade == "warning"
    assert found.said == "version 0.0.1 with tables 0001 and numpy 1.26.4 at http://service"
    assert found.advice.startswith(f"here {__version__} with 0003 and numpy ")
