"""However many runs there are and whatever they are called, Prometheus gets a bounded number of series."""

import pytest
from prometheus_client import CollectorRegistry

from bots_service import metrics as metrics_module
from bots_service.core.receipt import Receipt
from bots_service.metrics import OTHERS, RunsAtWork, TrainingMetrics, run_series
from bots_service.retention import IDLE_SERIES_S


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(metrics_module, "monotonic", made)
    return made


@pytest.fixture
def runs(registry: CollectorRegistry, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> RunsAtWork:
    monkeypatch.setattr(metrics_module, "MOST_RUNS", 2)
    return RunsAtWork(run_series(registry))


def reports(registry: CollectorRegistry) -> dict[tuple[str, str], float]:
    """Return what was counted, by run."""
    (family,) = [family for family in registry.collect() if family.name == "bots_reports"]
    samples = [sample for sample in family.samples if sample.name == "bots_reports_total"]
    return {(sample.labels["dataset"], sample.labels["run"]): sample.value for sample in samples}


def test_runs_beyond_the_limit_share_one_series(runs: RunsAtWork, registry: CollectorRegistry):
    for name in ("w", "x", "y", "z", "w"):
        runs("a", name).reports.inc()
    assert reports(registry) == {("a", "w"): 2, ("a", "x"): 1, OTHERS: 2}


def test_a_run_that_is_idle_for_long_makes_room(runs: RunsAtWork, registry: CollectorRegistry, clock: Clock):
    runs("a", "x").reports.inc()
    clock.now += IDLE_SERIES_S - 1
    runs("a", "y").reports.inc()
    clock.now += 2
    runs("a", "x", works=False)  # being looked at is no work
    runs("a", "z").reports.inc()
    assert reports(registry) == {("a", "y"): 1, ("a", "z"): 1}
    clock.now += IDLE_SERIES_S + 1
    runs.forget_idle()
    assert reports(registry) == {}


def test_a_run_that_shares_gets_its_own_series_once_there_is_room(runs: RunsAtWork, registry: CollectorRegistry):
    for name in ("x", "y", "z"):
        runs("a", name).reports.inc()
    runs.forget("a", "x")
    runs("a", "z").reports.inc()
    assert reports(registry) == {("a", "y"): 1, ("a", "z"): 1, OTHERS: 1}


def test_the_series_of_what_is_deleted_disappear(runs: RunsAtWork, registry: CollectorRegistry):
    runs("a", "x").reports.inc()
    runs("b", "x").reports.inc()
    runs.forget("a", "unknown")
    runs.forget("b", "x")
    assert reports(registry) == {("a", "x"): 1}
    runs("a", "y").reports.inc()
    runs.forget("a")
    assert reports(registry) == {}
    runs("a", "x").reports.inc()
    assert reports(registry) == {("a", "x"): 1}  # a new run of that name begins anew


def test_a_report_counts_once_and_its_tasks_when_the_step_closes(registry: CollectorRegistry):
    training = TrainingMetrics(registry)
    step = Receipt(
        seq=1,
        epoch=0,
        step=1,
        closed=True,
        reported=4,
        effective=2,
        all_solved=1,
        rollouts=10.0,
        successes=6.5,
        late=2,
        expired=1,
        brier=0.125,
    )
    for duplicate in (False, True, True):
        training.reported("a", "x", step, duplicate=duplicate, degraded=duplicate)

    def counted(name: str) -> float | None:
        return registry.get_sample_value(f"bots_{name}_total", {"dataset": "a", "run": "x"})

    assert [counted(f"{kind}reports") for kind in ("", "duplicate_", "fenced_")] == [1, 2, 0]
    assert (counted("degraded_answers"), counted("steps"), counted("expired_outcomes")) == (2, 1, 1)
    assert (counted("reported_tasks"), counted("effective_tasks")) == (step.reported, step.effective)
    assert (counted("rollouts"), counted("solved_rollouts")) == (step.rollouts, step.successes)
    assert counted("prediction_squared_error") == 0.125 * step.rollouts
