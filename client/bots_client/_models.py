"""What the service answers, as frozen dataclasses: runs, their course and summaries, datasets, keys.

Unknown fields of an answer are ignored. Fields with a default may be missing from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bots_client._tables import Table

Mix = Mapping[str, float]
Setting = bool | int | float | str | tuple[float, ...] | Mix | None


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
    """The totals of a run; what is not explained here is as in `Receipt`.

    reported: tasks; effective: those whose group of rollouts has a gradient: its rewards differ.
    all_solved, none_solved: the others, by whether their success rate is at least 0.5.
    rollouts, successes: sums; fractional rewards give fractional successes. distinct: different tasks.
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

    share: of the tasks that it is owed; owed: tasks that this came to so far; given: tasks reported that count for it.
    """

    tag: str
    share: float
    owed: float = 0.0
    given: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierAlarm:
    """Rewards that turned all equal at once.

    tag: whose tasks; None for the whole run.
    outcome: what all groups of rollouts did from since_step to last_step: failed or succeeded.
    groups: how many groups did; chance: how likely the belief thought that.
    """

    tag: str | None = None
    outcome: str
    since_step: int
    last_step: int
    groups: int
    chance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How a run's visits spread over its pool; a visit is a step that reported the task. None: not known yet.

    available_tasks: that are not retired; distinct_tasks: different ones reported so far, retired ones included.
    reached_share: of the available tasks, those that were reported at least once.
    top_tenth_share: of all visits, those that a tenth of the available tasks took, the most visited.
    unmet_share: of the available tasks, those that the last steps did not report, as many as visit so many tasks.
    passes: passes over the pool, the present one in part; None without passes.
    """

    available_tasks: int = 0
    distinct_tasks: int = 0
    reached_share: float | None = None
    top_tenth_share: float | None = None
    unmet_share: float | None = None
    passes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One belief about one dataset, for one model in training.

    step: closed steps; seq: journal entries; epoch: how often it was rewound.
    estimates: what the belief estimates about the model, by name; the first tells where the model stands: ability with
        the tracker, capability with the belief bots.
    uniform_effective_task_ratio: what the belief expects of uniform sampling, in [0, 1].
    rollouts_per_task: m in use: the setting, or learned from what was reported; None before the first report.
    pending: tasks reported in the open step; leased: tasks selected and not yet reported.
    unfinished_groups: groups that were reported in part; aborting_tasks: tasks that were aborted three times in a row.
    degraded: other replicas may have a newer state and more tasks in flight.
    coverage: how the visits spread over the pool.
    mix: the tags of the run's mix; empty without one.
    alarms: those of the verifier guard that stand, the whole run's first.
    """

    dataset: str
    run: str
    step: int
    seq: int
    epoch: int = 0
    settings: Settings = field(default_factory=Settings)
    estimates: Mapping[str, float] = field(default_factory=dict)
    uniform_effective_task_ratio: float | None = None
    rollouts_per_task: float | None = None
    pending: int = 0
    unfinished_groups: int = 0
    aborting_tasks: int = 0
    leased: int = 0
    degraded: bool = False
    totals: Totals = field(default_factory=Totals)
    coverage: Coverage = field(default_factory=Coverage)
    mix: tuple[MixShare, ...] = ()
    forked_from: Fork | None = None
    created_at: datetime | None = None
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
    segment: untried (no rollout), aborting (aborted at its last three selections or more), unsolved (never a success),
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
    unsolved: int
    teaching: int
    solved: int
    retired: int

    @property
    def available(self) -> int:
        """Number of tasks that are not retired."""
        return self.untried + self.aborting + self.unsolved + self.teaching + self.solved


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Tasks whose leases expire together, such as those of one selection: how many, and the ids of the first ones."""

    expires_at: datetime
    tasks: int
    first: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leases(Table):
    """Tasks in flight: selected and not reported yet.

    leased: number of tasks, including leases that are not listed; leases: those that expire soonest come first.
    """

    leased: int
    leases: tuple[Lease, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStep:
    """One closed step; what is not explained here is as in `Receipt`.

    brier, log_loss: error of the predictions made before the step was folded; smaller is better.
    """

    step: int
    epoch: int = 0
    seq: int = 0
    reported: int = 0
    effective: int = 0
    effective_task_ratio: float | None = None
    success_rate: float | None = None
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
    uniform_effective_task_ratio: what the belief expected of uniform sampling, in [0, 1].
    distribution: shares of the pool by expected success probability, in equal bins from 0 to 1; None where the service
        did not look in these steps.
    """

    first_step: int
    last_step: int
    reported: int = 0
    effective: int = 0
    effective_task_ratio: float | None = None
    rollouts: float = 0.0
    success_rate: float | None = None
    capability: float | None = None
    brier: float | None = None
    log_loss: float | None = None
    uniform_effective_task_ratio: float | None = None
    distribution: tuple[float, ...] | None = None
    distinct_tasks: int = 0
    time: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve(Table):
    """A run's history in a few points, oldest first, without steps undone by a rewind."""

    points: tuple[CurvePoint, ...]


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

    steps: int
    bins: tuple[CalibrationBin, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One entry of a run's journal.

    kind: report, settings, rewind or probe. step: number of closed steps after it.
    tasks, effective, rollouts, closed: of a report; closed: whether it closed a step.
    to_step: of a rewind. changed: names and values of changed settings. hidden: undone by a rewind.
    """

    seq: int
    epoch: int
    kind: str
    time: datetime
    step: int
    tasks: int | None = None
    effective: int | None = None
    rollouts: float | None = None
    closed: bool | None = None
    to_step: int | None = None
    changed: Mapping[str, Setting] | None = None
    hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """How much more a run found than uniform sampling finds with the same rollouts. None: not known.

    baseline: the run that it is measured by, which samples uniformly, over the steps that both have closed; None where
        it is estimated from the run's own belief.
    factor: effective tasks found, as a multiple of those of uniform sampling.
    rollouts_saved: how many more rollouts uniform sampling needs for as many effective tasks.
    rollouts_spent, steps: in the steps compared, and how many these are.
    own_ratio, uniform_ratio: the effective task ratios over these steps, of the run and of uniform sampling; their
        quotient is the factor.
    uniform_effective_task_ratio: of uniform sampling, over the last 50 of them.
    """

    baseline: str | None = None
    factor: float | None = None
    rollouts_saved: float | None = None
    rollouts_spent: float = 0.0
    steps: int = 0
    own_ratio: float | None = None
    uniform_ratio: float | None = None
    uniform_effective_task_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastEvaluation:
    """What was last measured of a run's model, by the name that comes first in the alphabet. None: not known.

    step: after so many closed steps.
    baseline: the run that it is compared with, which samples uniformly, or else shuffles.
    difference: how much more it had at compared_step than the baseline.
    """

    name: str
    step: int
    value: float
    baseline: str | None = None
    compared_step: int | None = None
    difference: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdict:
    """What to think of a run.

    kind: healthy, starting, or what is wrong: reports_refused, verifier_suspect, stalled, narrow, miscalibrated,
        aborting, pool_exhausted or learning_slowly. reason: one sentence, with the numbers; advice: what to do.
    """

    kind: str
    reason: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedReports:
    """Reports of a run that the service refused as invalid: how many, and of the last one when and why."""

    count: int
    last_at: datetime
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """How a run goes.

    status: "new" (no step closed), "running", "stalled" (its next step is overdue), "idle" or "finished".
    step: closed steps; a fork counts those of its parent too. last_step_at: when the last one closed.
    reported, effective, rollouts: sums over all closed steps, without steps undone by a rewind.
    effective_task_ratio: over the last 50 steps; trend: this ratio along all steps, the newest last.
    gain: over uniform sampling; None for a run that samples uniformly.
    leased: number of tasks in flight; evaluations: by name, steps with their values. None in an overview.
    attention: whether somebody should look at the run.
    """

    dataset: str
    run: str
    belief: str = ""
    strategy: str = ""
    created_at: datetime
    status: str
    step: int = 0
    epoch: int = 0
    seq: int = 0
    last_step_at: datetime | None = None
    reported: int = 0
    effective: int = 0
    rollouts: float = 0.0
    effective_task_ratio: float | None = None
    trend: tuple[float | None, ...] = ()
    gain: Gain | None = None
    leased: int | None = None
    verdict: RunVerdict | None = None
    attention: bool = False
    refused: RefusedReports | None = None
    evaluation: LastEvaluation | None = None
    evaluations: Mapping[str, tuple[tuple[int, float], ...]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewTotals:
    """Sums over all runs that the key reaches.

    attention: how many of the runs need attention; new, running, stalled, idle, finished: how many are.
    reported, effective, rollouts: of all their closed steps.
    """

    datasets: int = 0
    runs: int = 0
    attention: int = 0
    new: int = 0
    running: int = 0
    stalled: int = 0
    idle: int = 0
    finished: int = 0
    reported: int = 0
    effective: int = 0
    rollouts: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview(Table):
    """A page of runs, with the sums over all that the key reaches. matching: how many runs all pages have."""

    runs: tuple[RunSummary, ...]
    matching: int = 0
    totals: OverviewTotals = OverviewTotals()
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A pool of tasks under a name.

    tasks: number of tasks without retired ones; retired: number of retired tasks; tags: number of tasks with each tag.
    offset_tags: tags that split profiles; a tracker learns an offset for each.
    profiles: number of distinct combinations of reference pass rates and offset tags.
    digest: hash of the tasks; equal pools have equal digests.
    """

    name: str
    tasks: int
    description: str = ""
    reference_models: tuple[str, ...] = ()
    retired: int = 0
    offset_tags: tuple[str, ...] = ()
    profiles: int = 0
    tags: Mapping[str, int] = field(default_factory=dict)
    digest: str = ""
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subset:
    """Some of a dataset's tasks.

    subset: its name, for `select`; None if the dataset does not have some of the tasks, and nothing was kept.
    tasks: how many of the tasks the dataset has, retired ones included; retired: how many of these are retired.
    others: how many tasks the dataset has besides them.
    missing: places of the tasks that the dataset does not have, in the order in which they were sent, from 0.
    """

    dataset: str
    subset: str | None
    tasks: int
    retired: int = 0
    others: int = 0
    missing: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRun:
    """An imported run. seq: last entry of its journal."""

    dataset: str
    run: str
    seq: int
    epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """An API key without its secret.

    scopes: of read, select, report and admin; admin may do everything.
    datasets: patterns of dataset names that it gives access to.
    """

    id: str
    name: str
    scopes: tuple[str, ...]
    datasets: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApiKey(ApiKey):
    """A new API key.

    key: the secret to send. The service returns it once and stores only its digest. None if that response was lost and
        this one answers a retry: revoke the key and create another.
    """

    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhoAmI:
    """The caller.

    guarded: whether the service has keys; without keys, anyone may do everything, and `name` is None.
    scopes, datasets: as in `ApiKey`.
    """

    guarded: bool
    scopes: tuple[str, ...]
    datasets: tuple[str, ...]
    name: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """The versions of the service and its parts; equal seeds give equal selections with equal versions of numpy."""

    version: str
    python: str = ""
    numpy: str = ""
    schema: str | int | None = None
