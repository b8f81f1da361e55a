"""The series of runs: as many as Prometheus can bear, whatever users call their runs."""

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Annotated, get_origin, get_type_hints

from prometheus_client import CollectorRegistry, Gauge

from bots_service.metrics.run_counts import CountedRuns, RunCounts

MOST_RUNS = 32  # with series of their own; a run has about 80, and at most 68 more by tag
IDLE_S = 3600.0  # a run that did nothing for so long makes room for another
OTHERS = ("(other)", "(other)")  # no dataset or run can have this name


@dataclass(frozen=True, slots=True)
class RunSeries:
    """What is told of one run; or, without names, of all of them.

    Each metric is called after its field, and carries what it says of itself and its labels besides dataset and run.

    names: of the dataset and the run.
    counts: of this run.
    counted: of all runs.
    """

    last_report_timestamp_seconds: Annotated[Gauge, "When the last report was taken."]
    last_selection_timestamp_seconds: Annotated[Gauge, "When the last selection was made."]
    capability: Annotated[Gauge, "Where the model stands along the reference models."]
    step: Annotated[Gauge, "Closed steps of the present history."]
    unfolded_entries: Annotated[Gauge, "Committed entries that the newest state lacks."]
    leased_tasks: Annotated[Gauge, "Tasks in flight."]
    uniform_effective_task_ratio: Annotated[
        Gauge, "Effective task ratio that uniform choice can expect, by the evidence."
    ]
    belief_mean: Annotated[Gauge, "Percentiles of the tasks' expected success probabilities.", "percentile"]
    belief_share: Annotated[Gauge, "Share of the tasks by expected success probability.", "bin"]
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

    def set_strategy(self, strategy: str) -> None:
        """Tell how a run chooses tasks now; how it did before is told no longer."""
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
    """Return what is told of runs, on this registry."""
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
            if self._clock() - since > IDLE_S and names != OTHERS:  # of the others nobody knows which are idle
                self._drop(names)

    def _has_room(self) -> bool:
        if self._is_full() and self._clock() - self._idlest_since() > IDLE_S:  # asked by each report of the others
            self.forget_idle()
        return not self._is_full()

    def _is_full(self) -> bool:
        return len(self._known) - (OTHERS in self._known) >= self._most

    def _idlest_since(self) -> float:
        return next(since for names, (_, since) in self._known.items() if names != OTHERS)

    def _drop(self, names: tuple[str, str]) -> None:
        del self._known[names]
        self._series.drop(*names)
