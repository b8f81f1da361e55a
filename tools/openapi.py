"""Write the API's OpenAPI document, or check it.

    python -m tools.openapi              writes docs/openapi.json, which each release carries
    python -m tools.openapi --check      is that file up to date, and does nothing in it break the newest release?
    python -m tools.openapi --release    at a release: later changes are compared with the document as it is now

Run it in the repository's root.
"""

import json
import sys
from pathlib import Path
from typing import Any

from bots_service.settings import Settings
from bots_service.wiring import build_app
from tools.breaking_changes import breaking_changes, may_break

WRITTEN = Path("docs/openapi.json")
RELEASED = Path("docs/openapi-released.json")


def document() -> str:
    """Return the document as a file: the same text wherever it is made, and each change a line of its own."""
    # Built, but never started: it opens nothing. No variable of this machine is read, and no setting shows.
    made = build_app(Settings.model_construct()).openapi()
    return json.dumps(made, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def problems(made: str, written: str, released: str) -> list[str]:
    """Return what is wrong with the document that is kept, one line each.

    Args:
        made: the document as the code makes it now.
        written: as it is kept.
        released: as it was in the newest release.
    """
    found = [] if made == written else [f"{WRITTEN} is not what the code makes; write it: python -m tools.openapi"]
    old, new = json.loads(released), json.loads(made)
    before, now = _version(old), _version(new)
    if not may_break(before, now):
        found += [f"breaks {before}: {change}" for change in breaking_changes(old, new)]
    return found


def main(*arguments: str) -> int:
    """Do as the arguments say; return 1 if a check found something."""
    if arguments == ("--check",):
        found = problems(document(), WRITTEN.read_text("utf-8"), RELEASED.read_text("utf-8"))
        for problem in found:
            print(problem)
        print(f"API: {len(found)} problems" if found else "API: the document is up to date and breaks nothing")
        return 1 if found else 0
    targets = {(): [WRITTEN], ("--release",): [WRITTEN, RELEASED]}[arguments]
    for path in targets:
        path.write_text(document(), "utf-8")
        print(f"Wrote {path}")
    return 0


def _version(content: dict[str, Any]) -> str:
    version: str = content["info"]["version"]
    return version


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
