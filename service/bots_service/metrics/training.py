"""What trainers do, counted: one call for each report and each selection."""

import time
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram

from bots_service.core.receipt import Receipt
from bots_service.metrics.run_series import OTHERS, RunsAtWork, run_series


@dataclass(frozen=True, slots=True)
class Cache:
    """What is counted of one cache."""

    hits: Counter
    misses: Counter

    def looked_up(self, *, found: bool) -> None:
        """Count one look."""
        (self.hits if found else self.misses).inc()


class Caches:
    """What is counted of the caches that requests wait for.

    datasets: that are open; states: of runs, decoded; keys: that are known.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        """Count on a registry."""
        hits = Counter("bots_cache_hits_total", "Looks that found it in memory.", ["cache"], registry=registry)
        misses = Counter("bots_cache_misses_total", "Looks that had to ask a store.", ["cache"], registry=registry)
        self.datasets, self.states, self.keys = (
            Cache(hits.labels(name), misses.labels(name)) for name in ("datasets", "states", "keys")
        )


BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class TrainingMetrics:
    """What selects and reports leave behind in this process.

    runs: the metrics of each run; caches: their hits and misses.
    draw_seconds, fold_seconds, catch_up_seconds: how long the parts of the work took.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        """Count on a registry."""

        def histogram(name: str, says: str) -> Histogram:
            return Histogram(f"bots_{name}_duration_seconds", says, registry=registry, buckets=BUCKETS_S)

        self.runs = RunsAtWork(run_series(registry))
        self.caches = Caches(registry)
        self.draw_seconds = histogram("draw", "Time of one draw.")
        self.fold_seconds = histogram("fold", "Time of folding some entries, one or a page of them.")
        self.catch_up_seconds = histogram("catch_up", "Time from a committed entry to a published state.")

    def reported(self, dataset: str, run: str, receipt: Receipt, *, duplicate: bool, degraded: bool) -> None:
        """Count a report that was acknowledged."""
        series = self.runs(dataset, run)
        counts = series.counts
        counts.degraded_answers += degraded
        if duplicate:
            counts.duplicate_reports += 1
            return
        counts.reports += 1
        counts.late_outcomes += receipt.late
        counts.expired_outcomes += receipt.expired
        series.last_report_timestamp_seconds.set(time.time())
        if receipt.closed:
            counts.count_step(receipt)
            if receipt.tags is not None and series.names != OTHERS:  # runs of many datasets have too many tags
                counts.count_tags(receipt.tags)

    def fenced(self, dataset: str, run: str) -> None:
        """Count a report that was refused because its run was rewound."""
        self.runs(dataset, run).counts.fenced_reports += 1

    def selected(self, dataset: str, run: str, *, tasks: int, reused: int, degraded: bool) -> None:
        """Count a selection that was made."""
        series = self.runs(dataset, run)
        counts = series.counts
        counts.selections += 1
        counts.selected_tasks += tasks
        counts.reused_tasks += reused
        counts.degraded_answers += degraded
        series.last_selection_timestamp_seconds.set(time.time())
