"""What the figures were measured on, without saying whose machine it is."""

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIBRARIES = ("numpy", "scipy", "sqlalchemy", "psycopg", "redis", "uvicorn")


def describe_machine() -> dict[str, object]:
    """Return processor, memory and versions."""
    return {
        "processor": processor(),
        "cores": cores(),
        "memory_gib": round(memory_bytes() / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{library: metadata.version(library) for library in LIBRARIES},
    }


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """Return the processor's name, as the system tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def memory_bytes() -> int:
    """Return how much memory the machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def commit() -> tuple[str, bool]:
    """Return the commit that is checked out ("none" without one), and whether files differ from it."""
    head = _git("rev-parse", "--short=12", "HEAD")
    # Results and pages are written into the tree; they change nothing that is measured.
    changes = _git("status", "--porcelain", "--", ".", ":!benchmarks/results", ":!studies/results", ":!docs")
    return head or "none", changes != ""


def _git(*arguments: str) -> str | None:
    """Return what git says; None where it can't."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
