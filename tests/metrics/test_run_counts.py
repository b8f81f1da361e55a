"""What is counted of a run is what was reported, and reads as instruments of the library would tell it."""

from typing import get_type_hints

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, Counter

from bots_service.core.receipt import BINS, Receipt, calibration, tally
from bots_service.metrics.exposition import exposition
from bots_service.metrics.run_counts import LABELS, SAYS, CountedRuns, RunCounts
from bots_service.metrics.training import TrainingMetrics
from tests.core.journals import evidence_of

NAMES = ("pool", "a run")
MEANS = np.array([0.05, 0.31, 0.38, 1.0])


def receipt(seq: int) -> Receipt:
    """Return the receipt of a closed step of four tasks."""
    evidence = evidence_of((0, 0.0, seq), (1, 1.5, 0.5), (2, seq, 2.0), (3, 4.0, 0.0))
    shown = calibration(MEANS, evidence)
    return Receipt(seq, 0, seq, True, tally(evidence), None, 2, 1, 0.125, 0.5, shown)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def test_counts_read_as_instruments_would_that_counted_the_same(registry: CollectorRegistry):
    counts = CountedRuns(registry).begin(*NAMES)
    steps = [receipt(1), receipt(2)]
    for step in steps:
        counts.count_step(step)
    theirs = CollectorRegistry()
    for metric, says in SAYS.items():
        counter = Counter(f"bots_{metric}", says, ["dataset", "run", *LABELS[metric]], registry=theirs)
        for label, value in expected(metric, steps):
            counter.labels(*NAMES, *label).inc(value)
    assert exposition(registry) == exposition(theirs)


def expected(metric: str, steps: list[Receipt]) -> list[tuple[tuple[str, ...], float]]:
    """Return the values of a metric by its own label, summed up plainly."""
    shown = [step.calibration for step in steps if step.calibration is not None]
    bins = sorted({int(mean * BINS) if mean < 1 else BINS - 1 for mean in MEANS})
    sums = {
        "steps": len(steps),
        "rollouts": sum(step.tally.rollouts for step in steps),
        "solved_rollouts": sum(step.tally.successes for step in steps),
        "prediction_squared_error": sum(0.125 * step.tally.rollouts for step in steps),
        "prediction_log_loss": sum(0.5 * step.tally.rollouts for step in steps),
        **{
            f"{name}_tasks": sum(getattr(step.tally, name) for step in steps)
            for name in ("reported", "effective", "all_solved", "none_solved")
        },
    }
    match metric.split("_", 1):
        case ["calibration", "rollouts"]:
            return [((str(place / BINS),), sum(one.rollouts[place] for one in shown)) for place in bins]
        case ["calibration", "solved_rollouts"]:
            return [((str(place / BINS),), sum(one.solved[place] for one in shown)) for place in bins]
        case _:
            return [((), sums.get(metric, 0))]


def test_every_number_is_told():
    assert set(get_type_hints(RunCounts)) == SAYS.keys()


def test_a_report_counts_once_and_a_step_when_it_closes(registry: CollectorRegistry):
    training = TrainingMetrics(registry)
    for duplicate in (False, True, True):
        training.reported(*NAMES, receipt(1), duplicate=duplicate, degraded=duplicate)
    counts = training.runs(*NAMES).counts
    assert (counts.reports, counts.duplicate_reports, counts.degraded_answers) == (1, 2, 2)
    assert (counts.steps, counts.late_outcomes, counts.expired_outcomes) == (1, 2, 1)
