"""What is told of a run: expectations, coverage, the course of its steps, its gain, what to do, its tags."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, pi, sqrt
from typing import Literal, NamedTuple

import numpy as np

from bots_service.core.arrays import Tasks, contained
from bots_service.core.guard import Streak
from bots_service.core.pool import Pool
from bots_service.core.receipt import Calibration, Receipt, TagCounts
from bots_service.core.rounding import half_up
from bots_service.core.run_settings import BELIEFS, RunSettings
from bots_service.core.state import RunState

# --- what is expected of it, and how its visits spread over its pool: what the effective task ratio hides ------------

BINS = 20  # equal ones, of [0, 1]
SAMPLE = 512  # tasks looked at: an effective task ratio is then right to about 0.015
EVERY = 16  # steps between two looks; before the EVERYth there are looks after 0, 1, 2, 4 and 8 steps


class UniformEstimate(NamedTuple):
    """What a run's own belief expects of uniform sampling: of tasks chosen uniformly from those that are not retired.

    ratio: the expected share of them with some rollouts that succeed and some that fail; None where nobody looked, or
        all are retired. Rewards other than 0 and 1 differ more often than that, so where they are reported uniform
        sampling reaches more.
    expected: how many of as many tasks as the run reported would have been effective, by the estimates of the time.
    distribution: the share of them whose expected success probability lies in each of the BINS, which add up to 1; None
        where the ratio comes from an earlier look.
    """

    ratio: float | None = None
    expected: float | None = None
    distribution: tuple[float, ...] | None = None


def outlook(state: RunState, pool: Pool) -> UniformEstimate:
    """Return what a run's belief expects of SAMPLE tasks drawn at random; nothing of what it reported so far."""
    tasks = pool.part().order
    if not len(tasks):
        return UniformEstimate()
    if len(tasks) > SAMPLE:
        rng = np.random.default_rng((state.settings.seed, state.step))
        tasks = tasks.take(rng.choice(len(tasks), SAMPLE, replace=False))
    found = state.belief.distributions(pool, np.sort(tasks))
    ratio = float(found.effective(state.totals.rollouts_per_task or state.group_size).mean())
    places = np.minimum((found.mean * BINS).astype(np.intp), BINS - 1)  # exactly 1 is in the last
    shares = tuple((np.bincount(places, minlength=BINS) / len(tasks)).tolist())
    return UniformEstimate(min(max(ratio, 0.0), 1.0), distribution=shares)


def estimate_after(before: UniformEstimate, state: RunState, receipt: Receipt, pool: Pool) -> UniformEstimate:
    """Return the estimate after an entry. before: after the one before it; state: before the entry."""
    ratio, distribution = before.ratio, None
    if receipt.closed and (ratio is None or is_due(state.step)):
        found = outlook(state, pool)
        ratio, distribution = ratio if found.ratio is None else found.ratio, found.distribution
    if ratio is None or not receipt.closed:
        return UniformEstimate(ratio, before.expected)
    if before.expected is None:  # the first estimate stands for what came before it
        return UniformEstimate(ratio, ratio * receipt.total_reported, distribution)
    return UniformEstimate(ratio, before.expected + ratio * receipt.reported, distribution)


def is_due(step: int) -> bool:
    """Return whether the service looks at a run's pool when it closes the step after this one."""
    return step % EVERY == 0 if step >= EVERY else step & (step - 1) == 0


def hint_on(state: RunState, pool: Pool) -> str:
    """Return what is known to be wrong with how a run selects, in a sentence or two; nothing where all is well."""
    settings = state.settings
    if settings.strategy != "thompson":
        return ""
    forgotten = settings.forgetting if "forgetting" in BELIEFS[settings.belief].own else 0.0
    if forgotten == 0.0:  # the same few tasks stay nearest to the target
        return (
            "The belief of this run forgets nothing, so 'thompson' returns to the same few tasks near the"
            " target, and the model may unlearn the others. In our own pilot with the tracker, this had the best"
            " effective task ratio, and held-out accuracy fell by 0.06 to 0.09 compared with a shuffled pass. Change"
            " the strategy to 'pass'."
        )
    # Without references only pass rates tell tasks apart: evidence lasts about 1 / lambda steps, and a pass has as many
    # as batches.
    enough = (len(pool) - len(pool.retired)) * forgotten
    tasks_a_step = state.totals.reported / state.step if state.step else 1.0  # unknown yet: the fewest possible
    if pool.has_references or tasks_a_step >= enough:
        return ""
    return (
        "No task of this dataset has known reference pass rates, so a report says nothing about other tasks, and"
        f" evidence of a task lasts about {1 / forgotten:.0f} steps. With fewer than {ceil(enough)} tasks a"
        " step, selection is little better than uniform sampling. Create a run with the belief 'tracker', which needs"
        " no references, or the dataset with the pass rates of one or more reference models."
    )


# A shuffled pass came to at most .29 and .18, choice at random to .38 and .22, `pass` to .38 and .18 where 29 % of the
# pool is useless; the nearest to the target under a sharp belief came to .9 and .74.
MOST_UNMET = 2 / 3  # of the pool, by as many visits as it has tasks
MOST_OF_VISITS = 0.45  # for a tenth of the pool
SMALLEST_POOL = 20  # in smaller ones chance alone brings choice at random beyond these bounds, now and then


@dataclass(frozen=True, slots=True)
class Coverage:
    """What share of the pool a run meets, and how evenly.

    available_tasks: number of tasks that are not retired.
    distinct_tasks: number of different ones reported so far, retired ones included.
    reached_share: how much of the available tasks was reported at least once; None where all are retired.
    top_tenth_share: of all visits, those that a tenth of the available tasks took, the most visited; None before the
        first, and where all are retired.
    unmet_share: how much of the available tasks the last steps did not report, as many as visit so many tasks; None
        before so many steps closed.
    passes: how often `pass` walked through the pool, or the part that was walked last, the present walk in part; None
        for other strategies, and with a mix, whose tags have a pass each.
    """

    available_tasks: int
    distinct_tasks: int
    reached_share: float | None
    top_tenth_share: float | None
    unmet_share: float | None
    passes: float | None


def coverage(state: RunState, pool: Pool) -> Coverage:
    """Return how a run's visits spread over its pool; looks at each task that was tried."""
    available, reported = len(pool) - len(pool.retired), state.totals.reported
    rows = state.attempts.whole
    tasks, visits = rows.tasks, np.sort(rows.visits)[::-1]
    unmet_share, largest = None, None
    if reported and available:
        largest = int(visits[: ceil(available / 10)].sum(dtype=np.int64)) / reported
        pass_steps = ceil(available * state.step / reported)
        if state.step >= pass_steps:
            unmet_share = 1.0 - _available(tasks[rows.last_step > state.step - pass_steps], pool) / available
    return Coverage(
        available_tasks=available,
        distinct_tasks=len(tasks),
        reached_share=_available(tasks, pool) / available if available else None,
        top_tenth_share=largest,
        unmet_share=unmet_share,
        passes=state.walks.passes(len(pool)) if state.settings.strategy == "pass" and not state.settings.mix else None,
    )


def _available(tasks: Tasks, pool: Pool) -> int:
    """Return how many of the tasks are not retired."""
    return len(tasks) - int(np.count_nonzero(contained(tasks, (pool.retired,))))


# --- the course of its steps, from a few of them ---------------------------------------------------------------------

RECENT = 50  # steps; fewer are too noisy to show a run's present level
TREND = 40  # points at most: as many as a sparkline can show
TIMED = 21  # steps whose times are known: the gaps between them say how long a step usually takes


class Sums(NamedTuple):
    """Sums over a run's first closed steps, those before a fork included; or over some of its steps.

    reported, effective: tasks; expected: how many of them uniform sampling was estimated to find effective, None
        without an estimate.
    at: when the last of the steps closed, in seconds since 1970, UTC; None before the first.
    """

    reported: int = 0
    effective: int = 0
    rollouts: float = 0.0
    expected: float | None = None
    at: float | None = None

    @property
    def effective_task_ratio(self) -> float | None:
        """The share of the reported tasks that were effective; None without any."""
        return self.effective / self.reported if self.reported else None

    @property
    def uniform_ratio(self) -> float | None:
        """This share as uniform sampling is estimated to have it; None without any task or estimate."""
        return self.expected / self.reported if self.expected is not None and self.reported else None

    def less(self, earlier: "Sums") -> "Sums":
        """Return the sums without those over the first of the steps."""
        expected = self.expected
        if expected is not None and earlier.reported:
            expected = None if earlier.expected is None else expected - earlier.expected
        reported, effective = self.reported - earlier.reported, self.effective - earlier.effective
        return Sums(reported, effective, self.rollouts - earlier.rollouts, expected, self.at)


NO_SUMS = Sums()


@dataclass(frozen=True, slots=True)
class RunCourse:
    """The closed steps of a run's present history, summed up; without those before a fork.

    steps: how many there are; sums: over all of them; recent: over the last RECENT.
    usual_gap_s: the median time between two of the last ones; 0 before the second.
    trend: the effective task ratio over about RECENT steps, along all steps; at most TREND points.
    """

    steps: int = 0
    sums: Sums = NO_SUMS
    recent: Sums = NO_SUMS
    usual_gap_s: float = 0.0
    trend: tuple[float | None, ...] = ()


def _trend_steps(origin: int, step: int) -> list[int]:
    """Return the steps between which a trend is drawn: at even distances, the first and the last included."""
    return sorted({origin + (step - origin) * place // TREND for place in range(TREND + 1)})


def wanted_steps(origin: int, step: int) -> list[int]:
    """Return the steps whose ends a course is made of. origin: how many steps closed before a fork; step: by now."""
    timed = range(max(origin, step - TIMED) + 1, step + 1)
    return sorted({*_trend_steps(origin, step), *timed, max(origin, step - RECENT), step})


def course_of(origin: int, step: int, ends: Mapping[int, Sums]) -> RunCourse:
    """Return the course of a run that closed `step` steps. ends: sums up to each of `wanted_steps`."""
    last, recent = ends[step], ends[step].less(ends[max(origin, step - RECENT)])
    drawn = _trend_steps(origin, step)
    width = ceil(RECENT * len(drawn[1:]) / max(step - origin, 1))  # points of the trend
    trend = [
        ends[each].less(ends[drawn[max(place - width, 0)]]).effective_task_ratio for place, each in enumerate(drawn)
    ]
    times = [ends[each].at for each in range(max(origin, step - TIMED) + 1, step + 1)]
    gaps = np.diff(np.array(times, np.float64))
    return RunCourse(
        steps=step - origin,
        sums=last.less(ends[origin]),
        recent=recent,
        usual_gap_s=float(np.median(gaps)) if len(gaps) else 0.0,
        trend=tuple(trend[1:]),
    )


@dataclass(frozen=True, slots=True)
class Gain:
    """How much more a run found than uniform sampling finds with the same rollouts.

    baseline: the run that it is measured by, which samples uniformly, over the steps that both have closed; None where
        it is estimated from the run's own belief, over all its steps.
    factor: effective tasks found, as a multiple of those of uniform sampling; None where that finds none.
    rollouts_saved: how many more rollouts uniform sampling needs for as many; None as above.
    rollouts_spent: in the steps compared.
    steps: how many steps are compared.
    own_ratio, uniform_ratio: the effective task ratios over these steps, of the run and of uniform sampling; their
        quotient is the factor. None where nothing is known.
    uniform_effective_task_ratio: what uniform sampling has over the last 50 of them; None as above.
    """

    baseline: str | None
    factor: float | None
    rollouts_saved: float | None
    rollouts_spent: float
    steps: int
    own_ratio: float | None
    uniform_ratio: float | None
    uniform_effective_task_ratio: float | None


def estimated_gain(course: RunCourse) -> Gain:
    """Return the gain over what the run's belief expects of uniform sampling."""
    sums, recent = course.sums, course.recent
    return gain_over(None, course.steps, sums, sums.uniform_ratio, recent.uniform_ratio)


def gain_over(baseline: str | None, steps: int, own: Sums, uniform: float | None, recent: float | None) -> Gain:
    """Return the gain over uniform sampling in some steps.

    baseline: the run that sampled uniformly; None if it is estimated what that has. own: sums over the steps of the
    run that gained. uniform, recent: the effective task ratio of uniform sampling over these steps and the last 50.
    """
    expected = own.reported * (uniform or 0.0)
    factor = own.effective / expected if expected > 0.0 else None
    saved = None if factor is None else own.rollouts * (factor - 1.0)
    return Gain(baseline, factor, saved, own.rollouts, steps, own.effective_task_ratio, uniform, recent)


Scores = Sequence[tuple[int, float]]  # by step, ascending; the higher, the better


@dataclass(frozen=True, slots=True)
class LastEvaluation:
    """What the last evaluation of a run's model found, by the name that comes first in the alphabet.

    name: of what was measured; the higher, the better.
    step: the number of closed steps after which it was.
    value: what was found.
    baseline: the run that it is compared with, which samples uniformly, or else shuffles; null without one.
    compared_step: the last step of the run's evaluations within those of the baseline; null without one.
    difference: how much more the run had at that step than the baseline, whose values straight lines join.
    """

    name: str
    step: int
    value: float
    baseline: str | None = None
    compared_step: int | None = None
    difference: float | None = None


def last_evaluation(name: str, own: Scores, other: Scores, baseline: str | None) -> LastEvaluation:
    """Return a run's last evaluation. own, other: its scores, and those of the run that it is compared with."""
    last = LastEvaluation(name, *own[-1], baseline)
    steps, values = [step for step, _ in other], [value for _, value in other]
    for step, value in reversed(own):
        if steps and steps[0] <= step <= steps[-1]:
            return replace(last, compared_step=step, difference=value - float(np.interp(step, steps, values)))
    return last


# --- its status, and one verdict, the most urgent of those that fit --------------------------------------------------

EASY, HARD = 0.9, 0.1  # expected success probabilities from and up to which a task seldom teaches


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What follows from a run's journal.

    narrow: what is said where few tasks take most visits; None if they don't.
    calibration: predictions and observations of the last steps; group_size: mean rollouts of a reported task.
    expected: of uniform sampling.
    aborting: how many tasks always abort; met: how many were aborted or tried.
    hint: of `hint_on`.
    """

    alarms: tuple[Streak, ...]
    narrow: "RunVerdict | None"
    calibration: Calibration
    group_size: float
    expected: UniformEstimate
    aborting: int
    met: int
    has_references: bool
    hint: str


def facts_of(state: RunState, pool: Pool, calibration: Calibration, expected: UniformEstimate) -> RunFacts:
    """Return what follows from a run's state, its last steps' calibration, and what uniform sampling is to find."""
    return RunFacts(
        alarms=state.guard.alarms,
        narrow=narrow(coverage(state, pool), state.settings),
        calibration=calibration,
        group_size=state.totals.rollouts_per_task or 1.0,
        expected=expected,
        aborting=len(state.aborts.always_aborted),
        met=state.totals.distinct + state.attempts.never_tried(state.aborts.tasks),
        has_references=pool.has_references,
        hint=hint_on(state, pool),
    )


RunStatus = Literal["new", "running", "stalled", "idle", "finished"]
RUNNING_GAPS, RUNNING_S = 3, 60.0  # an evaluation or a checkpoint now and then takes as long as a step or two
OVERDUE_GAPS, OVERDUE_S = 20, 3600.0  # after that no trainer waits for the next step: the run has ended, or was stopped


def is_overdue(since_s: float | None, usual_gap_s: float) -> bool:
    """Return whether a run's next step should have closed by now, and somebody may still wait for it."""
    if since_s is None:
        return False
    return max(RUNNING_GAPS * usual_gap_s, RUNNING_S) < since_s < max(OVERDUE_GAPS * usual_gap_s, OVERDUE_S)


def status_of(since_s: float | None, usual_gap_s: float, *, in_flight: bool, finished: bool) -> RunStatus:
    """Return the status of a run.

    in_flight: whether tasks are: one that has ended reported all that it selected. finished: its trainer said that.
    """
    if finished:
        return "finished"
    if since_s is None:
        return "new"
    if is_overdue(since_s, usual_gap_s):
        return "stalled" if in_flight else "idle"
    return "running" if since_s <= max(RUNNING_GAPS * usual_gap_s, RUNNING_S) else "idle"


VerdictKind = Literal[
    "reports_refused",
    "verifier_suspect",
    "stalled",
    "starting",
    "aborting",
    "narrow",
    "miscalibrated",
    "pool_exhausted",
    "learning_slowly",
    "healthy",
]
STARTING = 10  # steps: before, a run has shown too little to be judged
# The recorded run of the demo has 0.02 to 0.06, depending on the belief.
LARGE_ERROR = 0.1
CLEAR = 3.0  # standard errors
EXHAUSTED = 0.1  # of the tasks would be effective: nine of ten rollouts teach nothing, however they are selected
MANY_ABORTING = 0.01  # of the tasks that were selected: a few dead ones in a large pool rest, and do no harm
SINGLE = 1.5  # rollouts of a task: with fewer, groups have one, and none can be effective
COLLAPSED = 0.2  # as of the alert BotsEffectiveTaskRatioCollapsed


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """A verdict on a run.

    kind: of the verdict.
    reason: one sentence, with the numbers.
    advice: what to do, in a sentence or two.
    """

    kind: VerdictKind
    reason: str
    advice: str


@dataclass(frozen=True, slots=True)
class RunFindings:
    """What a run's journal says against it, whatever time it is; hint as in `RunFacts`.

    suspect: its rewards look wrong; weakness: the most urgent of all that its belief, its pool and its visits show.
    """

    suspect: RunVerdict | None = None
    weakness: RunVerdict | None = None
    hint: str = ""


def findings_of(facts: RunFacts) -> RunFindings:
    """Return what the facts say against a run."""
    weakness = _aborting(facts) or facts.narrow or _miscalibrated(facts) or _exhausted(facts)
    return RunFindings(_alarmed(facts), weakness, facts.hint)


def verdict_on(
    course: RunCourse,
    findings: RunFindings,
    *,
    stalled_s: float | None = None,
    uniform: float | None = None,
    refused: tuple[int, str] | None = None,
) -> RunVerdict:
    """Return the most urgent verdict that fits a run.

    stalled_s: seconds since its last step, if its status is stalled; otherwise None.
    uniform: the effective task ratio of uniform sampling over the last 50 steps that are compared; None if unknown.
    refused: how many reports were refused as invalid, and why the last one, if nothing was accepted since.
    """
    if refused is not None:
        return _refused(*refused)
    found = findings.suspect or _stalled(stalled_s, course.usual_gap_s)
    if found is None and course.steps < STARTING:
        reason = f"{course.steps} steps have closed; a verdict needs {STARTING}."
        return RunVerdict("starting", reason, findings.hint or "Wait for more steps.")
    return found or findings.weakness or _going(course, uniform, findings.hint)


ATTENTION_S = 3 * 86400.0  # a weekend; what happened to a run that has not moved for longer can wait
AT_ONCE_KINDS = ("reports_refused", "verifier_suspect", "stalled")  # rollouts are lost as long as nobody acts


def needs_attention(verdict: RunVerdict, since_s: float | None) -> bool:
    """Return whether somebody should look at a run that last closed a step, or had a report refused, so long ago."""
    return verdict.kind not in ("healthy", "starting") and since_s is not None and since_s <= ATTENTION_S


def _refused(count: int, reason: str) -> RunVerdict:
    reports = "1 report was" if count == 1 else f"{count:,} reports were"
    return RunVerdict(
        "reports_refused",
        f"{reports} refused: {reason}.",
        "Correct what the trainer reports, or the run's settings. The run learns nothing from a refused report.",
    )


def _alarmed(facts: RunFacts) -> RunVerdict | None:
    """Return the verdict on rewards that raised an alarm of the verifier guard; that of the whole run comes first."""
    if not facts.alarms:
        return None
    one = facts.alarms[0]
    of_tag, whose = ("", "") if one.tag is None else (f" of tasks with the tag {one.tag!r}", " of these tasks")
    reason = (
        f"All rollouts{of_tag} {one.outcome} since step {one.since_step:,}: {one.groups:,} groups; given the history of"
        " these tasks, this is almost certainly not chance."
    )
    advice = (
        f"Check the verifier{whose}, and whether the trainer loaded another checkpoint. Once it is right again, rewind"
        f" the run to step {one.since_step - 1:,}, so that the belief forgets the wrong rewards."
    )
    return RunVerdict("verifier_suspect", reason, advice)


def _stalled(stalled_s: float | None, usual_gap_s: float) -> RunVerdict | None:
    if stalled_s is None:
        return None
    reason = f"The last step closed {_duration(stalled_s)} ago; usually one closes every {_duration(usual_gap_s)}."
    return RunVerdict(
        "stalled", reason, "Check whether the trainer still runs, and whether its reports arrive and close steps."
    )


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def _aborting(facts: RunFacts) -> RunVerdict | None:
    if facts.aborting <= MANY_ABORTING * facts.met:
        return None
    tasks = "1 task always aborts" if facts.aborting == 1 else f"{facts.aborting:,} tasks always abort"
    reason = f"{tasks}, of {facts.met:,} that were selected: three times in a row or more."
    advice = (
        "Look at their environments: the segment Aborting of the tasks lists them. They rest and are tried again now"
        " and then; retire those that can't work."
    )
    return RunVerdict("aborting", reason, advice)


def narrow(spread: Coverage, settings: RunSettings) -> RunVerdict | None:
    """Return the verdict on a run where few tasks take most visits; None where they don't."""
    unmet, largest = spread.unmet_share, spread.top_tenth_share
    if unmet is None or largest is None or spread.available_tasks < SMALLEST_POOL:
        return None
    found = []
    if unmet > MOST_UNMET:
        found.append(
            f"the last steps, enough for a pass over all {spread.available_tasks:,} tasks, left out"
            f" {100 * unmet:.0f} % of them"
        )
    if largest > MOST_OF_VISITS:
        found.append(f"a tenth of the pool took {100 * largest:.0f} % of all visits")
    if not found:
        return None
    few = "If requests don't name tags that few tasks carry, few tasks are of use by now"
    advice = f"{few}: add tasks of another difficulty."
    if settings.strategy == "thompson":  # returns to what is nearest, again and again
        advice = (
            "A model that trains on few tasks may unlearn the others, however high the effective task ratio is: use the"
            " strategy pass, which meets each task at most once a pass."
        )
    return RunVerdict("narrow", f"Few tasks take most visits: {', and '.join(found)}.", advice)


def _miscalibrated(facts: RunFacts) -> RunVerdict | None:
    error, noise = calibration_error(facts.calibration, facts.group_size)
    if error is None or error < LARGE_ERROR or error < CLEAR * noise:
        return None
    reason = f"Predicted success rates are off by {error:.2f} on average; chance explains {noise:.2f}."
    advice = "Don't change forgetting. See what another belief predicts: export the run, and import it under that."
    if facts.has_references:
        advice = f"Often the reference models no longer describe this model: add one that is closer to it. {advice}"
    return RunVerdict("miscalibrated", reason, advice)


def calibration_error(sums: Calibration, group_size: float) -> tuple[float | None, float]:
    """Return by how much predictions were off, as a mean over rollouts, and what chance alone gives, at most.

    For that it takes the rollouts of a group for equal, so that each group counts once.
    """
    rollouts = sum(sums.rollouts)
    if not rollouts:
        return None, 0.0
    off = chance = 0.0
    for count, predicted, solved in zip(*sums, strict=True):
        if count:
            rate = min(predicted / count, 1.0)
            off += abs(predicted - solved)
            chance += count * sqrt(2 / pi * rate * (1 - rate) / max(count / group_size, 1.0))
    return off / rollouts, chance / rollouts


def _exhausted(facts: RunFacts) -> RunVerdict | None:
    ratio, _, shares = facts.expected
    if ratio is None or shares is None or ratio > EXHAUSTED or facts.group_size < SINGLE:
        return None
    easy, hard = sum(shares[round(EASY * BINS) :]), sum(shares[: round(HARD * BINS)])
    reason = (
        f"About {_percent(ratio, 0)} of the pool's tasks would be effective:"
        f" {_percent(easy, 0)} are solved nearly always, {_percent(hard, 0)} nearly never."
    )
    advice = "Add harder tasks." if easy >= hard else "Add easier tasks, or check the verifier."
    return RunVerdict("pool_exhausted", reason, advice)


def _going(course: RunCourse, uniform: float | None, hint: str) -> RunVerdict:
    """Return the verdict on a run without a weakness: are its tasks too seldom effective?

    A flat success rate is no sign: selection keeps it near the target while the model learns.
    """
    recent, todo = course.recent, hint or "No action is needed."
    ratio, steps = recent.effective_task_ratio, min(course.steps, RECENT)
    if ratio is None:
        return RunVerdict("healthy", "The last steps reported no task.", todo)
    if recent.rollouts < SINGLE * recent.reported:
        reason = (
            "Each task has one rollout, so no group can be effective; the run selects the tasks whose success is least"
            " certain, by p (1 - p)."
        )
        return RunVerdict("healthy", reason, todo)
    if steps == RECENT and ratio < COLLAPSED:
        reason = f"Only {_percent(ratio)} of the tasks of the last {RECENT} steps were effective."
        advice = hint or "Selection finds few tasks that teach: look at the tags and at the success rates of all tasks."
        return RunVerdict("learning_slowly", reason, advice)
    compared = "" if uniform is None else f"; uniform sampling has {_percent(uniform)}"
    reason = f"{_percent(ratio)} of the tasks of the last {steps} steps were effective{compared}."
    if steps == RECENT and uniform is not None:
        # How far below uniform sampling a ratio may be by chance, if both have so many tasks.
        slack = CLEAR * sqrt((ratio * (1 - ratio) + uniform * (1 - uniform)) / recent.reported)
        if ratio < uniform - slack:
            advice = hint or "See whether another belief predicts better: export the run, and import it under that."
            return RunVerdict("learning_slowly", reason, advice)
    return RunVerdict("healthy", reason, todo)


def _percent(share: float, digits: int = 1) -> str:
    """Return a share in words; by default with as many digits as the page's tiles have."""
    return f"{100 * float(half_up(share, digits + 2)):.{digits}f} %"


# --- its last steps by tag -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TagRow:
    """One tag, over some steps.

    tag: the tag.
    tasks: how many of the available tasks carry it.
    pool_share: the share of the available tasks that carry it.
    reported: how many of its tasks were reported, each once a step.
    selected_share: the share of all reported tasks that carry it; null if nothing was reported.
    effective_task_ratio: the share of its reported tasks that had a gradient; null if none was reported.
    rollouts: how many rollouts of its tasks were reported.
    earlier_success_rate: the success rate over the steps before.
    """

    tag: str
    tasks: int
    pool_share: float
    reported: int
    selected_share: float | None
    effective_task_ratio: float | None
    rollouts: float
    success_rate: float | None
    earlier_success_rate: float | None


def tag_rows(pool: Pool, steps: Sequence[Receipt], earlier: Sequence[Receipt]) -> list[TagRow]:
    """Return the watched tags with available tasks, those with most first, over some last steps and those before."""
    available, reported = len(pool) - len(pool.retired), sum(step.reported for step in steps)
    rows = []
    for tag in pool.watched_tags.names:
        tasks = len(pool.tags[tag]) - int(np.count_nonzero(contained(pool.retired, (pool.tags[tag],))))
        counts = ([step.tags[tag] for step in some if tag in step.tags] for some in (steps, earlier))
        own, before = (TagCounts(*map(sum, zip(TagCounts(), *each, strict=True))) for each in counts)
        if tasks:
            rows.append(
                TagRow(
                    tag=tag,
                    tasks=tasks,
                    pool_share=tasks / available,
                    reported=own.reported,
                    selected_share=own.reported / reported if reported else None,
                    effective_task_ratio=own.effective / own.reported if own.reported else None,
                    rollouts=own.rollouts,
                    success_rate=own.success_rate,
                    earlier_success_rate=before.success_rate,
                )
            )
    return sorted(rows, key=lambda row: (-row.tasks, row.tag))
