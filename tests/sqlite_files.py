"""SQLite files with the service's tables, copied from one that was migrated: that is quicker than migrating each."""

import tempfile
from functools import cache
from pathlib import Path

from bots_service.storage.sql.migrate import upgrade


def migrated_file(folder: Path) -> Path:
    """Return the SQLite file of a service whose data lies in this folder, with empty tables unless it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "bots.db"
    if not file.exists():
        file.write_bytes(_migrated())
    return file


@cache
def _migrated() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "bots.db")
        upgrade(f"sqlite:///{file}")
        return file.read_bytes()
