"""Responses about runs: selections, receipts, beliefs, journal and leases, as frozen dataclasses.

Unknown fields of a response are ignored. Fields with a default may be missing from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from bots_client._history_models import Coverage, Mix
from bots_client._tables import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedTask:
    """One task to train on next.

    draw: the sampled success probability; None for strategies that don't sample.
    mean: expected success probability.
    effective: probability that some of the task's rollouts succeed and some fail.
        Both are None if a `ResilientClient` sampled the task itself.
    """

    id: str
    draw: float | None = None
    mean: float | None = None
    effective: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection(Table):
    """The tasks to train on next; pass it to `report` with their outcomes.

    selection_id: "" if a `ResilientClient` sampled the tasks itself.
    epoch, step, seq: of the run when the tasks were selected.
    degraded: the tasks may also be in another selection, or the belief may miss acknowledged reports.
    reused: number of tasks that are also in another selection in flight.
    expected_effective: expected number of effective groups; None if a `ResilientClient` sampled the tasks itself.
    """

    _rows: ClassVar[str] = "tasks"
    selection_id: str
    dataset: str
    run: str
    tasks: tuple[SelectedTask, ...]
    epoch: int = 0
    step: int = 0
    seq: int = 0
    degraded: bool = False
    reused: int = 0
    expected_effective: float | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the tasks, nearest to the target first."""
        return tuple(task.id for task in self.tasks)

    @property
    def is_local(self) -> bool:
        """Whether the client sampled the tasks itself because the service was away."""
        return not self.selection_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The result of a report. It is stored durably and counted once.

    closed: whether it closed a step; `reported` and `effective` describe that step, otherwise the open step.
    late: number of outcomes for a step that had already closed; expired: number of outcomes too late to count.
    new_tasks: those of the reported tasks that were never reported before; distinct_tasks: different tasks so far.
    tokens, seconds: what these rollouts cost, as far as outcomes say it.
    duplicate: the same report was counted before; nothing changed.
    degraded: other replicas see the report only when Redis is back.
    """

    seq: int
    step: int
    closed: bool = False
    reported: int = 0
    effective: int = 0
    effective_task_ratio: float | None = None
    capability: float | None = None
    late: int = 0
    expired: int = 0
    new_tasks: int = 0
    distinct_tasks: int = 0
    tokens: float = 0.0
    seconds: float = 0.0
    duplicate: bool = False
    degraded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a run (symbols as in the paper, arXiv:2510.26374).

    belief: the kind of belief: tracker or bots. Forgetting, implicit_weight, prior, capability and capability_momentum
        are None with the tracker, which has none of them.
    forgetting: lambda, the share of the past that each step drops, in [0, 1].
    implicit_weight: rho, the weight of evidence implied by other tasks, in [0, 1].
    rollouts_per_task: m, how many rollouts one implied observation stands for; None: as many as reported tasks had.
    target: p*, the target success probability, in [0, 1].
    prior: alpha and beta of a task without evidence.
    capability: how the model's place along the references is found: least_squares, or paper.
    capability_momentum: gamma, how much each step keeps of what earlier ones say of that place, in [0, 1].
    strategy: thompson, pass, uniform, shuffle or easy_to_hard.
    seed: random seed of the selections.
    tasks_per_step: close a step after this many reported tasks; None: after each report.
    reward_range: lowest and highest possible reward.
    lease_seconds: how long a selected task is excluded from other selections, unless it is reported.
    mix: the weight of each tag; empty: no mix.
    """

    belief: str = "tracker"
    forgetting: float | None = None
    implicit_weight: float | None = None
    rollouts_per_task: float | None = None
    target: float = 0.5
    prior: tuple[float, float] | None = None
    capability: str | None = None
    capability_momentum: float | None = None
    strategy: str = "pass"
    seed: int = 0
    tasks_per_step: int | None = None
    reward_range: tuple[float, float] = (0.0, 1.0)
    lease_seconds: float = 3600.0
    mix: Mix = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The totals of a run.

    reported: tasks; effective: those whose group of rollouts has a gradient: its rewards differ.
    all_solved, none_solved: the others, by whether their success rate is at least 0.5.
    rollouts, successes: sums; fractional rewards give fractional successes.
    late: number of outcomes for a step that had already closed; expired: number of outcomes too late to count.
    distinct: different tasks.
    tokens, seconds: what the rollouts cost, as far as outcomes say it.
    """

    reported: int = 0
    effective: int = 0
    all_solved: int = 0
    none_solved: int = 0
    rollouts: float = 0.0
    successes: float = 0.0
    late: int = 0
    expired: int = 0
    distinct: int = 0
    tokens: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """The run and step that a run began from."""

    run: str
    step: int
    seq: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MixShare:
    """One tag of a run's mix.

    share: the share of the tasks that it is owed.
    owed: tasks that its share came to so far; given: tasks reported that count for it.
    """

    tag: str
    share: float
    owed: float = 0.0
    given: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierAlarm:
    """Rewards that turned all equal at once.

    tag: whose tasks; None for the whole run.
    outcome: what all groups of rollouts did: failed or succeeded.
    since_step: the first step in which they did; last_step: the last one.
    groups: how many groups did; chance: how likely the belief thought that.
    """

    tag: str | None = None
    outcome: str
    since_step: int
    last_step: int
    groups: int
    chance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One belief about one dataset, for one model in training.

    step: closed steps; seq: journal entries; epoch: how often it was rewound.
    capability: of the model, on the scale of its references; None before the first closed step, or without references.
    estimates: what the belief estimates about the model, by name; the first tells where the model stands: ability with
        the tracker, capability with the belief bots.
    rollouts_per_task: m in use: the setting, or learned from what was reported; None before the first report.
    pending: tasks reported in the open step; leased: tasks selected and not yet reported.
    unfinished_groups: groups that were reported in part; aborting_tasks: tasks that were aborted three times in a row.
    degraded: other replicas may have a newer state and more tasks in flight.
    coverage: how the visits spread over the pool.
    advice: hints about the run, such as where selection gains little; one or two sentences each.
    mix: the tags of the run's mix; empty without one.
    alarms: those of the verifier guard that stand, the whole run's first.
    """

    dataset: str
    run: str
    step: int
    seq: int
    epoch: int = 0
    settings: Settings = field(default_factory=Settings)
    capability: float | None = None
    estimates: Mapping[str, float] = field(default_factory=dict)
    rollouts_per_task: float | None = None
    pending: int = 0
    unfinished_groups: int = 0
    aborting_tasks: int = 0
    leased: int = 0
    degraded: bool = False
    totals: Totals = field(default_factory=Totals)
    coverage: Coverage = field(default_factory=Coverage)
    advice: tuple[str, ...] = ()
    mix: tuple[MixShare, ...] = ()
    forked_from: Fork | None = None
    created_at: datetime | None = None
    predictions: tuple[str, ...] = ()
    alarms: tuple[VerifierAlarm, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskBelief:
    """What a run knows of one task.

    alpha, beta: of the Beta distribution of its success probability; None for a belief that has none.
    mean: of its success probability; interval: 5 % and 95 % quantiles.
    effective: the probability that of a group of rollouts some succeed and some fail.
    variance: the expected variance of one rollout's success, E[p (1 - p)].
    attempts: how many rollouts of it were reported; successes: how many of them succeeded, in part for fractional
        rewards; visits: how many steps reported any; last_step: the last of these steps; None if none did.
    aborts: how often it was selected and aborted.
    segment: untried (no rollout), aborting (aborted at its last three selections or more), stuck (never a success),
        solved (mean at least 0.9), teaching (the other tried ones) or retired.
    """

    id: str
    alpha: float | None = None
    beta: float | None = None
    mean: float
    interval: tuple[float, float] | None = None
    effective: float
    variance: float
    attempts: float = 0.0
    successes: float = 0.0
    visits: int = 0
    last_step: int | None = None
    aborts: int = 0
    segment: str = "untried"
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCounts:
    """How many tasks are in each segment of a run, as in `TaskBelief`."""

    untried: int
    aborting: int
    stuck: int
    teaching: int
    solved: int
    retired: int

    @property
    def available(self) -> int:
        """Number of tasks that are not retired."""
        return self.untried + self.aborting + self.stuck + self.teaching + self.solved


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Tasks whose leases expire together, such as those of one selection.

    tasks: number of tasks; first: ids of some of them.
    """

    expires_at: datetime
    tasks: int
    first: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leases(Table):
    """Tasks in flight: selected and not reported yet.

    leased: number of tasks, including leases that are not listed; leases: those that expire soonest come first.
    """

    _rows: ClassVar[str] = "leases"
    leased: int
    leases: tuple[Lease, ...]
