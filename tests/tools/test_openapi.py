"""The kept OpenAPI document is the one the service gives, from any machine, and its check notices each fault."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tools.openapi import WRITTEN, document, main

ROOT = Path(__file__).parents[2]
NOW = document()


def test_another_process_with_other_settings_makes_the_same_bytes(tmp_path):
    environment = {**os.environ, "PYTHONHASHSEED": "7", "BOTS_DATA_DIR": "/nowhere", "BOTS_PORT": "9", "LC_ALL": "C"}
    made = subprocess.run(
        [sys.executable, "-c", "import sys, tools.openapi as o; sys.stdout.buffer.write(o.document().encode())"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        check=True,
    )
    assert made.stdout == NOW.encode()


def test_no_description_keeps_the_indentation_of_its_source():
    schemas = json.loads(NOW)["components"]["schemas"].values()
    lines = [line for schema in schemas for line in schema.get("description", "").splitlines()]
    assert len(lines) > len(schemas) / 2  # else this would prove nothing
    assert [line for line in lines if line != line.strip()] == []


def test_the_kept_document_is_what_the_code_makes(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert (main("--check"), capsys.readouterr().out) == (0, "API: the document is up to date\n")


def test_a_document_that_is_not_up_to_date_is_reported_until_it_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    WRITTEN.parent.mkdir()
    WRITTEN.write_text(NOW.replace("BOTS selector", "BOTS"), "utf-8")
    assert main("--check") == 1
    assert (
        capsys.readouterr().out == "docs/openapi.json is not what the code makes; write it: python -m tools.openapi\n"
    )
    assert main() == 0
    assert WRITTEN.read_text("utf-8") == NOW
    assert main("--check") == 0


def test_an_argument_that_it_does_not_know_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main("--release") == 2
    assert list(tmp_path.iterdir()) == []
