"""Responses that summarize runs: how each goes, its gain over uniform sampling, and a verdict, as frozen dataclasses.

Unknown fields of a response are ignored. Fields with a default may be missing from it.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from bots_client._tables import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """How much more a run found than uniform sampling finds with the same rollouts. None: not known.

    source: "measured" by the run `baseline`, which samples uniformly, over the steps that both have closed; or
        "estimated" from the run's own belief.
    factor: effective tasks found, as a multiple of those of uniform sampling.
    rollouts_saved: how many more rollouts uniform sampling needs for as many effective tasks.
    rollouts_spent, steps: in the steps compared, and how many these are.
    own_ratio, uniform_ratio: the effective task ratios over these steps, of the run and of uniform sampling; their
        quotient is the factor.
    uniform_effective_task_ratio: of uniform sampling, over the last 50 of them.
    """

    source: str
    baseline: str | None = None
    factor: float | None = None
    rollouts_saved: float | None = None
    rollouts_spent: float = 0.0
    steps: int = 0
    own_ratio: float | None = None
    uniform_ratio: float | None = None
    uniform_effective_task_ratio: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdict:
    """What to think of a run.

    kind: healthy, starting, or what is wrong: reports_refused, verifier_suspect, stalled, narrow, miscalibrated,
        aborting, pool_exhausted or learning_slowly.
    reason: one sentence, with the numbers.
    advice: what to do.
    """

    kind: str
    reason: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedReports:
    """Reports of a run that the service refused as invalid: the run learned nothing from them.

    count: how many; last_at: when the last one was; reason: of the last one.
    """

    count: int
    last_at: datetime
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """How a run goes.

    status: "new" (no step closed), "running", "stalled" (its next step is overdue) or "idle".
    step: closed steps; a fork counts those of its parent too.
    last_step_at: when the last step closed; None before the first.
    reported, effective, rollouts: sums over all closed steps, without steps undone by a rewind.
    effective_task_ratio: over the last 50 steps; None if they reported nothing.
    trend: this ratio along all steps, the newest last.
    gain: over uniform sampling; None for a run that samples uniformly.
    leased: number of tasks in flight; None in an overview.
    verdict: a judgement with advice; None if the run is not judged yet. In an overview it may be some seconds old.
    attention: whether somebody should look at the run.
    refused: reports that the service refused as invalid; None without any.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewTotals:
    """Sums over all runs that the key reaches.

    datasets, runs: how many there are.
    attention: how many of the runs that are judged need attention; unjudged: how many are not judged yet.
    new, running, stalled, idle: how many of the runs are.
    reported, effective, rollouts: of all their closed steps.
    """

    datasets: int = 0
    runs: int = 0
    attention: int = 0
    unjudged: int = 0
    new: int = 0
    running: int = 0
    stalled: int = 0
    idle: int = 0
    reported: int = 0
    effective: int = 0
    rollouts: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview(Table):
    """A page of runs, with the sums over all that the key reaches.

    matching: how many runs were asked for, on all pages.
    next_cursor: where the next page begins; None on the last page.
    """

    _rows: ClassVar[str] = "runs"
    runs: tuple[RunSummary, ...]
    matching: int = 0
    totals: OverviewTotals = OverviewTotals()
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TagSums:
    """One tag over the last steps. None: nothing was reported.

    tasks: how many of the available tasks carry it; pool_share: of all available tasks.
    reported: its tasks, each once a step; selected_share: of all reported tasks.
    effective, effective_task_ratio: those with a gradient, and their share; rollouts: of its tasks.
    mean_pass_rate: mean over its reported tasks of the share of successful rollouts; earlier_mean_pass_rate: the same
        over as many steps before.
    """

    tag: str
    tasks: int = 0
    pool_share: float = 0.0
    reported: int = 0
    selected_share: float | None = None
    effective: int = 0
    effective_task_ratio: float | None = None
    rollouts: float = 0.0
    mean_pass_rate: float | None = None
    earlier_mean_pass_rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TagComparison(Table):
    """The tags with most tasks, over the steps from `first_step` to `last_step`; both 0 without a step."""

    _rows: ClassVar[str] = "tags"
    first_step: int = 0
    last_step: int = 0
    tags: tuple[TagSums, ...]
