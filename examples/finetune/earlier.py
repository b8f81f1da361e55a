"""The three comparisons before the registered one, as a table: `python -m examples.finetune.earlier`.

Their plans differ, so only the endpoint is compared: the mean held-out accuracy over the course. Their files lie in
results/earlier, each named by the commit that made it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from examples.finetune.intervals import interval, sign_flip_p
from examples.finetune.plan import BASE
from examples.finetune.table import head, line, probability, within

FOLDER = Path(__file__).parent / "results" / "earlier"

Endpoints = dict[str, dict[int, float]]  # of each arm, by seed


def endpoints_of(file: Path) -> Endpoints:
    """Return the mean held-out accuracy over the course of each run in a file."""
    found: Endpoints = {}
    for course in (json.loads(run)["course"] for run in file.read_text("utf-8").splitlines()):
        found.setdefault(course["arm"], {})[course["seed"]] = fmean(course["accuracies"])
    return found


def earlier_table(files: list[Path]) -> str:
    """Return what each arm gained over shuffle in each comparison, and over all seeds together."""
    comparisons = sorted(map(endpoints_of, files), key=lambda endpoints: min(endpoints[BASE]))
    return "\n".join(lines_of(comparisons)) + "\n"


def lines_of(comparisons: list[Endpoints]) -> Iterator[str]:
    """Yield the lines of the table; a comparison is named by its seeds."""
    names = [f"seeds {min(one[BASE])} to {max(one[BASE])}" for one in comparisons]
    yield from head(f"minus `{BASE}`", *names, "all seeds", "p", "higher")
    for arm in (arm for arm in comparisons[0] if arm != BASE):
        gains = [[own - one[BASE][seed] for seed, own in one[arm].items()] for one in comparisons]
        every = [gain for some in gains for gain in some]
        higher = f"{sum(gain > 0 for gain in every)} of {len(every)}"
        means = (f"{fmean(some):+.4f}" for some in gains)
        yield line(f"`{arm}`", *means, within(interval(every)), probability(sign_flip_p(every)), higher)


if __name__ == "__main__":
    print(earlier_table(list(FOLDER.glob("*.jsonl"))), end="")
