"""What is counted of a run is what was reported, and reads as instruments of the library would tell it."""

from typing import get_type_hints

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, Counter

from bots_service.core.evidence import NO_COSTS
from bots_service.core.mix_account import MixedTag
from bots_service.core.receipt import BINS, Receipt, TagSums, calibration, tally
from bots_service.core.resting import Resting
from bots_service.metrics.exposition import exposition
from bots_service.metrics.run_series import LABELS, MOST_RUNS, SAYS, CountedRuns, RunCounts
from bots_service.metrics.training import TrainingMetrics
from tests.core.journals import evidence_of

NAMES = ("pool", "a run")
MEANS = np.array([0.05, 0.31, 0.38, 1.0])


def receipt(seq: int, tags: TagSums | None = None) -> Receipt:
    """Return the receipt of a closed step of four tasks."""
    evidence = evidence_of((0, 0.0, seq), (1, 1.5, 0.5), (2, seq, 2.0), (3, 4.0, 0.0))
    shown = calibration(MEANS, evidence)
    return Receipt(seq, 0, seq, True, tally(evidence), None, 2, 1, 0.125, 0.5, shown, 2, 7, NO_COSTS, tags)


def by_tag(**reported: float) -> TagSums:
    """Return the sums of a step with so many tasks by tag, each tried twice, of which half were solved."""
    tasks = np.array(list(reported.values()))
    return TagSums(tuple(reported), tasks, tasks, 2 * tasks, tasks)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def tags(registry: CollectorRegistry, metric: str) -> dict[tuple[str, str], float]:
    """Return what was counted by run and tag."""
    (family,) = [family for family in registry.collect() if family.name == f"bots_tag_{metric}"]
    return {(sample.labels["run"], sample.labels["tag"]): sample.value for sample in family.samples}


def test_counts_read_as_instruments_would_that_counted_the_same(registry: CollectorRegistry):
    counts = CountedRuns(registry).begin(*NAMES)
    steps = [receipt(1), receipt(2)]
    for step in steps:
        counts.count_step(step)
        counts.count_tags(by_tag(math=3.0, code=1.0))
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
    of_tags = {"reported_tasks": 1, "effective_tasks": 1, "rollouts": 2, "solved_rollouts": 1}
    sums = {
        "steps": len(steps),
        "new_tasks": sum(step.new_tasks for step in steps),
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
        case ["tag", rest]:
            return [((tag,), len(steps) * tasks * of_tags[rest]) for tag, tasks in (("math", 3), ("code", 1))]
        case _:
            return [((), sums.get(metric, 0))]


def test_every_number_is_told():
    assert set(get_type_hints(RunCounts)) - {"tags"} == SAYS.keys()


def test_a_report_counts_once_and_a_step_when_it_closes(registry: CollectorRegistry):
    training = TrainingMetrics(registry)
    for duplicate in (False, True, True):
        training.reported(*NAMES, receipt(1), duplicate=duplicate, degraded=duplicate)
    counts = training.runs(*NAMES).counts
    assert (counts.reports, counts.duplicate_reports, counts.degraded_answers) == (1, 2, 2)
    assert (counts.steps, counts.late_outcomes, counts.expired_outcomes) == (1, 2, 1)


def test_a_step_is_counted_by_tag_in_the_run_that_closed_it(registry: CollectorRegistry):
    training = TrainingMetrics(registry)
    for run, step in (("x", by_tag(math=3.0, code=1.0)), ("x", by_tag(math=1.0, code=0.0)), ("y", None)):
        training.reported("pool", run, receipt(1, step), duplicate=False, degraded=False)
    assert tags(registry, "reported_tasks") == {("x", "math"): 4, ("x", "code"): 1}
    assert tags(registry, "rollouts") == {("x", "math"): 8, ("x", "code"): 2}
    training.runs.forget("pool", "x")
    assert tags(registry, "reported_tasks") == {}


def test_a_tag_that_is_told_apart_no_longer_gives_its_series_up(registry: CollectorRegistry):
    counts = CountedRuns(registry).begin("pool", "x")
    counts.count_tags(by_tag(math=3.0, code=1.0))
    counts.count_tags(by_tag(proof=5.0, math=1.0))
    assert tags(registry, "solved_rollouts") == {("x", "proof"): 5, ("x", "math"): 4}


def test_runs_that_share_their_series_have_none_by_tag(registry: CollectorRegistry):
    training = TrainingMetrics(registry)
    for number in range(MOST_RUNS + 3):
        step = receipt(1, by_tag(**{f"tag-{number}": 1.0}))
        training.reported("pool", f"run-{number}", step, duplicate=False, degraded=False)
    own = {(f"run-{number}", f"tag-{number}"): 1.0 for number in range(MOST_RUNS)}
    assert tags(registry, "reported_tasks") == own


def test_a_mix_shows_what_its_tags_were_owed_and_given_and_tags_that_left_it_are_gone(registry: CollectorRegistry):
    series = TrainingMetrics(registry).runs(*NAMES)

    def shown(metric: str) -> dict[str, float]:
        (family,) = [family for family in registry.collect() if family.name == f"bots_mix_{metric}_tasks"]
        return {sample.labels["tag"]: sample.value for sample in family.samples}

    series.set_mix((MixedTag("code", 2.5, 2), MixedTag("math", 7.5, 8)))
    assert shown("owed") == {"code": 2.5, "math": 7.5}
    assert shown("given") == {"code": 2, "math": 8}
    series.set_mix((MixedTag("math", 8.5, 9),))
    assert shown("owed") == {"math": 8.5}
    series.set_mix(())
    assert shown("given") == {}


def test_tasks_that_rest_are_shown_by_kind(registry: CollectorRegistry):
    TrainingMetrics(registry).runs(*NAMES).set_resting(Resting(solved=8, unsolved=3, expected_wrong=0.4))
    (family,) = [family for family in registry.collect() if family.name == "bots_resting_tasks"]
    assert {sample.labels["kind"]: sample.value for sample in family.samples} == {"solved": 8, "unsolved": 3}
