"""What to think of a run, and what to do: its status, and one verdict, the most urgent of those that fit."""

from dataclasses import dataclass
from math import pi, sqrt
from typing import Literal

from bots_service.core.guard.guard import Suspicion
from bots_service.core.receipt import Calibration
from bots_service.core.summary.course import RECENT, StepSums

RunStatus = Literal["new", "running", "stalled", "idle"]
RUNNING_GAPS, RUNNING_S = 3, 60.0  # an evaluation or a checkpoint now and then takes as long as a step or two
OVERDUE_GAPS, OVERDUE_S = 20, 3600.0  # after that no trainer waits for the next step: the run has ended, or was stopped


def is_overdue(since_s: float | None, usual_gap_s: float) -> bool:
    """Return whether a run's next step should have closed by now, and somebody may still wait for it.

    Args:
        since_s: seconds since its last step closed; None before the first.
        usual_gap_s: the usual time between two of its steps.
    """
    if since_s is None:
        return False
    return max(RUNNING_GAPS * usual_gap_s, RUNNING_S) < since_s < max(OVERDUE_GAPS * usual_gap_s, OVERDUE_S)


def status_of(since_s: float | None, usual_gap_s: float, *, in_flight: bool) -> RunStatus:
    """Return the status of a run.

    Args:
        since_s, usual_gap_s: as above.
        in_flight: whether tasks are in flight: a run that has ended has reported all that it selected.
    """
    if since_s is None:
        return "new"
    if is_overdue(since_s, usual_gap_s):
        return "stalled" if in_flight else "idle"
    return "running" if since_s <= max(RUNNING_GAPS * usual_gap_s, RUNNING_S) else "idle"


VerdictKind = Literal[
    "verifier_suspect",
    "stalled",
    "starting",
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
EASY, HARD = 0.9, 0.1  # expected success probabilities from and up to which a task seldom teaches
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
class RunProgress:
    """How a run stands, from its summary.

    steps: how many it has closed.
    stalled_s: seconds since its last step, if its status is stalled; otherwise None. usual_gap_s: between its steps.
    recent: sums over the last 50 steps.
    uniform: the effective task ratio of uniform sampling over the last 50 steps that are compared; None if unknown.
    """

    steps: int
    stalled_s: float | None
    usual_gap_s: float
    recent: StepSums
    uniform: float | None


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What follows from a run's journal.

    step: the number of its last step.
    suspicions: what raised alarms of the verifier guard that stand.
    narrow: why few tasks take most visits, and what to do; None if they don't.
    calibration: predictions and observations of the last steps; group_size: mean rollouts of a reported task there.
    expected: the effective task ratio that uniform sampling is expected to reach now; None without available tasks.
    easy, hard: shares of the tasks whose expected success probability is at least EASY, and below HARD.
    hints: what is known to be wrong with the run's settings and references, a sentence or two each.
    """

    step: int
    suspicions: tuple[Suspicion, ...]
    narrow: tuple[str, str] | None
    calibration: Calibration
    group_size: float
    expected: float | None
    easy: float
    hard: float
    hints: tuple[str, ...]


def verdict_on(progress: RunProgress, facts: RunFacts) -> RunVerdict:
    """Return the most urgent verdict that fits a run."""
    found = _suspect(facts) or _stalled(progress)
    if found is None and progress.steps < STARTING:
        reason = f"{progress.steps} steps have closed; a verdict needs {STARTING}."
        return RunVerdict("starting", reason, "Wait for more steps.")
    found = found or _narrow(facts) or _miscalibrated(facts) or _exhausted(facts) or _slow(progress, facts)
    return found or _healthy(progress, facts)


def _suspect(facts: RunFacts) -> RunVerdict | None:
    """Return the verdict on a verifier whose rewards are all equal at once, for the whole run or for a tag."""
    if not facts.suspicions:
        return None
    one = facts.suspicions[0]
    whose = "rollouts" if one.tag is None else f"rollouts of tasks with the tag {one.tag!r}"
    last = f"in the last {facts.step - one.since_step + 1} steps {one.outcome}: {one.groups} groups"
    over = f"{one.outcome} from step {one.since_step} on; by now they vary again"
    reason = f"All {whose} {last if one.ongoing else over}; before, {one.usual:.0%} of the groups did."
    check = (
        f"Check the verifier{'' if one.tag is None else ' of these tasks'}, and whether the trainer loaded another"
        " checkpoint."
    )
    if any(each.held for each in facts.suspicions):
        todo = "Groups are held out of the belief: release them if the rewards are right, drop them if not."
    else:
        todo = (
            f"Once it is right again, rewind the run to step {one.since_step - 1}, so that the belief forgets the wrong"
            " rewards."
        )
    return RunVerdict("verifier_suspect", reason, f"{check} {todo}")


def _stalled(progress: RunProgress) -> RunVerdict | None:
    if progress.stalled_s is None:
        return None
    since, usual = _duration(progress.stalled_s), _duration(progress.usual_gap_s)
    reason = f"The last step closed {since} ago; usually one closes every {usual}."
    return RunVerdict(
        "stalled", reason, "Check whether the trainer still runs, and whether its reports arrive and close steps."
    )


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def _narrow(facts: RunFacts) -> RunVerdict | None:
    return None if facts.narrow is None else RunVerdict("narrow", *facts.narrow)


def _miscalibrated(facts: RunFacts) -> RunVerdict | None:
    error, noise = calibration_error(facts.calibration, facts.group_size)
    if error is None or error < LARGE_ERROR or error < CLEAR * noise:
        return None
    reason = f"Predicted success rates are off by {error:.2f} on average; chance explains {noise:.2f}."
    advice = (
        "Often the reference models no longer describe this model: add one that is closer to it. Don't change"
        " forgetting. Compare beliefs to see whether another one predicts better."
    )
    return RunVerdict("miscalibrated", reason, advice)


def calibration_error(sums: Calibration, group_size: float) -> tuple[float | None, float]:
    """Return by how much predictions were off, as a mean over rollouts, and what chance alone gives.

    The second is an upper bound: it takes the rollouts of a group for equal, so that each group counts once.

    Args:
        sums: by bins of the prediction.
        group_size: mean rollouts of a group.
    """
    rollouts = sum(sums.rollouts)
    if not rollouts:
        return None, 0.0
    off = chance = 0.0
    for count, predicted, solved in zip(sums.rollouts, sums.predicted, sums.solved, strict=True):
        if count:
            rate = min(predicted / count, 1.0)
            off += abs(predicted - solved)
            chance += count * sqrt(2 / pi * rate * (1 - rate) / max(count / group_size, 1.0))
    return off / rollouts, chance / rollouts


def _exhausted(facts: RunFacts) -> RunVerdict | None:
    if facts.expected is None or facts.expected > EXHAUSTED:
        return None
    reason = (
        f"About {facts.expected:.0%} of the pool's tasks would be effective: {facts.easy:.0%} are solved nearly always,"
        f" {facts.hard:.0%} nearly never."
    )
    advice = "Add harder tasks." if facts.easy >= facts.hard else "Add easier tasks, or check the verifier."
    return RunVerdict("pool_exhausted", reason, advice)


def _slow(progress: RunProgress, facts: RunFacts) -> RunVerdict | None:
    """Return the verdict on a run whose tasks seldom teach, or less often than those of uniform sampling.

    A flat success rate is no sign: selection keeps it near the target while the model learns.
    """
    ratio, uniform = progress.recent.effective_task_ratio, progress.uniform
    if ratio is None or progress.steps < RECENT:
        return None
    hint = " ".join(facts.hints)
    if ratio < COLLAPSED:
        reason = f"Only {ratio:.0%} of the tasks of the last {RECENT} steps were effective."
        advice = hint or "Selection finds few tasks that teach: look at the tags and at the success rates of all tasks."
        return RunVerdict("learning_slowly", reason, advice)
    if uniform is None or ratio >= uniform - _slack(ratio, uniform, progress.recent.reported):
        return None
    reason = f"{ratio:.0%} of the tasks of the last {RECENT} steps were effective; uniform sampling has {uniform:.0%}."
    return RunVerdict(
        "learning_slowly", reason, hint or "Compare beliefs, and use the one that predicts this run best."
    )


def _slack(ratio: float, uniform: float, reported: int) -> float:
    """Return how far below uniform sampling a ratio may be by chance, if both have so many tasks."""
    return CLEAR * sqrt((ratio * (1 - ratio) + uniform * (1 - uniform)) / reported)


def _healthy(progress: RunProgress, facts: RunFacts) -> RunVerdict:
    advice = " ".join(facts.hints) or "There is nothing to do."
    ratio, uniform = progress.recent.effective_task_ratio, progress.uniform
    if ratio is None:
        return RunVerdict("healthy", "The last steps reported no task.", advice)
    compared = "" if uniform is None else f"; uniform sampling has {uniform:.0%}"
    steps = min(progress.steps, RECENT)
    return RunVerdict(
        "healthy", f"{ratio:.0%} of the tasks of the last {steps} steps were effective{compared}.", advice
    )
