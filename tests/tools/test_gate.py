"""`.ci/run` runs each suite, the image's only where its tools are installed, and fails if one of them does."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("bash", "cat", "dirname", "grep", "id", "mktemp", "rm", "tail")
IMAGE_TOOLS = ("buildah", "debootstrap", "podman")
# Stands for make: it says what it was asked for, and one target fails.
MAKE = '#!/bin/sh\necho "asked for $*"\necho "1 passed in 0.1s"\n[ "$*" != "$FAILS" ]\n'


def gate(folder: Path, *tools: str, fails: str = "") -> tuple[int, str]:
    """Run the gate where these tools are installed and make does nothing; return its status and what it says."""
    for name in NEEDED:
        (folder / name).symlink_to(str(shutil.which(name)))
    for name in ("make", "nginx", *tools):
        (folder / name).write_text(MAKE, "utf-8")
        (folder / name).chmod(0o755)
    variables = {**os.environ, "PATH": str(folder), "FAILS": fails}
    done = subprocess.run([ROOT / ".ci/run"], env=variables, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_the_gate_runs_the_image_where_its_tools_are_installed(tmp_path: Path):
    status, said = gate(tmp_path, *IMAGE_TOOLS)
    assert status == 0
    assert "asked for test-image\n" in said
    assert "skipped" not in said


@pytest.mark.parametrize("missing", IMAGE_TOOLS)
def test_the_gate_says_that_it_skips_the_image_elsewhere(tmp_path: Path, missing: str):
    status, said = gate(tmp_path, *(tool for tool in IMAGE_TOOLS if tool != missing))
    assert status == 0
    assert "asked for test-image\n" not in said
    assert "make test-image is skipped: it needs podman, buildah and debootstrap, installed\n" in said


@pytest.mark.parametrize("suite", ["test", "test-image", "test-trainers", "--keep-going check"])
def test_a_suite_that_fails_fails_the_gate(tmp_path: Path, suite: str):
    status, said = gate(tmp_path, *IMAGE_TOOLS, fails=suite)
    assert status == 1
    assert said.endswith("1 passed in 0.1s\n")
