"""The Dockerfile, read. `make test-image` builds and runs it; `make soak` runs its install commands alone."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib

import pytest

from tests.deploy.files import ROOT, SETTINGS, dockerfile, settings_from
from tests.serving import free_port, running_service
from tests.sizes import SOAK

STEP_S = 600.0


def values(instruction):
    return [each["value"] for each in dockerfile() if each["instruction"] == instruction]


def environment():
    """The variables that the image sets."""
    return dict(pair.split("=", 1) for pair in shlex.split(" ".join(values("ENV"))))


def copied():
    """The sources that are copied from the checkout."""
    taken = [shlex.split(value) for value in values("COPY")]
    return [source for words in taken if not words[0].startswith("--from") for source in words[:-1]]


def healthcheck():
    """The command that tells whether the container is well."""
    (value,) = values("HEALTHCHECK")
    return json.loads(value.partition("CMD ")[2])


def test_what_is_copied_is_there_and_is_sent_to_the_engine():
    sent = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    assert set(copied()) == sent
    assert [source for source in sent if not (ROOT / source).exists()] == []


def test_what_packages_are_built_of_is_copied():
    for folder, where in (("", ROOT), ("client/", ROOT / "client")):
        project = tomllib.loads((where / "pyproject.toml").read_text("utf-8"))
        hatch = project["tool"]["hatch"]
        needed = [each["path"] for each in hatch["metadata"]["hooks"]["fancy-pypi-readme"]["fragments"]]
        needed += project["project"]["license-files"]
        wheel = hatch["build"]["targets"]["wheel"]
        needed += [*wheel["packages"], *wheel.get("force-include", {})]
        for path in needed:
            assert any(
                f"{folder}{path}" == source or f"{folder}{path}".startswith(f"{source}/") for source in copied()
            ), path


def test_it_starts_the_installed_command():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    (entry,), (command,) = values("ENTRYPOINT"), values("CMD")
    assert json.loads(entry)[0] in scripts
    assert json.loads(command) == ["serve"]


def test_its_variables_are_settings_with_proper_values_and_hold_no_secret(monkeypatch):
    ours = {name: value for name, value in environment().items() if name.startswith("BOTS_")}
    assert set(ours) <= SETTINGS
    assert not any(word in name for name in ours for word in ("KEY", "URL", "PASSWORD"))
    assert str(settings_from(ours, monkeypatch).port) == values("EXPOSE")[0]


def test_it_runs_as_a_number_that_is_not_root_and_owns_its_data():
    user = values("USER")[-1]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    number = user.partition(":")[0]
    folder = environment()["BOTS_DATA_DIR"]
    assert values("VOLUME") == [folder]
    assert any(
        f"--uid {number} " in run and f"--owner={number} --group={number} {folder}" in run for run in values("RUN")
    )


def test_the_health_check_tells_a_service_that_answers_from_one_that_does_not(tmp_path):
    command = [sys.executable, *healthcheck()[1:]]

    def code(port):
        return subprocess.run(
            command, env={**os.environ, "BOTS_PORT": str(port)}, capture_output=True, check=False
        ).returncode

    with running_service(tmp_path) as service:
        assert code(service.port) == 0
    assert code(free_port()) != 0


@pytest.mark.skipif(not SOAK, reason="takes minutes; `make soak` runs it")
def test_its_install_commands_make_a_command_that_runs(tmp_path):
    moved = {"/opt/bots": str(tmp_path / "bots"), "/wheels": str(tmp_path / "wheels")}
    source = ROOT / "service"
    files = [path.relative_to(source) for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    ran = 0
    for run in values("RUN"):
        if "/opt/bots" not in run:
            continue  # makes a user: only an image's own
        script = re.sub(r"^--mount=\S+\s+", "", run)
        for where, instead in moved.items():
            script = script.replace(where, instead)
        subprocess.run(["bash", "-euc", script], cwd=ROOT, check=True, capture_output=True, timeout=STEP_S)
        ran += 1
    assert ran == 3  # make the environment, install, remove what is not needed
    (installed,) = (tmp_path / "bots/lib").glob("*/site-packages")
    assert [path for path in files if not (installed / path).exists()] == []  # scripts of Redis, the demo's data
    done = subprocess.run(
        [tmp_path / "bots/bin/bots", "doctor", "--json"],
        cwd=tmp_path,
        env={
            **os.environ,
            **environment(),
            "PATH": os.environ["PATH"],
            "BOTS_DATA_DIR": "data",
            "BOTS_INSECURE": "true",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=STEP_S,
    )
    assert json.loads(done.stdout)["problems"] == 0, done
