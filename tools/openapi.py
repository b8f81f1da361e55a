"""Write the API's OpenAPI document, or check it.

    python -m tools.openapi            writes docs/openapi.json, which each release carries
    python -m tools.openapi --check    is that file what the code makes?

Run it in the repository's root.
"""

import json
import sys
from pathlib import Path

from bots_service.settings import Settings
from bots_service.wiring import build_app

WRITTEN = Path("docs/openapi.json")


def document() -> str:
    """Return the document as a file: the same text wherever it is made, and each change a line of its own."""
    # Built, but never started: it opens nothing. No variable of this machine is read, and no setting shows.
    made = build_app(Settings.model_construct()).openapi()
    return json.dumps(made, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def main(*arguments: str) -> int:
    """Do as the arguments say; return 1 if the check found something."""
    if arguments == ("--check",):
        if WRITTEN.read_text("utf-8") != document():
            print(f"{WRITTEN} is not what the code makes; write it: python -m tools.openapi")
            return 1
        print("API: the document is up to date")
        return 0
    if arguments:
        print(f"unknown arguments: {' '.join(arguments)}")
        return 2
    WRITTEN.write_text(document(), "utf-8")
    print(f"Wrote {WRITTEN}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
