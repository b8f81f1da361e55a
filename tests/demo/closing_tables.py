"""The closing table of `bots demo`, read back from what it printed, to compare it with the API and the page."""

import re
from dataclasses import dataclass

COLUMNS = ("effective task ratio", "last 50 steps", "vs uniform", "rollouts saved", "tasks met", "log loss")
ROW = re.compile(r"(uniform|bots-thompson|tracker-thompson|tracker-pass)((?:\s\s+\S+){6})\s*")
HEADLINE = re.compile(r"tracker-pass, .+ found ([+-]\d+)% effective tasks for the same ([\d,]+) rollouts")
LARGER = re.compile(r"(\S+-thompson) \(([+-]\d+)%\)")


@dataclass(frozen=True)
class ClosingTable:
    """What `bots demo` says at its end.

    rows: for each run's label, its cells by the names in COLUMNS.
    percents: how many more effective tasks the default found, and each run that found more than that, by their labels;
        negative: fewer.
    rollouts: with how many.
    """

    rows: dict[str, dict[str, str]]
    percents: dict[str, int]
    rollouts: str


def closing_table_in(said: str) -> ClosingTable:
    """Return the table in what the demo wrote to stdout, where it was no terminal."""
    found = list(filter(None, map(ROW.fullmatch, said.splitlines())))
    rows = {row[1]: dict(zip(COLUMNS, row[2].split(), strict=True)) for row in found}
    headline = HEADLINE.search(said)
    assert headline, said
    percents = {"tracker-pass": int(headline[1])} | {label: int(change) for label, change in LARGER.findall(said)}
    return ClosingTable(rows, percents, headline[2])
