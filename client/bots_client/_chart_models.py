"""What charts of a run are made of, as frozen values."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """Some closed steps in a row, taken together.

    capability, time: after the last of them; success_rate, brier, log_loss: means over their rollouts.
    """

    first_step: int
    last_step: int
    reported: int = 0
    effective: int = 0
    effective_task_ratio: float | None = None
    all_solved: int = 0
    none_solved: int = 0
    rollouts: float = 0.0
    success_rate: float | None = None
    capability: float | None = None
    brier: float | None = None
    log_loss: float | None = None
    late: int = 0
    expired: int = 0
    time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A run's present history in few points, in order."""

    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What was expected of the pool after a step.

    uniform_effective_task_ratio: what uniform choice could expect then, in [0, 1].
    distribution: the tasks' shares by expected success probability, in equal bins from 0 to 1.
    """

    step: int
    uniform_effective_task_ratio: float
    distribution: tuple[float, ...] = ()
    time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlooks:
    """What was expected of the pool as training went on, in order."""

    outlooks: tuple[Outlook, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationBin:
    """Rollouts whose predicted success rate lay between `low` and `high`; the means are None where there were none."""

    low: float
    high: float
    rollouts: float = 0.0
    mean_prediction: float | None = None
    success_rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What was predicted before the last steps beside what came. steps: how many of them told anything."""

    steps: int
    bins: tuple[CalibrationBin, ...]
