"""What runs on public data scored, as tables in Markdown with 95 % intervals.

python -m benchmarks.beliefs --json >scores.ndjson
python -m benchmarks.beliefs_tables <scores.ndjson
"""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan, nan, sqrt
from statistics import fmean, stdev

from scipy.stats import t as student

AS_MEASURED = "as measured"  # the case in which neither references nor the model go wrong
BOTS, TRACKER = "BOTS", "tracker"
TOLERATED = 0.01  # of log loss, by which the tracker may lie above BOTS


@dataclass(frozen=True, slots=True)
class Score:
    """What one run scored, each a mean over its steps.

    effective_task_ratio: share of the selected tasks that some rollouts solved and some did not.
    pool_log_loss: of all tasks' predictions before the step, in nats, expected over the rollouts.
    batch_log_loss: of the selected tasks' predictions, in nats, on their rollouts.
    """

    pool: str
    case: str
    arm: str
    seed: int
    effective_task_ratio: float
    pool_log_loss: float
    batch_log_loss: float


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean, and half the width of its 95 % interval by Student's t; NaN where one value says nothing of it."""

    mean: float
    half_width: float

    def __str__(self) -> str:
        """Return it as 0.784 ± 0.005, or as 0.784."""
        return f"{self.mean:.3f}" if isnan(self.half_width) else f"{self.mean:.3f} ± {self.half_width:.3f}"


def interval_of(values: Sequence[float]) -> Interval:
    """Return the interval of the mean of independent values."""
    if len(values) == 1:
        return Interval(values[0], nan)
    quantile = float(student.ppf(0.975, len(values) - 1))
    return Interval(fmean(values), quantile * stdev(values) / sqrt(len(values)))


@dataclass(frozen=True, slots=True)
class Comparison:
    """The tracker less BOTS in one case, seed by seed."""

    effective_task_ratio: Interval
    pool_log_loss: Interval

    @property
    def holds(self) -> bool:
        """Whether the tracker selects no worse on average, and predicts no worse than tolerated."""
        return self.effective_task_ratio.mean >= 0 and self.pool_log_loss.mean <= TOLERATED


def compared(bots: Sequence[Score], tracker: Sequence[Score]) -> Comparison:
    """Return the comparison of two arms, whose scores are of the same seeds in the same order."""
    assert [score.seed for score in bots] == [score.seed for score in tracker]
    pairs = list(zip(bots, tracker, strict=True))
    return Comparison(
        interval_of([other.effective_task_ratio - one.effective_task_ratio for one, other in pairs]),
        interval_of([other.pool_log_loss - one.pool_log_loss for one, other in pairs]),
    )


def score_table(scores: Iterable[Score]) -> str:
    """Return the arms on the pools as measured: a row for each pool and arm."""
    lines = ["| pool | run | seeds | ETR | pool log loss | batch log loss |", "|---|---|---:|---|---|---|"]
    for (pool, case, arm), group in grouped(scores).items():
        if case == AS_MEASURED:
            ratio = interval_of([score.effective_task_ratio for score in group])
            losses = (
                interval_of([score.pool_log_loss for score in group]),
                interval_of([score.batch_log_loss for score in group]),
            )
            lines.append(f"| {pool} | {arm} | {len(group)} | {ratio} | {losses[0]} | {losses[1]} |")
    return "\n".join(lines)


def comparison_table(scores: Iterable[Score]) -> str:
    """Return the tracker compared with BOTS: a row for each pool and case."""
    lines = [
        "| pool | case | seeds | ETR BOTS | tracker | difference | pool log loss BOTS | tracker | difference | holds |",
        "|---|---|---:|---|---|---|---|---|---|---|",
    ]
    groups = grouped(scores)
    for pool, case in dict.fromkeys((pool, case) for pool, case, _ in groups):
        bots, tracker = groups[pool, case, BOTS], groups[pool, case, TRACKER]
        found = compared(bots, tracker)
        ratios = [f"{fmean(score.effective_task_ratio for score in group):.3f}" for group in (bots, tracker)]
        losses = [f"{fmean(score.pool_log_loss for score in group):.3f}" for group in (bots, tracker)]
        cells = (pool, case, str(len(bots)), *ratios, str(found.effective_task_ratio), *losses)
        lines.append(f"| {' | '.join(cells)} | {found.pool_log_loss} | {'yes' if found.holds else '**no**'} |")
    return "\n".join(lines)


def grouped(scores: Iterable[Score]) -> dict[tuple[str, str, str], list[Score]]:
    """Return the scores by pool, case and arm, in the order of their first."""
    groups: dict[tuple[str, str, str], list[Score]] = {}
    for score in scores:
        groups.setdefault((score.pool, score.case, score.arm), []).append(score)
    return groups


def tables(scores: Sequence[Score]) -> str:
    """Return both tables."""
    return f"{score_table(scores)}\n\n{comparison_table(scores)}"


if __name__ == "__main__":
    print(tables([Score(**json.loads(line)) for line in sys.stdin]))
