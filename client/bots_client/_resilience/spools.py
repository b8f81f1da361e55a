"""Where the spools of a user lie."""

import hashlib
import json
import os
import re
import tempfile
from pathlib import Path

from bots_client._resilience.spool import Spool

LONGEST_NAME = 80


def spool_of(folder: Path, *, url: str, dataset: str, run: str, limit_bytes: int) -> Spool:
    """Return the spool of a run: a file whose name tells people which, and machines exactly which."""
    exact = hashlib.sha256(json.dumps([url, dataset, run]).encode()).hexdigest()[:16]
    readable = re.sub(r"[^A-Za-z0-9._-]+", "_", f"{dataset}.{run}")[:LONGEST_NAME]
    return Spool(folder / f"{readable}-{exact}.db", url=url, dataset=dataset, run=run, limit_bytes=limit_bytes)


def spool_folder(given: str | os.PathLike[str] | None) -> Path:
    """Return the folder for spools, made if it is missing: the argument, else BOTS_SPOOL, else one of the user's.

    Raises:
        ValueError: nothing can be written into the one that was asked for.
    """
    asked_for = given or os.environ.get("BOTS_SPOOL")
    if asked_for:
        folder = Path(asked_for).expanduser()
        try:
            _make_writable(folder)
        except OSError as error:
            raise ValueError(
                f"reports cannot be kept in {folder}: {error}; pass another spool= or BOTS_SPOOL"
            ) from error
        return folder
    state = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state")
    for candidate in (state / "bots", Path(tempfile.gettempdir()) / f"bots-{os.getuid()}"):
        try:
            folder = candidate.expanduser()
            _make_writable(folder)
        except (OSError, RuntimeError):  # RuntimeError: the user has no home
            continue
        return folder
    raise ValueError("no folder for reports can be written to; pass spool= or set BOTS_SPOOL")


def _make_writable(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid() and folder.parent == Path(tempfile.gettempdir()):
        raise PermissionError(f"{folder} is another user's")
    with tempfile.TemporaryFile(dir=folder):
        pass
