"""Real packages of trainers, as they come from PyPI, without all that they would pull in.

A trainer's wheel is small; what it depends on is not, and two versions of one trainer cannot share an environment. So
each is unpacked into a folder of its own, never committed, and tests put that folder on a path.
"""

import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).parents[2] / "build" / "trainers"


def folder_of(requirement: str) -> Path:
    """Return the folder of a package, such as "verl==0.9.1", fetched the first time.

    Raises:
        subprocess.CalledProcessError: pip could not fetch it; its words are on stderr.
    """
    folder = HOME / requirement
    done = folder / ".done"
    if not done.exists():
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet", "install"]
        subprocess.run(
            [*pip, "--no-deps", "--no-compile", "--upgrade", "--target", str(folder), requirement], check=True
        )
        done.touch()
    return folder
