"""Write the dashboards: `python -m tools.dashboards` in the repository's root; with --check, say what differs."""

import argparse
import json
import sys
from pathlib import Path

from tools.dashboards.operations import OPERATIONS
from tools.dashboards.training import TRAINING

FOLDER = Path("deploy/grafana/dashboards")
BOARDS = {"training.json": TRAINING, "operations.json": OPERATIONS}


def main() -> int:
    """Write what differs, or only name it; return 1 if that was asked for and anything does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    texts = {FOLDER / name: json.dumps(board, indent=1, ensure_ascii=False) + "\n" for name, board in BOARDS.items()}
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text("utf-8") != text]
    for path in stale:
        if check:
            print(f"{path}: not what tools/dashboards makes: `python -m tools.dashboards` writes it")
        else:
            path.write_text(texts[path], "utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
