"""`python -m bots_client spool`: list the reports that wait on this machine, or send them."""

import argparse
import json
import sqlite3
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bots_client import __version__
from bots_client._resilience.client import ResilientClient
from bots_client._resilience.spool import Spool, about, spool_folder

SEND_S = 60.0  # longest duration for each run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 1 if reports still wait after --send."""
    chosen = _parser().parse_args(arguments)
    try:
        folder = spool_folder(None)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    belong: dict[Path, tuple[str, str, str]] = {}
    for file in sorted(folder.glob("*.db")):
        try:
            belong[file] = about(file)
        except sqlite3.Error as error:
            sys.stderr.write(f"{file} is damaged ({error}); the next job of its run moves it aside\n")
    for url, dataset, run in belong.values() if chosen.send else ():
        with ResilientClient(url, spool=folder) as bots:
            bots.flush(SEND_S, runs=[(dataset, run)])
    lines = [_line(file, *of_run) for file, of_run in belong.items()]
    if chosen.json:
        sys.stdout.write(json.dumps(lines, indent=2) + "\n")
    else:
        sys.stdout.write("".join(f"{text}\n" for line in lines for text in _words(line)))
        sys.stdout.write("" if lines else f"{folder} holds no reports\n")
    return int(chosen.send and any(line["waiting"] for line in lines))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bots_client", description="The BOTS selector's client.")
    parser.add_argument("--version", action="version", version=f"bots-client {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    spool = commands.add_parser("spool", help="list the reports that wait in BOTS_SPOOL, or send them")
    spool.add_argument("--send", action="store_true", help="send them now, with the API key in BOTS_API_KEY")
    spool.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _line(file: Path, url: str, dataset: str, run: str) -> dict[str, Any]:
    spool = Spool(file, url=url, dataset=dataset, run=run, limit_bytes=0, on_loss=lambda _, why: sys.stderr.write(why))
    first = spool.first()
    return {
        "dataset": dataset,
        "run": run,
        "url": url,
        "waiting": spool.waiting(),
        "oldest_seconds": None if first is None else round(time.time() - first.added_at, 1),
        "refused": [kept.refused for kept in spool.refused()],
        "file": str(file),
    }


def _words(line: dict[str, Any]) -> list[str]:
    age = "" if line["oldest_seconds"] is None else f", the oldest for {line['oldest_seconds']:.0f} s"
    words = "{dataset} {run}: {waiting} reports wait for {url}".format(**line) + f"{age} ({line['file']})"
    return [words, *(f"  refused: {' '.join(reason.split())}" for reason in line["refused"])]


if __name__ == "__main__":
    sys.exit(main())
