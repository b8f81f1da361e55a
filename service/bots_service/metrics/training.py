"""What trainers do, counted: one call for each report and each selection."""

import time

from prometheus_client import CollectorRegistry, Histogram

from bots_service.core.receipt import Receipt
from bots_service.metrics.run_series import RunsAtWork, run_series

BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class TrainingMetrics:
    """What selects and reports leave behind in this process.

    runs: the metrics of each run.
    draw_seconds, fold_seconds: how long the parts of the work took.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        """Count on a registry."""

        def histogram(name: str, says: str) -> Histogram:
            return Histogram(f"bots_{name}_duration_seconds", says, registry=registry, buckets=BUCKETS_S)

        self.runs = RunsAtWork(run_series(registry))
        self.draw_seconds = histogram("draw", "Time to draw the tasks of one selection.")
        self.fold_seconds = histogram("fold", "Time to fold journal entries into a state.")

    def reported(self, dataset: str, run: str, receipt: Receipt, *, duplicate: bool, degraded: bool) -> None:
        """Count a report that was acknowledged."""
        series = self.runs(dataset, run)
        series.degraded_answers.inc(degraded)
        if duplicate:
            series.duplicate_reports.inc()
            return
        series.reports.inc()
        series.expired_outcomes.inc(receipt.expired)
        series.last_report_timestamp_seconds.set(time.time())
        if receipt.closed:
            series.count_step(receipt)

    def fenced(self, dataset: str, run: str) -> None:
        """Count a report that was refused because its run was rewound."""
        self.runs(dataset, run).fenced_reports.inc()

    def selected(self, dataset: str, run: str, *, degraded: bool) -> None:
        """Count a selection that was made."""
        series = self.runs(dataset, run)
        series.selections.inc()
        series.degraded_answers.inc(degraded)
        series.last_selection_timestamp_seconds.set(time.time())
