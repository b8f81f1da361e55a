"""The answers for charts: a run's history in few points, its calibration, and what was expected of its pool."""

from datetime import datetime

from msgspec import Struct

from bots_service.api.answers import moment
from bots_service.core import receipt
from bots_service.ports.history import StoredOutlook
from bots_service.ports.records import CurvePoint


class Point(Struct, frozen=True):
    """Some closed steps in a row, taken together.

    capability, time: after the last of them; success_rate, brier, log_loss: means over their rollouts.
    """

    first_step: int
    last_step: int
    reported: int
    effective: int
    effective_task_ratio: float | None
    all_solved: int
    none_solved: int
    rollouts: float
    success_rate: float | None
    capability: float | None
    brier: float | None
    log_loss: float | None
    late: int
    expired: int
    time: datetime

    @classmethod
    def of(cls, point: CurvePoint) -> "Point":
        """Return the answer for a point."""
        return cls(
            first_step=point.first_step,
            last_step=point.last_step,
            reported=point.reported,
            effective=point.effective,
            effective_task_ratio=point.effective / point.reported if point.reported else None,
            all_solved=point.all_solved,
            none_solved=point.none_solved,
            rollouts=point.rollouts,
            success_rate=point.successes / point.rollouts if point.rollouts else None,
            capability=point.capability,
            brier=point.brier,
            log_loss=point.log_loss,
            late=point.late,
            expired=point.expired,
            time=moment(point.time),
        )


class Curve(Struct, frozen=True):
    """A run's present history in few points, in order."""

    points: list[Point]


class Outlook(Struct, frozen=True):
    """What the service expected of the tasks that are not retired, when it looked in a step.

    distribution: their shares by expected success probability, in equal bins from 0 to 1.
    """

    step: int
    uniform_effective_task_ratio: float
    distribution: list[float]
    time: datetime

    @classmethod
    def of(cls, outlook: StoredOutlook) -> "Outlook":
        """Return the answer for an outlook."""
        ratio, shares = outlook.uniform_effective_task_ratio, list(outlook.distribution)
        return cls(outlook.step, ratio, shares, moment(outlook.created_at))


class Outlooks(Struct, frozen=True):
    """What was expected of the pool in the run's present history, in order."""

    outlooks: list[Outlook]


class Bin(Struct, frozen=True):
    """Rollouts whose predicted success rate lay between two numbers. The means are null where there were none."""

    low: float
    high: float
    rollouts: float
    mean_prediction: float | None
    success_rate: float | None


class Calibration(Struct, frozen=True):
    """What was predicted before the last steps beside what came. steps: how many of them told anything."""

    steps: int
    bins: list[Bin]

    @classmethod
    def of(cls, steps: int, sums: receipt.Calibration) -> "Calibration":
        """Return the answer for some sums."""
        rows = zip(sums.rollouts, sums.predicted, sums.solved, strict=True)
        return cls(steps, [_bin(place, *row) for place, row in enumerate(rows)])


def _bin(place: int, rollouts: float, predicted: float, solved: float) -> Bin:
    low, high = place / receipt.BINS, (place + 1) / receipt.BINS
    if not rollouts:
        return Bin(low, high, rollouts, None, None)
    return Bin(low, high, rollouts, predicted / rollouts, solved / rollouts)
