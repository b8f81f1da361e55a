"""`bots serve` and `bots migrate`."""

import json
import os
import re
import signal
import subprocess
import time

import pytest

from bots_client import Client
from tests.cli.running import BOTS, CommandLine, clean_environment
from tests.servers import wait_until

SOON_S = 60.0


@pytest.fixture
def serving(tmp_path):
    """Start `bots serve` in the folder; gives the process and the address that it tells."""
    processes = []

    def start(*arguments, **environment):
        log = tmp_path / "said"
        with log.open("wb") as said:
            process = subprocess.Popen(
                [*BOTS, "serve", *arguments],
                cwd=tmp_path,
                env=clean_environment(**environment),
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
            )
        processes.append(process)
        give_up = time.monotonic() + SOON_S
        while not (told := re.search(r"listens on (http://\S+)", log.read_text())):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < give_up
            time.sleep(0.05)
        return process, told[1]

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_the_service_takes_a_free_port_tells_it_and_keeps_its_data_in_the_folder(serving, tmp_path):
    process, url = serving("--port", "0", BOTS_PORT="1", BOTS_DATA_DIR="kept")
    with Client(url) as client:
        assert client.version().version
    assert (tmp_path / "kept" / "bots.db").exists()
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=SOON_S)
    assert (process.returncode, out) == (130, b"")


def test_a_misspelt_variable_is_named_when_the_service_starts(serving, tmp_path):
    serving("--port", "0", BOTS_PROT="4711", BOTS_SPOOL="spool")
    told = (tmp_path / "said").read_text()
    assert [line for line in told.splitlines() if "BOTS_PROT" in line and "BOTS_PORT" in line]
    assert "4711" not in told  # it may be a secret
    assert "BOTS_SPOOL" not in told


def test_the_tables_are_brought_up_to_date_once(tmp_path):
    bots = CommandLine("", tmp_path)
    assert "run `bots migrate`" in bots("migrate", "--check").assert_one_line(1)
    assert not list(tmp_path.iterdir())
    first, second = (bots("migrate", "--json").json for _ in range(2))
    assert (first["before"], first["changed"]) == (None, True)
    assert second == {"before": first["newest"], "newest": first["newest"], "changed": False}
    assert "up to date" in bots.ok("migrate", "--check")
    elsewhere = f"sqlite:///{tmp_path}/elsewhere.db"
    assert "migrated" in bots.ok("migrate", "--database-url", elsewhere)
    assert "up to date" in bots.ok("migrate", BOTS_DATABASE_URL=elsewhere)


def test_help_comes_quickly_as_it_loads_nothing_heavy(tmp_path):
    code = "import sys; from bots_service.cli import app; print(*sys.modules)"
    loaded = subprocess.run([BOTS[0], "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "scipy", "pyarrow", "fastapi", "sqlalchemy", "pydantic", "httpx"} & set(loaded)


def test_the_log_is_json_or_for_people_as_an_option_says(serving, tmp_path):
    _, url = serving("--port", "0", "--log-format", "json", "--log-level", "debug")
    with Client(url) as client:
        client.version()
    wait_until(lambda: '"request"' in (tmp_path / "said").read_text())  # it is written once the answer is on its way
    greeting, *lines = (tmp_path / "said").read_text().splitlines()
    assert greeting.startswith("BOTS listens on ")
    told = [json.loads(line) for line in lines]
    assert [line["route"] for line in told if line["event"] == "request"] == ["/version"]
