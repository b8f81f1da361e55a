"""What is counted of a run is what was reported, and reads as instruments of the library would tell it."""

import pytest
from prometheus_client import CollectorRegistry, Counter

from bots_service.core.receipt import Receipt, tally
from bots_service.metrics.exposition import exposition
from bots_service.metrics.run_series import SAYS, CountedRuns
from bots_service.metrics.training import TrainingMetrics
from tests.core.journals import evidence_of

NAMES = ("pool", "a run")


def receipt(seq: int) -> Receipt:
    """Return the receipt of a closed step of four tasks."""
    evidence = evidence_of((0, 0.0, seq), (1, 1.5, 0.5), (2, seq, 2.0), (3, 4.0, 0.0))
    return Receipt(seq, 0, seq, True, tally(evidence), None, 2, 1, 0.125)


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
        counter = Counter(f"bots_{metric}", says, ["dataset", "run"], registry=theirs)
        counter.labels(*NAMES).inc(expected(metric, steps))
    assert exposition(registry) == exposition(theirs)


def expected(metric: str, steps: list[Receipt]) -> float:
    """Return the value of a metric, summed up plainly."""
    tallies = [step.tally for step in steps]
    sums = {
        "steps": len(steps),
        "reported_tasks": sum(one.reported for one in tallies),
        "effective_tasks": sum(one.effective for one in tallies),
        "all_solved_tasks": sum(one.all_solved for one in tallies),
        "rollouts": sum(one.rollouts for one in tallies),
        "solved_rollouts": sum(one.successes for one in tallies),
        "prediction_squared_error": sum(0.125 * one.rollouts for one in tallies),
    }
    return sums.get(metric, 0)


def test_a_report_counts_once_and_a_step_when_it_closes(registry: CollectorRegistry):
    training = TrainingMetrics(registry)
    for duplicate in (False, True, True):
        training.reported(*NAMES, receipt(1), duplicate=duplicate, degraded=duplicate)
    counts = training.runs(*NAMES).counts
    assert (counts.reports, counts.duplicate_reports, counts.degraded_answers) == (1, 2, 2)
    assert (counts.steps, counts.expired_outcomes) == (1, 1)
