"""What the images are made of here, where no registry of images is: Debian's packages, and wheels that pip fetches.

The machine's own apt and pip fetch them, however they are set up. All of it is kept in `build/image`.
"""

import shutil
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.deploy.files import ROOT, dockerfile
from tests.image.engine import BUILD_S, FOLDER, build, has_image, podman, run

SUITE = "bookworm"
SERVERS = "localhost/debian-servers"
IMAGE = "localhost/bots:local"
WHEELS = FOLDER / "wheels"
# The packages of each image; Debian's Python stands in for that of the Dockerfile's base.
PACKAGES = {
    "base": ("ca-certificates", "python3", "python3-venv"),
    "servers": ("postgresql", "redis-server"),
}
# Debian's Python is older than 3.11.3, where asyncio has it, so redis wants it.
OLD_PYTHONS_NEED = ["async-timeout>=4.0.3"]


def base_image() -> str:
    """Return the name of the image that the Dockerfile begins with, as engines write it out."""
    (name,) = {each["value"].split()[0] for each in dockerfile() if each["instruction"] == "FROM"}
    return f"docker.io/library/{name}"


def import_bases() -> None:
    """Make the images of Debian's packages, unless they are there."""
    wanted = {"base": base_image(), "servers": SERVERS}
    missing = {part: name for part, name in wanted.items() if not has_image(name)}
    with ThreadPoolExecutor() as pool:
        list(pool.map(unpack, missing))
    for part, name in missing.items():
        tree = FOLDER / part
        run("tar", "--create", "--file", f"{tree}.tar", "--directory", str(tree), ".", timeout_s=BUILD_S)
        podman("import", f"{tree}.tar", name, timeout_s=BUILD_S)
        tree.with_suffix(".tar").unlink()
        shutil.rmtree(tree)


def unpack(part: str) -> None:
    """Put a Debian with the packages of a part into a folder."""
    tree = FOLDER / part
    shutil.rmtree(tree, ignore_errors=True)
    packages = f"--include={','.join(PACKAGES[part])}"
    run("debootstrap", "--variant=minbase", packages, SUITE, tree, *mirror(), timeout_s=BUILD_S)
    for leftover in (tree / "var/cache/apt/archives").glob("*.deb"):
        leftover.unlink()
    if part == "base":
        (tree / "usr/bin/python").symlink_to("python3")  # Debian has no `python`; images of Python do


def mirror() -> list[str]:
    """Return where this machine's apt gets Debian from; nothing if it doesn't say, for debootstrap's default."""
    told = run("apt-get", "indextargets", "--format", "$(SITE) $(CODENAME) $(COMPONENT)", "Created-By: Packages")
    return [line.split()[0] for line in told.splitlines() if line.split()[1:] == [SUITE, "main"]][:1]


def requirements() -> list[str]:
    """Return what building and running our packages needs, other than themselves."""
    service, client = (
        tomllib.loads((folder / "pyproject.toml").read_text("utf-8")) for folder in (ROOT, ROOT / "client")
    )
    project = service["project"]
    wanted = [*service["build-system"]["requires"], *project["dependencies"]]
    wanted += [*client["project"]["dependencies"], *OLD_PYTHONS_NEED]
    return [each for each in wanted if not each.startswith("bots-client")]


def fetch_wheels() -> None:
    """Put all wheels that the build installs into a folder, by this environment's pip."""
    version = base_image().partition(":")[2].removesuffix("-slim")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download", "--dest", str(WHEELS)]
    kind = ["--only-binary=:all:", f"--python-version={version}", "--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([*pip, *kind, *requirements()], check=True, capture_output=True, timeout=BUILD_S)


def build_image() -> None:
    """Build the Dockerfile's image from the wheels, with no network."""
    settings = FOLDER / "pip.conf"
    settings.write_text("[global]\nno-index = true\nfind-links = /wheels-of-the-index\n", "utf-8")
    mounted = {WHEELS: "/wheels-of-the-index", settings: "/etc/pip.conf"}
    volumes = [word for source, target in mounted.items() for word in ("--volume", f"{source}:{target}:ro")]
    build(ROOT, IMAGE, *volumes)


def build_next(folder: Path) -> str:
    """Build an image that a deployment can be upgraded to, and return its name."""
    (folder / "Dockerfile").write_text(f"FROM {IMAGE}\nLABEL of=upgrade\n", "utf-8")
    build(folder, "localhost/bots:next")
    return "localhost/bots:next"
