"""What trainers do, counted: one call for each report and each selection."""

import time

from prometheus_client import CollectorRegistry, Histogram

from bots_service.core.receipt import Receipt
from bots_service.metrics.run_series import RunsAtWork, run_series

BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class TrainingMetrics:
    """What selects and reports leave behind in this process.

    draw_seconds, fold_seconds, catch_up_seconds: how long the parts of the work took.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        """Count on a registry."""

        def histogram(name: str, says: str) -> Histogram:
            return Histogram(f"bots_{name}_duration_seconds", says, registry=registry, buckets=BUCKETS_S)

        self.runs = RunsAtWork(run_series(registry))
        self.draw_seconds = histogram("draw", "Time of one draw.")
        self.fold_seconds = histogram("fold", "Time of folding some entries, one or a page of them.")
        self.catch_up_seconds = histogram("catch_up", "Time from a committed entry to a published state.")

    def reported(self, dataset: str, run: str, receipt: Receipt, *, duplicate: bool, degraded: bool) -> None:
        """Count a report that was acknowledged."""
        series = self.runs(dataset, run)
        if degraded:
            series.degraded_answers.inc()
        if duplicate:
            series.duplicate_reports.inc()
            return
        series.reports.inc()
        series.last_report_timestamp_seconds.set(time.time())
        series.late_outcomes.inc(receipt.late)
        series.expired_outcomes.inc(receipt.expired)
        if not receipt.closed:
            return
        step = receipt.tally
        series.steps.inc()
        series.reported_tasks.inc(step.reported)
        series.effective_tasks.inc(step.effective)
        series.all_solved_tasks.inc(step.all_solved)
        series.none_solved_tasks.inc(step.none_solved)
        series.rollouts.inc(step.rollouts)
        series.solved_rollouts.inc(step.successes)
        series.prediction_squared_error.inc((receipt.brier or 0.0) * step.rollouts)
        series.prediction_log_loss.inc((receipt.log_loss or 0.0) * step.rollouts)
        if receipt.calibration is not None:
            series.count_calibration(receipt.calibration)

    def fenced(self, dataset: str, run: str) -> None:
        """Count a report that was refused because its run was rewound."""
        self.runs(dataset, run).fenced_reports.inc()

    def selected(self, dataset: str, run: str, *, tasks: int, reused: int, degraded: bool) -> None:
        """Count a selection that was made."""
        series = self.runs(dataset, run)
        series.selections.inc()
        series.selected_tasks.inc(tasks)
        series.reused_tasks.inc(reused)
        series.last_selection_timestamp_seconds.set(time.time())
        if degraded:
            series.degraded_answers.inc()
