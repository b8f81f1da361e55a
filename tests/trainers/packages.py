"""Real packages of trainers, as they come from PyPI, without all that they would pull in.

A trainer's wheel is small; what it depends on is not, and two versions of one trainer cannot share an environment. So
each is unpacked into a folder of its own, never committed, and tests put that folder on a path.
"""

import shutil
import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).parents[2] / "build" / "trainers"


def folder_of(*requirements: str) -> Path:
    """Return the folder of packages, such as "verl==0.9.1", fetched the first time; it is named after the first.

    Raises:
        subprocess.CalledProcessError: pip could not fetch them; its words are on stderr.
    """
    folder = HOME / requirements[0]
    done, asked = folder / ".done", "\n".join(requirements)
    if not done.exists() or done.read_text() != asked:
        what = ["install", "--quiet", "--no-deps", "--target", str(folder), *requirements]
        # Where uv can't, or is not there, pip installs, as in the Makefile; uv takes a fifth of its processor time.
        if subprocess.run([sys.executable, "-m", "uv", "pip", *what], check=False).returncode != 0:
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
            subprocess.run([*pip, *what, "--no-compile", "--upgrade"], check=True)
        shutil.rmtree(folder / "tests", ignore_errors=True)  # some wheels bring theirs, which would hide ours
        done.write_text(asked)
    return folder
