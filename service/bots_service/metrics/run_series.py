"""The series of runs: as many as Prometheus can bear, whatever users call their runs."""

import math
from dataclasses import dataclass, replace
from time import monotonic
from typing import Annotated, get_origin, get_type_hints

from prometheus_client import CollectorRegistry, Counter, Gauge

from bots_service.core.receipt import Receipt
from bots_service.retention import IDLE_SERIES_S

MOST_RUNS = 32  # with series of their own, of which a run has about 25; all others share one
OTHERS = ("(other)", "(other)")  # no dataset or run can have this name


@dataclass(frozen=True, slots=True)
class RunSeries:
    """The metrics of one run; or, without names, of all of them.

    Each metric is called after its field, and carries what it says of itself and its labels besides dataset and run.

    names: of the dataset and the run.
    """

    reports: Annotated[Counter, "Reports that were taken, each once."]
    duplicate_reports: Annotated[Counter, "Reports that had been taken before, and came again."]
    fenced_reports: Annotated[Counter, "Reports that were refused because their run was rewound."]
    expired_outcomes: Annotated[Counter, "Outcomes that came too late to count."]
    steps: Annotated[Counter, "Steps that closed."]
    reported_tasks: Annotated[Counter, "Tasks of closed steps, each once a step."]
    effective_tasks: Annotated[Counter, "Tasks of closed steps whose rewards differ, so that they give a gradient."]
    all_solved_tasks: Annotated[Counter, "Tasks of closed steps with equal rewards and a success rate of at least 0.5."]
    rollouts: Annotated[Counter, "Rollouts of closed steps."]
    solved_rollouts: Annotated[
        Counter, "Successes of closed steps, added up over rollouts; a reward counts as a part of a success."
    ]
    prediction_squared_error: Annotated[
        Counter, "Squared error of the predicted success rates, added up over the rollouts of closed steps."
    ]
    selections: Annotated[Counter, "Selections that were made, each once."]
    degraded_answers: Annotated[
        Counter, "Selects and reports answered without the shared store, or after it lost tasks in flight."
    ]
    last_report_timestamp_seconds: Annotated[Gauge, "When the last report was taken, in seconds since 1970."]
    last_selection_timestamp_seconds: Annotated[Gauge, "When the last selection was made, in seconds since 1970."]
    step: Annotated[Gauge, "Closed steps of the present history."]
    leased_tasks: Annotated[Gauge, "Tasks in flight."]
    uniform_effective_task_ratio: Annotated[
        Gauge, "Estimate of the share of effective tasks that uniform sampling would find now."
    ]
    reached_share: Annotated[Gauge, "Share of the available tasks that were reported at least once."]
    narrow: Annotated[Gauge, "1 where few tasks take most visits, 0 where not."]
    verifier_alarms: Annotated[Gauge, "Alarms of the verifier guard that stand."]
    run_info: Annotated[Gauge, "How a run chooses tasks; always 1.", "strategy"]
    names: tuple[str, str] = ("", "")

    def of(self, dataset: str, run: str) -> "RunSeries":
        """Return the series of one run; its counters are 0, and its gauges NaN, that is nothing, until they are set."""
        own = {name: getattr(self, name) for name in METRICS}
        for name in METRICS.keys() - LABELLED:
            own[name] = own[name].labels(dataset, run)
            if isinstance(own[name], Gauge):
                own[name].set(math.nan)
        return replace(self, **own, names=(dataset, run))

    def count_step(self, receipt: Receipt) -> None:
        """Count the step that an entry closed."""
        self.steps.inc()
        self.reported_tasks.inc(receipt.reported)
        self.effective_tasks.inc(receipt.effective)
        self.all_solved_tasks.inc(receipt.all_solved)
        self.rollouts.inc(receipt.rollouts)
        self.solved_rollouts.inc(receipt.successes)
        self.prediction_squared_error.inc((receipt.brier or 0.0) * receipt.rollouts)

    def set_strategy(self, strategy: str) -> None:
        """Set the run's selection strategy, and remove the series of the one before."""
        dataset, run = self.names
        self.run_info.remove_by_labels({"dataset": dataset, "run": run})
        self.run_info.labels(dataset, run, strategy).set(1)

    def drop(self, dataset: str, run: str) -> None:
        """Drop the series of one run."""
        for name in METRICS:
            getattr(self, name).remove_by_labels({"dataset": dataset, "run": run})


METRICS = {
    name: hint for name, hint in get_type_hints(RunSeries, include_extras=True).items() if get_origin(hint) is Annotated
}
LABELLED = {name for name, hint in METRICS.items() if len(hint.__metadata__) > 1}


def run_series(registry: CollectorRegistry) -> RunSeries:
    """Return the metrics of runs, on this registry."""
    made = {}
    for name, hint in METRICS.items():
        says, *labels = hint.__metadata__
        made[name] = hint.__origin__(f"bots_{name}", says, ["dataset", "run", *labels], registry=registry)
    return RunSeries(**made)


@dataclass(slots=True, eq=False)
class RunAtWork:
    """A run that has series of its own.

    used: when it was last at work here; looked: when its state was last looked at.
    shown: uid, epoch and seq of the state whose coverage its series show.
    """

    series: RunSeries
    used: float
    looked: float = -math.inf
    shown: tuple[str, int, int] | None = None


class RunsAtWork:
    """The runs that have series of their own, as long as they are not idle."""

    def __init__(self, series: RunSeries) -> None:
        """Know no run yet. series: of all runs."""
        self._series = series
        self._known: dict[tuple[str, str], RunAtWork] = {}

    def __call__(self, dataset: str, run: str) -> RunSeries:
        """Return the series of a run that is at work now."""
        names = (dataset, run)
        if names not in self._known and not self._has_room():
            names = OTHERS
        if names not in self._known:
            self._known[names] = RunAtWork(self._series.of(*names), monotonic())
        self._known[names].used = monotonic()
        return self._known[names].series

    def all(self) -> dict[tuple[str, str], RunAtWork]:
        """Return the runs that have series of their own, by dataset and run."""
        return {names: known for names, known in self._known.items() if names != OTHERS}

    def has(self, run: RunAtWork) -> bool:
        """Say whether a run still has its series: else it was deleted meanwhile."""
        return self._known.get(run.series.names) is run

    def forget(self, dataset: str, run: str | None = None) -> None:
        """Drop the series of a run, or of all runs of a dataset: they are gone."""
        for names in list(self._known):
            if names[0] == dataset and run in (None, names[1]):
                self._drop(names)

    def forget_idle(self) -> None:
        """Drop the series of runs that did nothing for long."""
        for names, known in self.all().items():  # of the others nobody knows which are idle
            if monotonic() - known.used > IDLE_SERIES_S:
                self._drop(names)

    def _has_room(self) -> bool:
        if len(self.all()) >= MOST_RUNS:
            self.forget_idle()
        return len(self.all()) < MOST_RUNS

    def _drop(self, names: tuple[str, str]) -> None:
        del self._known[names]
        self._series.drop(*names)
