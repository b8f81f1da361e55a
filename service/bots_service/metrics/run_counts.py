"""What is counted of runs, as plain numbers: instruments of prometheus_client would lock for each of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, get_origin, get_type_hints

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from bots_service.core.arrays import Floats
from bots_service.core.receipt import BINS, Receipt
from bots_service.core.tag_sums import TagSums

BIN_NAMES = [str(place / BINS) for place in range(BINS)]  # of a calibration, each after its lower end


def _no_bins() -> Floats:
    return np.zeros(BINS)


def _no_tags() -> Floats:
    return np.zeros(0)


@dataclass(slots=True)
class RunCounts:
    """What is counted of one run. Only the event loop counts, so no number is lost though nothing is locked.

    Each metric is called after its field, and carries what it says of itself and its label besides dataset and run.

    tags: that are told apart, in the order of what is counted of them.
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
        """Return a metric's values, each with its label besides dataset and run; bins that nothing fell into lack."""
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
    """The counts of all runs that have series, told whenever Prometheus asks."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Know no run yet."""
        self._counts: dict[tuple[str, str], RunCounts] = {}
        registry.register(self)

    def begin(self, dataset: str, run: str) -> RunCounts:
        """Return the counts of a run that begins, or begins anew: all 0."""
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
