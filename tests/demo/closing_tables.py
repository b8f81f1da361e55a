"""The closing table of `bots demo`, read back from what it printed, to compare it with the API and the page."""

import re
from dataclasses import dataclass

COLUMNS = ("effective task ratio", "last 50 steps", "vs uniform", "rollouts saved", "tasks met", "log loss")
ROW = re.compile(r"(uniform|BOTS|tracker|pass)((?:\s\s+\S+){6})\s*")
TITLE = re.compile(r"all \d+ problems|\d+ with both references")
HEADLINE = re.compile(r"BOTS found (\d+) % (more|fewer) effective tasks than uniform sampling with the same ([\d,]+) r")


@dataclass(frozen=True)
class ClosingTable:
    """What `bots demo` says at its end.

    replays: for each title of a replay, for each run's label, its cells by the names in COLUMNS.
    percent: how many more effective tasks BOTS found, of the first replay; negative: fewer.
    rollouts: with how many.
    """

    replays: dict[str, dict[str, dict[str, str]]]
    percent: int
    rollouts: str


def closing_table_in(said: str) -> ClosingTable:
    """Return the table in what the demo wrote to stdout, where it was no terminal."""
    replays: dict[str, dict[str, dict[str, str]]] = {}
    for line in said.splitlines():
        if TITLE.fullmatch(line.strip()):
            replays[line.strip()] = {}
        elif row := ROW.fullmatch(line):
            replays[list(replays)[-1]][row[1]] = dict(zip(COLUMNS, row[2].split(), strict=True))
    found = HEADLINE.search(said)
    assert found, said
    return ClosingTable(replays, int(found[1]) * (1 if found[2] == "more" else -1), found[3])
