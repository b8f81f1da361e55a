"""The series of runs: as many as Prometheus can bear, whatever users call their runs."""

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, fields
from time import monotonic
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge

MOST_RUNS = 32  # with series of their own; a run has about 20
IDLE_S = 3600.0  # a run that did nothing for so long makes room for another
OTHERS = ("(other)", "(other)")  # no dataset or run can have this name

Metric = TypeVar("Metric", Counter, Gauge)


@dataclass(frozen=True, slots=True)
class RunSeries:
    """What is told of one run; or, without names, of all of them. What each field is stands in `run_series`.

    names: of the dataset and the run.
    """

    reports: Counter
    duplicate_reports: Counter
    fenced_reports: Counter
    late_outcomes: Counter
    expired_outcomes: Counter
    steps: Counter
    reported_tasks: Counter
    effective_tasks: Counter
    all_solved_tasks: Counter
    none_solved_tasks: Counter
    rollouts: Counter
    solved_rollouts: Counter
    squared_error: Counter
    log_loss: Counter
    selections: Counter
    selected_tasks: Counter
    reused_tasks: Counter
    degraded_answers: Counter
    last_report: Gauge
    last_selection: Gauge
    capability: Gauge
    step: Gauge
    unfolded_entries: Gauge
    leased_tasks: Gauge
    uniform_effective_task_ratio: Gauge
    belief_mean: Gauge
    names: tuple[str, str] = ("", "")

    def of(self, dataset: str, run: str) -> "RunSeries":
        """Return the series of one run; its gauges tell NaN, that is nothing, until they are set."""
        own = {name: getattr(self, name).labels(dataset, run) for name in METRICS if name != "belief_mean"}
        for metric in own.values():
            if isinstance(metric, Gauge):
                metric.set(math.nan)
        return RunSeries(**own, belief_mean=self.belief_mean, names=(dataset, run))

    def set_belief_mean(self, quantile: float, value: float) -> None:
        """Set one quantile of a run's expected success probabilities."""
        self.belief_mean.labels(*self.names, quantile).set(value)

    def drop(self, dataset: str, run: str) -> None:
        """Drop the series of one run."""
        for name in METRICS:
            getattr(self, name).remove_by_labels({"dataset": dataset, "run": run})


METRICS = tuple(field.name for field in fields(RunSeries) if field.name != "names")


def run_series(registry: CollectorRegistry) -> RunSeries:
    """Return what is counted of runs, on this registry."""

    def make(kind: type[Metric], name: str, says: str, *more: str) -> Metric:
        return kind(f"bots_{name}", says, ["dataset", "run", *more], registry=registry)

    return RunSeries(
        reports=make(Counter, "reports_total", "Reports that were taken, each once."),
        duplicate_reports=make(Counter, "duplicate_reports_total", "Reports that had come before, and counted then."),
        fenced_reports=make(Counter, "fenced_reports_total", "Reports on selections from before a rewind."),
        late_outcomes=make(Counter, "late_outcomes_total", "Outcomes that came after their step, with less weight."),
        expired_outcomes=make(Counter, "expired_outcomes_total", "Outcomes that came too late to count."),
        steps=make(Counter, "steps_total", "Steps that closed."),
        reported_tasks=make(Counter, "reported_tasks_total", "Tasks of closed steps, each once a step."),
        effective_tasks=make(Counter, "effective_tasks_total", "Those of them that were solved at times."),
        all_solved_tasks=make(Counter, "all_solved_tasks_total", "Those of them that were always solved."),
        none_solved_tasks=make(Counter, "none_solved_tasks_total", "Those of them that were never solved."),
        rollouts=make(Counter, "rollouts_total", "Rollouts of closed steps."),
        solved_rollouts=make(Counter, "solved_rollouts_total", "Their rewards, added up."),
        squared_error=make(
            Counter, "prediction_squared_error_total", "Squared error of the predicted rewards, over all rollouts."
        ),
        log_loss=make(Counter, "prediction_log_loss_total", "Log loss of the predicted rewards, over all rollouts."),
        selections=make(Counter, "selections_total", "Selections that were made, each once."),
        selected_tasks=make(Counter, "selected_tasks_total", "Tasks that were handed out."),
        reused_tasks=make(Counter, "reused_tasks_total", "Those of them that were in flight already."),
        degraded_answers=make(
            Counter, "degraded_answers_total", "Selects and reports that were answered without the shared store."
        ),
        last_report=make(Gauge, "last_report_timestamp_seconds", "When the last report was taken."),
        last_selection=make(Gauge, "last_selection_timestamp_seconds", "When the last selection was made."),
        capability=make(Gauge, "capability", "Where the model stands along the reference models."),
        step=make(Gauge, "step", "Closed steps of the present history."),
        unfolded_entries=make(Gauge, "unfolded_entries", "Committed entries that the newest state lacks."),
        leased_tasks=make(Gauge, "leased_tasks", "Tasks in flight."),
        uniform_effective_task_ratio=make(
            Gauge,
            "uniform_effective_task_ratio",
            "Effective task ratio that uniform choice can expect, by the present belief.",
        ),
        belief_mean=make(Gauge, "belief_mean", "Quantiles of the tasks' expected success probabilities.", "quantile"),
    )


class RunsAtWork:
    """The runs that have series of their own, and since when they are idle."""

    def __init__(self, series: RunSeries, *, most: int = MOST_RUNS, clock: Callable[[], float] = monotonic) -> None:
        """Know no run yet.

        Args:
            series: of all runs.
            most: how many runs have series of their own; all others share one.
            clock: seconds that only grow.
        """
        self._series = series
        self._most = most
        self._clock = clock
        self._known: OrderedDict[tuple[str, str], tuple[RunSeries, float]] = OrderedDict()  # the idlest first

    def __call__(self, dataset: str, run: str) -> RunSeries:
        """Return the series of a run that is at work now."""
        names = (dataset, run)
        if names not in self._known and not self._has_room():
            names = OTHERS
        series = self._known[names][0] if names in self._known else self._series.of(*names)
        self._known[names] = series, self._clock()
        self._known.move_to_end(names)
        return series

    def named(self) -> list[tuple[str, str]]:
        """Return dataset and run of those that have series of their own."""
        return [names for names in self._known if names != OTHERS]

    def series(self, dataset: str, run: str) -> RunSeries | None:
        """Return the series of a run without counting it as at work; None if it has none of its own."""
        known = self._known.get((dataset, run))
        return None if known is None else known[0]

    def forget(self, dataset: str, run: str | None = None) -> None:
        """Drop the series of a run, or of all runs of a dataset: they are gone."""
        for names in list(self._known):
            if names[0] == dataset and run in (None, names[1]):
                self._drop(names)

    def forget_idle(self) -> None:
        """Drop the series of runs that did nothing for long."""
        for names, (_, since) in list(self._known.items()):
            if self._clock() - since > IDLE_S and names != OTHERS:  # of the others nobody knows which are idle
                self._drop(names)

    def _has_room(self) -> bool:
        if len(self._known.keys() - {OTHERS}) >= self._most:
            self.forget_idle()
        return len(self._known.keys() - {OTHERS}) < self._most

    def _drop(self, names: tuple[str, str]) -> None:
        del self._known[names]
        self._series.drop(*names)
