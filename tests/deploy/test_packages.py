"""What is shipped to users: the packages, built as a release builds them, and installed outside the checkout.

The client installs alone, with httpx as its only dependency, also on the oldest Python that it promises.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from bots_client import Client, Task
from bots_service.storage.sql.migrate import current, head
from tests.deploy.files import ROOT
from tests.serving import running_service


def build(folder: Path) -> None:
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
    (package,) = built.glob(pattern)
    if package.suffix == ".whl":
        with ZipFile(package) as wheel:
            return {name for name in wheel.namelist() if ".dist-info/" not in name}
    with tarfile.open(package) as sdist:
        return {name.partition("/")[2] for name in sdist.getnames()}


def in_repository(*folders: str) -> set[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    files = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    return {file for file in files if file and (ROOT / file).is_file()}


def moved(files: set[str], old: str, new: str) -> set[str]:
    return {new + file.removeprefix(old) for file in files}


def test_the_wheels_hold_the_packages_and_nothing_else(built: Path):
    service = moved(in_repository("service/bots_service"), "service/", "")
    assert members(built, "bots_service-*.whl") == service | moved(in_repository("migrations"), "", "bots_service/")
    assert members(built, "bots_client-*.whl") == moved(in_repository("client/bots_client"), "client/", "")


def test_the_sdists_hold_what_the_wheels_are_made_of_and_nothing_else(built: Path):
    around = {"LICENSE", "README.md", "pyproject.toml", "PKG-INFO", ".gitignore"}
    service = in_repository("service/bots_service", "migrations")
    assert members(built, "bots_service-*.tar.gz") == service | around
    client = moved(in_repository("client/bots_client"), "client/", "")
    assert members(built, "bots_client-*.tar.gz") - {".gitignore"} == client | around - {".gitignore"}


# --- the client alone -------------------------------------------------------------------------------------------------

OLDEST = "3.10"
PROGRAM = """
import sys
from importlib import import_module
from importlib.metadata import distributions
from pkgutil import walk_packages
import bots_client
from bots_client import Client, DeadlineExceededError, ResilientClient, Selector
url, spool = sys.argv[1:]
own = [each.name for each in walk_packages(bots_client.__path__, "bots_client.")]
for name in own:
    if not name.startswith("bots_client.integrations."):
        import_module(name)
selector = Selector(ResilientClient(url, spool=spool), "guru", ids=["a", "b", "c"])
selection = selector.next(2)
assert not selection.is_local, selector.client.health
selector.observe(selection.ids[0], [1, 0])
assert selector.step().step == 1

with Client(url) as bots:
    assert bots.dataset("guru").created_at.tzinfo is not None
with Client(url, deadline_s=1e-6) as bots:
    try:
        bots.dataset("guru")
    except DeadlineExceededError:
        pass
    else:
        raise AssertionError("no deadline")
print(*sorted(one.metadata["Name"].lower() for one in distributions()))
"""


def found_pythons(version: str) -> Iterator[str]:
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for command in (f"python{version}", *map(str, installed)):
        if (
            shutil.which(command)
            and subprocess.run([command, "-c", ""], capture_output=True, check=False).returncode == 0
        ):
            yield command


def test_the_client_alone_selects_in_an_empty_environment_of_the_oldest_python_here(built: Path, tmp_path: Path):
    pythons = [*found_pythons(OLDEST), sys.executable]
    environment = tmp_path / "empty"
    subprocess.run([pythons[0], "-m", "venv", "--without-pip", environment], check=True)  # to install it takes seconds
    python = str(environment / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "--quiet"]
    subprocess.run(
        [*pip, "install", "--constraint", ROOT / "constraints.txt", *built.glob("bots_client-*.whl")], check=True
    )

    with running_service(tmp_path / "service") as service:
        with Client(service.url) as bots:
            bots.create_dataset("guru", [Task(task) for task in "abc"])
        command = [python, "-c", PROGRAM, service.url, str(tmp_path / "spool")]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    installed = set(done.stdout.split())
    needed = {"bots-client", "httpx", "httpcore", "h11", "anyio", "idna", "certifi", "typing_extensions"}
    assert installed - {"exceptiongroup"} == needed  # which anyio takes before Python 3.11
