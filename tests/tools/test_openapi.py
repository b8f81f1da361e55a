"""The kept OpenAPI document is the one the service gives, from any machine, and its check notices each fault."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.openapi import RELEASED, WRITTEN, document, main, problems

ROOT = Path(__file__).parents[2]
NOW = document()


def with_version(version: str) -> str:
    return json.dumps({**json.loads(NOW), "info": {"version": version}})


def without_select(version: str) -> str:
    content = json.loads(with_version(version))
    del content["paths"]["/select"]
    return json.dumps(content)


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


def test_the_kept_document_is_what_the_code_makes_and_breaks_nothing(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    assert (main("--check"), capsys.readouterr().out) == (0, "API: the document is up to date and breaks nothing\n")


def test_a_document_that_is_not_up_to_date_is_reported():
    [problem] = problems(NOW, NOW.replace("BOTS selector", "BOTS"), NOW)
    assert problem == "docs/openapi.json is not what the code makes; write it: python -m tools.openapi"


def test_a_break_is_reported_until_the_version_allows_it():
    [problem] = problems(without_select("0.1.1"), without_select("0.1.1"), with_version("0.1.0"))
    assert problem == "breaks 0.1.0: POST /select: it is gone"
    assert problems(without_select("0.2.0"), without_select("0.2.0"), with_version("0.1.0")) == []


@pytest.mark.parametrize(("arguments", "written"), [((), [WRITTEN]), (("--release",), [WRITTEN, RELEASED])])
def test_it_writes_the_document_and_at_a_release_what_later_ones_are_compared_with(
    tmp_path, monkeypatch, arguments, written
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    assert main(*arguments) == 0
    assert sorted(tmp_path.glob("docs/*")) == sorted(tmp_path / path for path in written)
    assert {path.read_text("utf-8") for path in written} == {NOW}
