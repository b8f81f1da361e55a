"""What a host of repositories reads, workflows and templates, and what they and people run by make."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import bots_service
from tests.deploy.files import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):(?!=)", MAKEFILE, re.MULTILINE))


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
    steps = [step for job in yaml.safe_load(path.read_text("utf-8"))["jobs"].values() for step in job["steps"]]
    asked = [step["run"].split()[1] for step in steps if step.get("run", "").startswith("make ")]
    assert asked
    assert [target for target in asked if target not in TARGETS] == []


def test_the_version_has_a_section_in_the_changelog_and_is_the_one_to_cite():
    version = bots_service.__version__
    sections = re.findall(
        r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    )
    assert sections[0] == ("Unreleased", "")
    dates = dict(sections)
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert (cited["version"], cited["date-released"].isoformat()) == (version, dates[version])


@pytest.mark.parametrize(("tag", "published"), [("v0.1.0", True), ("v0.1", False), ("v0.1.1", False), ("v1.0", False)])
def test_a_tag_publishes_the_version_that_it_names(tag, published, tmp_path):
    (check,) = (
        step["run"] for step in workflow("publish.yml")["jobs"]["packages"]["steps"] if "GITHUB_REF_NAME" in str(step)
    )
    (tmp_path / "dist").mkdir()
    for name in ("client", "service"):
        (tmp_path / f"dist/bots_{name}-0.1.0.tar.gz").touch()
        (tmp_path / f"dist/bots_{name}-0.1.0-py3-none-any.whl").touch()
    done = subprocess.run(["bash", "-c", check], cwd=tmp_path, env={**os.environ, "GITHUB_REF_NAME": tag}, check=False)
    assert (done.returncode == 0) == published


@pytest.mark.parametrize(("job", "project"), [("service", "pyproject.toml"), ("client", "client/pyproject.toml")])
def test_the_matrix_begins_with_the_oldest_python_that_is_promised(job, project):
    promised = tomllib.loads((ROOT / project).read_text("utf-8"))["project"]["requires-python"]
    pythons = workflow("tests.yml")["jobs"][job]["strategy"]["matrix"]["python"]
    assert promised == f">={pythons[0]}"
    assert pythons[-1] == "3.14"


def test_packages_are_published_for_tags_alone():
    # YAML reads the key `on` as true.
    assert workflow("publish.yml")[True] == {"push": {"tags": ["v*"]}}
