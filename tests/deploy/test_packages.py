"""What is shipped to users: the packages, built as a release builds them, and installed outside the checkout."""

import os
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

from bots_service.storage.sql.migrate import current, head
from tests.deploy.files import ROOT


def build(folder: Path) -> None:
    """Put both packages into a folder, as `make dist` does."""
    for source in (ROOT, ROOT / "client"):
        # The default of `build`: the sdist first, then the wheel from it, so that what the sdist lacks is missed.
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source)]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1750000000"})


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the packages lie: both wheels, each made from its sdist."""
    folder = tmp_path_factory.mktemp("dist")
    build(folder)
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
    asked = "import bots_service.storage.sql.migrate as m; print(m.revisions_folder())"
    folder = Path(run([installed / "python", "-c", asked], tmp_path).strip())
    assert folder.is_relative_to(installed.parent), "the checkout's migrations were used"


def members(built: Path, pattern: str) -> set[str]:
    """Return the files in a package, without the folder that an sdist puts all in."""
    (package,) = built.glob(pattern)
    if package.suffix == ".whl":
        with ZipFile(package) as wheel:
            return {name for name in wheel.namelist() if ".dist-info/" not in name}
    with tarfile.open(package) as sdist:
        return {name.partition("/")[2] for name in sdist.getnames()}


def in_repository(*folders: str) -> set[str]:
    """Return the files that git has, or would take."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    files = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    return {file for file in files if file and (ROOT / file).is_file()}


def fetched() -> set[str]:
    """Return the files of the charts' library, which git does not have: installing this checkout fetched them."""
    folder = ROOT / "service/bots_service/api/page/vendor"
    return {str(file.relative_to(ROOT)) for file in folder.rglob("*") if file.is_file()}


def moved(files: set[str], old: str, new: str) -> set[str]:
    return {new + file.removeprefix(old) for file in files}


def test_the_wheels_hold_the_packages_and_nothing_else(built: Path):
    service = moved(in_repository("service/bots_service") | fetched(), "service/", "")
    assert members(built, "bots_service-*.whl") == service | moved(in_repository("migrations"), "", "bots_service/")
    assert members(built, "bots_client-*.whl") == moved(in_repository("client/bots_client"), "client/", "")


def test_the_sdists_hold_what_the_wheels_are_made_of_and_nothing_else(built: Path):
    around = {"LICENSE", "README.md", "pyproject.toml", "PKG-INFO", ".gitignore"}
    service = in_repository("service/bots_service", "migrations") | fetched()
    assert members(built, "bots_service-*.tar.gz") == service | around | {"hatch_build.py"}
    client = moved(in_repository("client/bots_client"), "client/", "")
    assert members(built, "bots_client-*.tar.gz") - {".gitignore"} == client | around - {".gitignore"}
