"""The closing table of `bots demo`, read back from what it printed, to compare it with the API and the page."""

import re
from dataclasses import dataclass

COLUMNS = ("effective task ratio", "last 50 steps", "vs uniform", "rollouts saved", "tasks met", "log loss")
ROW = re.compile(r"(uniform|BOTS|tracker|pass)((?:\s\s+\S+){6})\s*")
TITLE = re.compile(r"all \d+ problems|\d+ with both references")
HEADLINE = re.compile(r"Effective tasks for the same ([\d,]+) rollouts, compared with uniform sampling: (.+)\.")


@dataclass(frozen=True)
class ClosingTable:
    """What `bots demo` says at its end.

    replays: for each title of a replay, for each run's label, its cells by the names in COLUMNS.
    percents: for each run's label, how many more effective tasks it found, of the first replay; negative: fewer.
    rollouts: with how many.
    """

    replays: dict[str, dict[str, dict[str, str]]]
    percents: dict[str, int]
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
    percents = {label: int(said.rstrip("%")) for label, said in map(str.split, found[2].split(", "))}
    return ClosingTable(replays, percents, found[1])
