"""What the service answers, as frozen values.

Fields that the service adds later are ignored; those with a default may be missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A pool of tasks under a name.

    tasks: how many can be selected; retired: how many no longer can.
    profiles: how many different combinations of reference pass rates there are.
    tags: how many tasks bear each tag.
    digest: of the content; equal for equal pools.
    """

    name: str
    tasks: int
    description: str = ""
    reference_models: tuple[str, ...] = ()
    retired: int = 0
    profiles: int = 0
    tags: Mapping[str, int] = field(default_factory=dict)
    digest: str = ""
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolChange:
    """What appending or retiring tasks did; tasks: how many can be selected now."""

    dataset: str
    tasks: int
    added: int = 0
    retired: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a run believes, forgets and selects (symbols of the paper, arXiv:2510.26374).

    forgetting: lambda, the share of the past that each step drops, in [0, 1].
    implicit_weight: rho, the trust in evidence implied by other tasks, in [0, 1].
    rollouts_per_task: m, how many rollouts one implied observation stands for; None: as many as reported tasks had.
    target: p*, the success probability to look for, in [0, 1].
    prior: alpha and beta of a task without evidence.
    capability: how the model's place along the references is found: least_squares, or paper.
    capability_momentum: gamma, how much each step keeps of what earlier ones say of that place, in [0, 1].
    strategy: thompson, mean, softmax, uniform, shuffle or easy_to_hard.
    temperature: tau of the softmax strategy.
    seed: of every draw.
    tasks_per_step: a step closes by itself once so many tasks' evidence is pending; None: each report closes one.
    reward_range: lowest and highest possible reward.
    lease_seconds: how long a selected task is kept from other selections.
    """

    forgetting: float = 0.1
    implicit_weight: float = 0.1
    rollouts_per_task: float | None = None
    target: float = 0.5
    prior: tuple[float, float] = (1.0, 1.0)
    capability: str = "least_squares"
    capability_momentum: float = 0.9
    strategy: str = "thompson"
    temperature: float = 0.05
    seed: int = 0
    tasks_per_step: int | None = None
    reward_range: tuple[float, float] = (0.0, 1.0)
    lease_seconds: float = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What a run has seen so far.

    reported: tasks; effective: those whose group of rollouts has a gradient: its rewards differ.
    all_solved, none_solved: the others, by whether their success rate is at least 0.5.
    rollouts, successes: sums; fractional rewards give fractional successes.
    late: tasks whose evidence came after its step had closed; expired: too late to count.
    """

    reported: int = 0
    effective: int = 0
    all_solved: int = 0
    none_solved: int = 0
    rollouts: float = 0.0
    successes: float = 0.0
    late: int = 0
    expired: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Where a run began: another run at a step."""

    run: str
    step: int
    seq: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One belief about one dataset, for one model in training.

    step: closed steps; seq: journal entries; epoch: how often it was rewound.
    capability: of the model, on the scale of its references; None before the first closed step, or without references.
    rollouts_per_task: m in use: the setting, or learned from what was reported; None before the first report.
    pending: tasks reported in the open step; leased: tasks selected and not yet reported.
    degraded: other replicas of the service may know a newer state and more tasks in flight.
    advice: what to know about the run, such as where selection brings little; a sentence or two each.
    """

    dataset: str
    run: str
    step: int
    seq: int
    epoch: int = 0
    settings: Settings = field(default_factory=Settings)
    capability: float | None = None
    rollouts_per_task: float | None = None
    pending: int = 0
    leased: int = 0
    degraded: bool = False
    totals: Totals = field(default_factory=Totals)
    advice: tuple[str, ...] = ()
    forked_from: Fork | None = None
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskBelief:
    """What a run believes about one task: Beta(alpha, beta).

    interval: 5 % and 95 % quantiles; evidence: the pseudo-counts behind the mean.
    last_step: the last step in which the task was tried; None if never.
    """

    id: str
    alpha: float
    beta: float
    mean: float
    interval: tuple[float, float] | None = None
    evidence: float = 0.0
    last_step: int | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStep:
    """One closed step.

    brier, log_loss: error of the predictions made before the step was folded; smaller is better.
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
    time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A stored state of a run, from which recovery starts."""

    seq: int
    epoch: int
    step: int
    bytes: int = 0
    checksum: str = ""
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """What the service runs on; draws can be repeated on the same version of numpy."""

    version: str
    python: str = ""
    numpy: str = ""
    schema: str | int | None = None
