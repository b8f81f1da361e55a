"""The series of runs: as many as Prometheus can bear, whatever users call their runs."""

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Annotated, get_origin, get_type_hints

import numpy as np
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from bots_service.core.arrays import Floats
from bots_service.core.coverage import Coverage
from bots_service.core.mix_account import MixAccount
from bots_service.core.receipt import BINS, Receipt, TagSums
from bots_service.core.resting import Resting
from bots_service.retention import IDLE_SERIES_S

BIN_NAMES = [str(place / BINS) for place in range(BINS)]  # of a calibration, each after its lower end


def _no_bins() -> Floats:
    return np.zeros(BINS)


def _no_tags() -> Floats:
    return np.zeros(0)


@dataclass(slots=True)
class RunCounts:
    """What is counted of one run. Only the event loop counts, so no number is lost though nothing is locked.

    Each metric is called after its field, and carries what it says of itself and its label besides dataset and run.

    tags: with their own series, in the order of their counts.
    """

    reports: Annotated[float, "Reports that were taken, each once."] = 0.0
    duplicate_reports: Annotated[float, "Reports that had come before, and counted then."] = 0.0
    fenced_reports: Annotated[float, "Reports on selections from before a rewind."] = 0.0
    late_outcomes: Annotated[float, "Outcomes that came after their step, with less weight."] = 0.0
    expired_outcomes: Annotated[float, "Outcomes that came too late to count."] = 0.0
    steps: Annotated[float, "Steps that closed."] = 0.0
    reported_tasks: Annotated[float, "Tasks of closed steps, each once a step."] = 0.0
    effective_tasks: Annotated[float, "Those of them whose rewards differ, so that they give a gradient."] = 0.0
    all_solved_tasks: Annotated[float, "Those of equal rewards and a success rate of at least 0.5."] = 0.0
    none_solved_tasks: Annotated[float, "Those of equal rewards and a success rate below 0.5."] = 0.0
    new_tasks: Annotated[float, "Those of them that no step before had reported."] = 0.0
    rollouts: Annotated[float, "Rollouts of closed steps."] = 0.0
    solved_rollouts: Annotated[float, "Their successes, added up; rewards count as parts of a success."] = 0.0
    prediction_squared_error: Annotated[float, "Squared error of the predicted success rates, over all rollouts."] = 0.0
    prediction_log_loss: Annotated[float, "Log loss of the predicted success rates, over all rollouts."] = 0.0
    calibration_rollouts: Annotated[Floats, "Rollouts of closed steps by the predicted success rate.", "bin"] = field(
        default_factory=_no_bins
    )
    calibration_solved_rollouts: Annotated[
        Floats, "Their successes, added up; rewards count as parts of a success.", "bin"
    ] = field(default_factory=_no_bins)
    tag_reported_tasks: Annotated[Floats, "Tasks of closed steps by tag, each once a step.", "tag"] = field(
        default_factory=_no_tags
    )
    tag_effective_tasks: Annotated[Floats, "Those of them whose rewards differ.", "tag"] = field(
        default_factory=_no_tags
    )
    tag_rollouts: Annotated[Floats, "Their rollouts.", "tag"] = field(default_factory=_no_tags)
    tag_solved_rollouts: Annotated[Floats, "Their successes, added up; rewards count as parts of a success.", "tag"] = (
        field(default_factory=_no_tags)
    )
    selections: Annotated[float, "Selections that were made, each once."] = 0.0
    selected_tasks: Annotated[float, "Tasks that were handed out."] = 0.0
    reused_tasks: Annotated[float, "Those of them that were in flight already."] = 0.0
    wanted_effective_tasks: Annotated[float, "Effective tasks that selections wanted."] = 0.0
    expected_effective_tasks: Annotated[float, "Effective tasks to expect of these selections."] = 0.0
    budgeted_rollouts: Annotated[float, "Rollouts that selections spread over their tasks, within a budget."] = 0.0
    degraded_answers: Annotated[
        float, "Selects and reports answered without the shared store, or after it lost tasks in flight."
    ] = 0.0
    tags: tuple[str, ...] = ()

    def count_step(self, receipt: Receipt) -> None:
        """Count the step that an entry closed."""
        step = receipt.tally
        self.steps += 1
        self.reported_tasks += step.reported
        self.effective_tasks += step.effective
        self.new_tasks += receipt.new_tasks
        self.all_solved_tasks += step.all_solved
        self.none_solved_tasks += step.none_solved
        self.rollouts += step.rollouts
        self.solved_rollouts += step.successes
        self.prediction_squared_error += (receipt.brier or 0.0) * step.rollouts
        self.prediction_log_loss += (receipt.log_loss or 0.0) * step.rollouts
        if receipt.calibration is not None:
            self.calibration_rollouts += receipt.calibration.rollouts
            self.calibration_solved_rollouts += receipt.calibration.solved

    def count_tags(self, step: TagSums) -> None:
        """Count a closed step by tag."""
        if step.names != self.tags:
            self._tell_apart(step.names)
        self.tag_reported_tasks += step.reported
        self.tag_effective_tasks += step.effective
        self.tag_rollouts += step.rollouts
        self.tag_solved_rollouts += step.solved

    def _tell_apart(self, tags: tuple[str, ...]) -> None:
        """Count other tags from now on: tasks were appended, and some tags became more frequent than others."""
        for metric in (metric for metric, labels in LABELS.items() if labels == ("tag",)):
            known = dict(zip(self.tags, getattr(self, metric).tolist(), strict=True))
            setattr(self, metric, np.array([known.get(tag, 0.0) for tag in tags]))
        self.tags = tags

    def series(self, metric: str) -> Iterable[tuple[Sequence[str], float]]:
        """Return a metric's values, each with its label in addition to dataset and run; empty bins are left out."""
        value = getattr(self, metric)
        match LABELS[metric]:
            case ("bin",):
                return [
                    ((BIN_NAMES[place],), float(value[place])) for place in np.flatnonzero(self.calibration_rollouts)
                ]
            case ("tag",):
                return [((tag,), at) for tag, at in zip(self.tags, value.tolist(), strict=True)]
            case _:
                return [((), value)]


_HINTS = get_type_hints(RunCounts, include_extras=True)
SAYS = {name: hint.__metadata__[0] for name, hint in _HINTS.items() if get_origin(hint) is Annotated}
LABELS = {name: hint.__metadata__[1:] for name, hint in _HINTS.items() if name in SAYS}


class CountedRuns(Collector):
    """The counts of all runs that have series, for each scrape."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Know no run yet."""
        self._counts: dict[tuple[str, str], RunCounts] = {}
        registry.register(self)

    def begin(self, dataset: str, run: str) -> RunCounts:
        """Return the counts of a new run, or of one that begins again: all 0."""
        counts = self._counts[dataset, run] = RunCounts()
        return counts

    def drop(self, dataset: str, run: str) -> None:
        """Tell nothing of a run any more."""
        self._counts.pop((dataset, run), None)

    def describe(self) -> list[CounterMetricFamily]:
        """Return all families without values."""
        return [
            CounterMetricFamily(f"bots_{name}", says, labels=["dataset", "run", *LABELS[name]])
            for name, says in SAYS.items()
        ]

    def collect(self) -> list[CounterMetricFamily]:
        """Return all families with what was counted so far."""
        families = self.describe()
        for family, metric in zip(families, SAYS, strict=True):
            for names, counts in self._counts.items():
                for own, value in counts.series(metric):
                    family.add_metric([*names, *own], value)
        return families


MOST_RUNS = 32  # with series of their own; a run has about 100, at most 68 more by tag, and 64 by its mix
OTHERS = ("(other)", "(other)")  # no dataset or run can have this name


# Of a coverage, those that have a gauge of their name.
SHOWN_COVERAGE = (
    "distinct_tasks",
    "reached_share",
    "most_visits",
    "mean_visits",
    "top_tenth_share",
    "unmet_share",
    "visits_per_met_task",
    "narrow",
)


@dataclass(frozen=True, slots=True)
class RunSeries:
    """The metrics of one run; or, without names, of all of them.

    Each metric is called after its field, and carries what it says of itself and its labels besides dataset and run.

    names: of the dataset and the run.
    counts: of this run.
    counted: of all runs.
    """

    last_report_timestamp_seconds: Annotated[Gauge, "When the last report was taken."]
    last_selection_timestamp_seconds: Annotated[Gauge, "When the last selection was made."]
    capability: Annotated[Gauge, "Where the model stands along the reference models."]
    step: Annotated[Gauge, "Closed steps of the present history."]
    unfolded_entries: Annotated[Gauge, "Committed entries that are not in the newest state."]
    leased_tasks: Annotated[Gauge, "Tasks in flight."]
    uniform_effective_task_ratio: Annotated[
        Gauge, "Estimate of the effective task ratio of uniform sampling, by the evidence."
    ]
    belief_mean: Annotated[Gauge, "Percentiles of the tasks' expected success probabilities.", "percentile"]
    belief_share: Annotated[Gauge, "Share of the tasks by expected success probability.", "bin"]
    distinct_tasks: Annotated[Gauge, "Different tasks that were reported."]
    reached_share: Annotated[Gauge, "Share of the available tasks that were reported at least once."]
    most_visits: Annotated[Gauge, "Steps that reported the most visited task."]
    mean_visits: Annotated[Gauge, "Steps that reported a task, mean over the reported tasks."]
    top_tenth_share: Annotated[Gauge, "Share of all visits that the most visited tenth of the reported tasks took."]
    unmet_share: Annotated[Gauge, "Share of the available tasks that a whole pass's worth of steps did not report."]
    visits_per_met_task: Annotated[Gauge, "Visits of each task that these steps reported, on average."]
    passes: Annotated[Gauge, "Passes over the pool, the present one as a part of one."]
    narrow: Annotated[Gauge, "1 where few tasks take most visits, 0 where not."]
    resting_tasks: Annotated[Gauge, "Tasks left out because they are hardly ever effective.", "kind"]
    verifier_alarms: Annotated[Gauge, "Alarms of the verifier guard that stand."]
    mix_owed_tasks: Annotated[Gauge, "Reported tasks that the share of a tag of the mix came to.", "tag"]
    mix_given_tasks: Annotated[Gauge, "Reported tasks that count for a tag of the mix.", "tag"]
    prediction_slope: Annotated[Gauge, "How far the belief has learnt to trust a column of predictions.", "predictor"]
    predictions_outdated: Annotated[Gauge, "1 where new runs see other predictions than this run, 0 where not."]
    run_info: Annotated[Gauge, "How a run chooses tasks; always 1.", "strategy"]
    journal_entries: Annotated[Gauge, "Entries of the journal, from where it begins."]
    journal_bytes: Annotated[Gauge, "About how large they are in SQL, by the newest of them."]
    journal_oldest_entry_timestamp_seconds: Annotated[Gauge, "When the first of them was appended."]
    snapshots: Annotated[Gauge, "Stored states."]
    snapshot_bytes: Annotated[Gauge, "How large they are in SQL."]
    last_snapshot_timestamp_seconds: Annotated[Gauge, "When the last of them was stored."]
    counted: CountedRuns
    names: tuple[str, str] = ("", "")
    counts: RunCounts = field(default_factory=RunCounts)

    def of(self, dataset: str, run: str) -> "RunSeries":
        """Return the series of one run; its gauges tell NaN, that is nothing, until they are set."""
        own = {name: getattr(self, name) for name in METRICS}
        for name in METRICS.keys() - LABELLED:
            own[name] = own[name].labels(dataset, run)
            own[name].set(math.nan)
        return replace(self, **own, names=(dataset, run), counts=self.counted.begin(dataset, run))

    def set_belief_mean(self, quantile: float, value: float) -> None:
        """Set one quantile of a run's expected success probabilities."""
        self.belief_mean.labels(*self.names, f"{100 * quantile:g}").set(value)  # promtool wants no label "quantile"

    def set_belief_shares(self, shares: Sequence[float]) -> None:
        """Set which share of a run's tasks lies in each of so many equal bins; a bin is called after its lower end."""
        for place, share in enumerate(shares):
            self.belief_share.labels(*self.names, place / len(shares)).set(share)

    def set_coverage(self, found: Coverage) -> None:
        """Set how a run's visits spread over its pool; what is not known yet is NaN."""
        for name in SHOWN_COVERAGE:
            value = getattr(found, name)
            getattr(self, name).set(math.nan if value is None else value)
        self.passes.set(math.nan if found.passes_done is None else found.passes_done + (found.pass_share or 0.0))

    def set_resting(self, found: Resting) -> None:
        """Set how many tasks are left out because they are solved, or never solved."""
        self.resting_tasks.labels(*self.names, "solved").set(found.solved)
        self.resting_tasks.labels(*self.names, "unsolved").set(found.unsolved)

    def set_mix(self, account: MixAccount) -> None:
        """Set what each tag of the run's mix was owed and given, and remove the series of tags that left it."""
        dataset, run = self.names
        for gauge in (self.mix_owed_tasks, self.mix_given_tasks):
            gauge.remove_by_labels({"dataset": dataset, "run": run})
        for one in account:
            self.mix_owed_tasks.labels(dataset, run, one.tag).set(one.owed)
            self.mix_given_tasks.labels(dataset, run, one.tag).set(one.given)

    def set_predictions(self, slopes: Mapping[str, float]) -> None:
        """Set the slope of each column of predictions that the run sees, and remove the series of all others."""
        dataset, run = self.names
        self.prediction_slope.remove_by_labels({"dataset": dataset, "run": run})
        for predictor, slope in slopes.items():
            self.prediction_slope.labels(dataset, run, predictor).set(slope)

    def set_strategy(self, strategy: str) -> None:
        """Set the run's selection strategy, and remove the series of the one before."""
        dataset, run = self.names
        self.run_info.remove_by_labels({"dataset": dataset, "run": run})
        self.run_info.labels(dataset, run, strategy).set(1)

    def drop(self, dataset: str, run: str) -> None:
        """Drop the series of one run."""
        for name in METRICS:
            getattr(self, name).remove_by_labels({"dataset": dataset, "run": run})
        self.counted.drop(dataset, run)


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
    return RunSeries(**made, counted=CountedRuns(registry))


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

    def last_used(self) -> dict[tuple[str, str], float]:
        """Return when each run that has series of its own was last at work, by dataset and run."""
        return {names: since for names, (_, since) in self._known.items() if names != OTHERS}

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
            if self._clock() - since > IDLE_SERIES_S and names != OTHERS:  # of the others nobody knows which are idle
                self._drop(names)

    def _has_room(self) -> bool:
        if (
            self._is_full() and self._clock() - self._idlest_since() > IDLE_SERIES_S
        ):  # asked by each report of the others
            self.forget_idle()
        return not self._is_full()

    def _is_full(self) -> bool:
        return len(self._known) - (OTHERS in self._known) >= self._most

    def _idlest_since(self) -> float:
        return next(since for names, (_, since) in self._known.items() if names != OTHERS)

    def _drop(self, names: tuple[str, str]) -> None:
        del self._known[names]
        self._series.drop(*names)
