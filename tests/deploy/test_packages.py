"""What is shipped to users: the packages, built as a release builds them, and installed outside the checkout."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from bots_service.storage.migrate import current, head
from tests.deploy.files import ROOT


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the packages lie: both wheels, each made from its sdist."""
    folder = tmp_path_factory.mktemp("dist")
    for source in (ROOT, ROOT / "client"):
        # The default of `build`: the sdist first, then the wheel from it, so that what the sdist lacks is missed.
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source)]
        subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that holds the two wheels; other packages come from this one."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", "--no-index", "--no-deps", *map(str, built.glob("*.whl"))], check=True)
    (libraries,) = folder.glob("lib/*/site-packages")
    # Taken from a .pth file, a folder's own .pth files are not read: the checkout stays out.
    (libraries / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def run(command: list[str | Path], folder: Path, **variables: str) -> str:
    """Return what a command of the environment says, run in a folder outside the checkout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BOTS_", "PYTHON"))}
    done = subprocess.run(command, cwd=folder, env=kept | variables, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_installed_service_migrates_its_database(installed: Path, tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'bots.db'}"
    run([installed / "bots", "migrate"], tmp_path, BOTS_DATABASE_URL=url)
    assert current(url) == head()
    asked = "import bots_service.storage.migrate as m; print(m.revisions_folder())"
    folder = Path(run([installed / "python", "-c", asked], tmp_path).strip())
    assert folder.is_relative_to(installed.parent), "the checkout's migrations were used"
