"""What Prometheus may know: each process counts what it does itself. No series ever names a task."""

import math
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from typing import Annotated, get_origin, get_type_hints

import numpy as np
from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from bots_service import __version__
from bots_service.core.receipt import Receipt
from bots_service.core.state import RunState
from bots_service.core.summary import RunFindings, UniformEstimate
from bots_service.retention import IDLE_SERIES_S

# --- runs: as many series as Prometheus can bear, whatever users call their runs -------------------------------------

MOST_RUNS = 32  # with series of their own, of which a run has about 25; all others share one
OTHERS = ("(other)", "(other)")  # no dataset or run can have this name


@dataclass(slots=True, eq=False)
class RunSeries:
    """The metrics of one run, with its names; or, without names, of all of them.

    Each metric is called after its field, and carries what it says of itself and its labels besides dataset and run.
    used: when the run was last at work here; strategy: the one that is shown.
    """

    reports: Annotated[Counter, "Accepted reports, each once."]
    duplicate_reports: Annotated[Counter, "Reports sent again after they were accepted."]
    fenced_reports: Annotated[Counter, "Reports refused because their run was rewound."]
    expired_outcomes: Annotated[Counter, "Outcomes that arrived too late to count."]
    steps: Annotated[Counter, "Closed steps."]
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
    selections: Annotated[Counter, "Selections made, each once."]
    degraded_answers: Annotated[
        Counter, "Selects and reports answered without the shared store, or after it lost tasks in flight."
    ]
    last_report_timestamp_seconds: Annotated[Gauge, "Time of the last accepted report, in seconds since 1970."]
    last_selection_timestamp_seconds: Annotated[Gauge, "Time of the last selection, in seconds since 1970."]
    step: Annotated[Gauge, "Closed steps of the current history."]
    leased_tasks: Annotated[Gauge, "Tasks in flight."]
    uniform_effective_task_ratio: Annotated[
        Gauge, "Estimate of the share of effective tasks that uniform sampling would find now."
    ]
    narrow: Annotated[Gauge, "1 if few tasks take most visits, 0 if not."]
    verifier_alarms: Annotated[Gauge, "Open alarms of the verifier guard."]
    run_info: Annotated[Gauge, "The run's selection strategy; always 1.", "strategy"]
    names: tuple[str, str] = ("", "")
    used: float = 0.0
    strategy: str = ""

    def of(self, dataset: str, run: str) -> "RunSeries":
        """Return the series of one run; until they are set, its counters are 0 and its gauges NaN, that is nothing."""
        own = {name: getattr(self, name) for name in METRICS}
        for name in METRICS.keys() - LABELLED:
            own[name] = own[name].labels(dataset, run)
            if isinstance(own[name], Gauge):
                own[name].set(math.nan)
        return replace(self, **own, names=(dataset, run))

    def set_strategy(self, strategy: str) -> None:
        """Set the run's selection strategy, and remove the series of the one before."""
        if strategy == self.strategy:
            return
        dataset, run = self.names
        self.strategy = strategy
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


class RunsAtWork:
    """The runs that have series of their own, as long as they are not idle."""

    def __init__(self, series: RunSeries) -> None:
        self._series = series
        self._known: dict[tuple[str, str], RunSeries] = {}

    def __call__(self, dataset: str, run: str, *, works: bool = True) -> RunSeries:
        """Return the series of a run, which is at work now if it `works`; or, of too many, those of all others."""
        names = (dataset, run)
        if names not in self._known and len(self.names()) >= MOST_RUNS:
            self.forget_idle()
            names = names if len(self.names()) < MOST_RUNS else OTHERS
        is_new = names not in self._known
        known = self._known[names] = self._series.of(*names) if is_new else self._known[names]
        known.used = monotonic() if works or is_new else known.used
        return known

    def names(self) -> set[tuple[str, str]]:
        """Return dataset and name of the runs that have series of their own."""
        return self._known.keys() - {OTHERS}

    def forget(self, dataset: str, run: str | None = None) -> None:
        """Drop the series of a run, or of all runs of a dataset: they are gone."""
        for names in list(self._known):
            if names[0] == dataset and run in (None, names[1]):
                self._drop(names)

    def forget_idle(self) -> None:
        """Drop the series of runs that did nothing for long."""
        for names, known in list(self._known.items()):
            if names != OTHERS and monotonic() - known.used > IDLE_SERIES_S:  # of those nobody knows which are idle
                self._drop(names)

    def _drop(self, names: tuple[str, str]) -> None:
        del self._known[names]
        self._series.drop(*names)


# --- what trainers do ------------------------------------------------------------------------------------------------

WORK_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class TrainingMetrics:
    """What selects and reports leave behind in this process: of each run, and how long parts of the work took."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.runs = RunsAtWork(run_series(registry))
        histogram = partial(Histogram, registry=registry, buckets=WORK_S)
        self.draw_seconds = histogram("bots_draw_duration_seconds", "Time to draw the tasks of one selection.")
        self.fold_seconds = histogram("bots_fold_duration_seconds", "Time to fold journal entries into a state.")

    def reported(self, dataset: str, run: str, receipt: Receipt, *, duplicate: bool, degraded: bool) -> None:
        """Count a report that was acknowledged."""
        series = self.runs(dataset, run)
        series.degraded_answers.inc(degraded)
        series.last_report_timestamp_seconds.set(time.time())
        if duplicate:
            series.duplicate_reports.inc()
            return
        series.reports.inc()
        series.expired_outcomes.inc(receipt.expired)
        if receipt.closed:
            series.steps.inc()
            series.reported_tasks.inc(receipt.reported)
            series.effective_tasks.inc(receipt.effective)
            series.all_solved_tasks.inc(receipt.all_solved)
            series.rollouts.inc(receipt.rollouts)
            series.solved_rollouts.inc(receipt.successes)
            series.prediction_squared_error.inc((receipt.brier or 0.0) * receipt.rollouts)

    def moved(
        self,
        dataset: str,
        run: str,
        state: RunState,
        uniform: UniformEstimate,
        findings: RunFindings | None,
        leased: int | None,
    ) -> None:
        """Show where a run stands. findings, leased: None where they are not known."""
        series = self.runs(dataset, run, works=False)
        if series.names == OTHERS:
            return
        series.set_strategy(state.settings.strategy)
        series.step.set(state.step)
        series.verifier_alarms.set(len(state.guard.alarms))
        series.uniform_effective_task_ratio.set(math.nan if uniform.ratio is None else uniform.ratio)
        if leased is not None:
            series.leased_tasks.set(leased)
        if findings is not None:
            series.narrow.set(findings.weakness is not None and findings.weakness.kind == "narrow")

    def fenced(self, dataset: str, run: str) -> None:
        """Count a report that was refused because its run was rewound."""
        self.runs(dataset, run).fenced_reports.inc()

    def selected(self, dataset: str, run: str, leased: int, *, degraded: bool) -> None:
        """Count a selection that was made. leased: how many tasks are in flight now."""
        series = self.runs(dataset, run)
        series.selections.inc()
        if series.names != OTHERS:
            series.leased_tasks.set(leased)
        series.degraded_answers.inc(degraded)
        series.last_selection_timestamp_seconds.set(time.time())


# --- all that one process counts -------------------------------------------------------------------------------------

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4
REQUEST_S = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
NO_ROUTE = "(none)"
METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}
CLIENT_LEFT = 499  # nginx's number for a client that went away before it was answered


class RequestMetrics:
    """What requests leave behind in this process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        says, labels = "Requests by method, route and status.", ["method", "route", "status"]
        self._requests = Counter("bots_http_requests_total", says, labels, registry=registry)
        says, name = "Time from a request's headers to the end of its answer.", "bots_http_request_duration_seconds"
        self._seconds = Histogram(name, says, labels[:2], registry=registry, buckets=REQUEST_S)

    def answered(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count a request. route: the template of its path; status: 0 where the client went away before the answer."""
        method = method if method in METHODS else "other"
        self._requests.labels(method, route or NO_ROUTE, status or CLIENT_LEFT).inc()
        self._seconds.labels(method, route or NO_ROUTE).observe(seconds)

    def watch_line(self, waiting: Callable[[], float]) -> None:
        """Show how many selects and reports wait, whenever Prometheus asks."""
        says = "Selects and reports that wait for their turn."
        Gauge("bots_waiting_requests", says, registry=self._registry).set_function(waiting)


class Metrics:
    """All that one process counts."""

    def __init__(self) -> None:
        # When each series began: as many samples again, which nobody looks at.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # its authors left the type out
        self.registry = CollectorRegistry()
        self.training = TrainingMetrics(self.registry)
        self.requests = RequestMetrics(self.registry)
        ProcessCollector(registry=self.registry)
        Info("bots_build", "The versions of this process; always 1.", registry=self.registry).info(
            {"version": __version__, "python": platform.python_version(), "numpy": np.__version__}
        )
        says = "1 if the store answered the last check."
        self._store_up = Gauge("bots_store_up", says, ["store"], registry=self.registry)
        self._stores: Callable[[], Mapping[str, bool]] = dict

    def text(self) -> bytes:
        """Return all of it in Prometheus's text format."""
        self.training.runs.forget_idle()
        self._store_up.clear()
        for store, answers in self._stores().items():
            self._store_up.labels(store).set(answers)
        return generate_latest(self.registry)

    def watch(self, is_ready: Callable[[], bool], stores: Callable[[], Mapping[str, bool]]) -> None:
        """Show whether this process wants requests, and which stores answered last, whenever Prometheus asks."""
        self._stores = stores
        gauge = Gauge("bots_ready", "1 if this process accepts requests.", registry=self.registry)
        gauge.set_function(lambda: float(is_ready()))
