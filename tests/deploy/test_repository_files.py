"""What a host of repositories reads: workflows and templates."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.deploy.files import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def workflow(name):
    return yaml.safe_load((ROOT / ".github/workflows" / name).read_text("utf-8"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_follows_the_schema(path):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_workflows_give_nobody_a_way_in():
    # Actions pinned by commit, no credentials left for later steps, no code made of what outsiders write.
    command = [str(Path(sys.executable).with_name("zizmor")), "--offline", "--no-progress", *map(str, WORKFLOWS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_targets_that_exist(path):
    targets = {line.split(":")[0] for line in (ROOT / "Makefile").read_text("utf-8").splitlines() if ":" in line}
    steps = [step for job in yaml.safe_load(path.read_text("utf-8"))["jobs"].values() for step in job["steps"]]
    asked = [step["run"].split()[1] for step in steps if step.get("run", "").startswith("make ")]
    assert asked
    assert [target for target in asked if target not in targets] == []


@pytest.mark.parametrize(("job", "project"), [("service", "pyproject.toml"), ("client", "client/pyproject.toml")])
def test_the_matrix_begins_with_the_oldest_python_that_is_promised(job, project):
    promised = tomllib.loads((ROOT / project).read_text("utf-8"))["project"]["requires-python"]
    pythons = workflow("tests.yml")["jobs"][job]["strategy"]["matrix"]["python"]
    assert promised == f">={pythons[0]}"
    assert pythons[-1] == "3.14"


def test_packages_are_published_for_tags_alone():
    # YAML reads the key `on` as true.
    assert workflow("publish.yml")[True] == {"push": {"tags": ["v*"]}}
