"""Responses about the course of a run: coverage, history, charts and calibration, as frozen dataclasses.

Unknown fields of a response are ignored. Fields with a default may be missing from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from bots_client._tables import Table

Mix = Mapping[str, float]
Setting = bool | int | float | str | tuple[float, ...] | Mix | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How a run's visits spread over its pool; a visit is a step that reported the task. None: not known yet.

    available_tasks: that are not retired; distinct_tasks: different ones reported so far, retired ones included.
    reached_share: of the available tasks, those that were reported at least once.
    mean_visits, most_visits: of the reported tasks.
    top_tenth_share: of all visits, those that the most visited tenth of the reported tasks took.
    pass_steps: how many steps visit as many tasks as are available.
    unmet_share: of the available tasks, those that so many last steps did not report.
    visits_per_met_task: how often so many last steps reported each task that they reported, on average.
    passes_done, pass_share: full passes over the pool, and the share of the present one; None without passes.
    narrow: whether few tasks take most visits; reason: why, and what to do.
    """

    available_tasks: int = 0
    distinct_tasks: int = 0
    reached_share: float | None = None
    mean_visits: float | None = None
    most_visits: int | None = None
    top_tenth_share: float | None = None
    pass_steps: int | None = None
    unmet_share: float | None = None
    visits_per_met_task: float | None = None
    passes_done: int | None = None
    pass_share: float | None = None
    narrow: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStep:
    """One closed step.

    brier, log_loss: error of the predictions made before the step was folded; smaller is better.
    new_tasks: those of the reported tasks that were never reported before; distinct_tasks: different tasks so far.
    tokens, seconds: what its rollouts cost, as far as outcomes say it.
    """

    step: int
    epoch: int = 0
    seq: int = 0
    reported: int = 0
    effective: int = 0
    effective_task_ratio: float | None = None
    mean_pass_rate: float | None = None
    rollouts: float = 0.0
    capability: float | None = None
    brier: float | None = None
    log_loss: float | None = None
    late: int = 0
    new_tasks: int = 0
    distinct_tasks: int = 0
    tokens: float = 0.0
    seconds: float = 0.0
    time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """Consecutive closed steps, aggregated.

    capability, distinct_tasks, time: after the last of them; success_rate, brier, log_loss: means over their rollouts.
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
    new_tasks: int = 0
    distinct_tasks: int = 0
    time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve(Table):
    """A run's history in a few points, oldest first, without steps undone by a rewind."""

    _rows: ClassVar[str] = "points"
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The estimates for the whole pool after a step.

    uniform_effective_task_ratio: estimate for uniform sampling, in [0, 1].
    distribution: shares of the tasks by expected success probability, in equal bins from 0 to 1.
    distinct_tasks, reached_share, top_tenth_share, unmet_share, visits_per_met_task, narrow: as in `Coverage`.
    """

    step: int
    uniform_effective_task_ratio: float
    distribution: tuple[float, ...] = ()
    distinct_tasks: int = 0
    reached_share: float | None = None
    top_tenth_share: float | None = None
    unmet_share: float | None = None
    visits_per_met_task: float | None = None
    narrow: bool = False
    time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlooks(Table):
    """The estimates for the whole pool over the course of training, oldest first."""

    _rows: ClassVar[str] = "outlooks"
    outlooks: tuple[Outlook, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationBin:
    """Rollouts with a predicted success rate between `low` and `high`; the means are None if there are none."""

    low: float
    high: float
    rollouts: float = 0.0
    mean_prediction: float | None = None
    success_rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration(Table):
    """Predicted success probabilities compared with observed rollouts. steps: how many steps had rollouts."""

    _rows: ClassVar[str] = "bins"
    steps: int
    bins: tuple[CalibrationBin, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskVisit:
    """What one report said of a task.

    seq: of its journal entry; step: number of closed steps after it, None if it is not known yet.
    successes, trials: of its rollouts; mean_reward: their quotient.
    effective: whether the rollouts have a gradient; False for a part of a group.
    group_size: number of rollouts of the group, of which these are a part; None for a whole group.
    late: whether it came after its step had closed, so that it counts for less or for nothing; None like step.
    hidden: undone by a rewind.
    """

    seq: int
    step: int | None = None
    successes: float
    trials: float
    mean_reward: float
    effective: bool
    group_size: float | None = None
    late: bool | None = None
    hidden: bool = False
    time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One entry of a run's journal.

    kind: report, settings, forget, rewind or fork.
    step: number of closed steps after it; None if it is not known yet.
    tasks, effective, rollouts, closed: of a report; effective: the tasks whose group has a gradient; closed: whether it
        closed a step.
    to_step: of a rewind.
    changed: names and values of changed settings.
    skipped: why it changed nothing, though it is in the journal; None for all others.
    hidden: undone by a rewind.
    """

    seq: int
    epoch: int
    kind: str
    time: datetime
    step: int | None = None
    tasks: int | None = None
    effective: int | None = None
    rollouts: float | None = None
    closed: bool | None = None
    to_step: int | None = None
    changed: Mapping[str, Setting] | None = None
    skipped: str | None = None
    hidden: bool = False
