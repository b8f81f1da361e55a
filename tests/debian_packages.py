"""Unpacks packages of Debian into a folder: nothing is installed, and nothing of them starts.

    python -m tests.debian_packages --suite sid build/prometheus-sid prometheus

Without a suite they come from what this machine's apt is set up for. With one they come from that suite of the same
server, whose lists are kept in the folder, so that the machine's own apt knows nothing of it.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class PackagesError(Exception):
    """The packages can't be had here; the message says why."""


def unpack(folder: Path, packages: list[str], suite: str | None = None) -> None:
    """Put what the packages hold below a folder, which is made anew.

    Args:
        folder: where to.
        packages: their names; what they depend on is not fetched.
        suite: a suite of Debian, such as "sid"; that of this machine if it is None.

    Raises:
        PackagesError: there is no apt here, or it doesn't find them.
    """
    if shutil.which("apt-get") is None:
        raise PackagesError("Debian's packages are needed, and apt-get to get them")
    shutil.rmtree(folder, ignore_errors=True)
    downloads = folder / "downloads"
    downloads.mkdir(parents=True)
    apt = ["apt-get", "-qq", *([] if suite is None else lists_of(suite, folder.absolute()))]
    if suite is not None:
        _run([*apt, "update"], downloads)
    try:
        _run([*apt, "download", *packages], downloads)
    except PackagesError:  # the lists are old, or there are none yet
        _run([*apt, "update"], downloads)
        _run([*apt, "download", *packages], downloads)
    for package in sorted(downloads.glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(package.absolute()), str(folder.absolute())], downloads)
    shutil.rmtree(downloads)


def lists_of(suite: str, folder: Path) -> list[str]:
    """Return the options by which apt knows one suite alone, and keeps all that it keeps in a folder."""
    apt = folder / "apt"
    for part in ("lists/partial", "cache/archives/partial"):
        (apt / part).mkdir(parents=True)
    source = apt / "suite.list"
    source.write_text(f"deb [signed-by={KEYS}] {server()} {suite} main\n", "utf-8")
    settings = {
        "Dir::Etc::SourceList": source,
        "Dir::Etc::SourceParts": "-",
        "Dir::State::Lists": apt / "lists",
        "Dir::Cache": apt / "cache",
    }
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def server() -> str:
    """Return where this machine's apt gets Debian from.

    Raises:
        PackagesError: it doesn't say.
    """
    told = _run(["apt-get", "indextargets", "--format", "$(SITE) $(ORIGIN) $(COMPONENT)", "Created-By: Packages"])
    sites = [site for site, *rest in map(str.split, told.splitlines()) if rest == ["Debian", "main"]]
    if not sites:
        raise PackagesError("apt knows no server of Debian: run `apt-get update`")
    return sites[0]


def _run(command: list[str], folder: Path | None = None) -> str:
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PackagesError(f"{' '.join(command[:2])}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.debian_packages", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("packages", nargs="+")
    parser.add_argument("--suite")
    wanted = parser.parse_args()
    try:
        unpack(wanted.folder, wanted.packages, wanted.suite)
    except PackagesError as error:
        sys.exit(str(error))
