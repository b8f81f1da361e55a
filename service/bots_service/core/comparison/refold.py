"""A run's journal folded again under several beliefs at once, scored by what each predicted before each step."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Counts, Floats, frozen, ordered_sum
from bots_service.core.attempts import no_attempts
from bots_service.core.belief.kinds import KINDS
from bots_service.core.belief.protocol import Belief, ClosingStep
from bots_service.core.comparison.candidates import Candidate, PoolView, view
from bots_service.core.entries import Entry, Rewind
from bots_service.core.evidence import Evidence, joined, sum_by_task
from bots_service.core.groups import NOTHING_UNFINISHED
from bots_service.core.guard.guard import NO_ALARMS
from bots_service.core.open_step import NOTHING_OPEN
from bots_service.core.pool import Pool
from bots_service.core.receipt import BINS, calibration, prediction_error
from bots_service.core.state import Lesson, RunState, advance, fresh_state, lesson_of

SUMS = 3 * BINS + 2


@dataclass(frozen=True, slots=True)
class StepScores:
    """What C candidates predicted of one step's outcomes, before it was folded.

    step: its number.
    rollouts: it had so many.
    log_loss, brier: [C] means over its rollouts.
    sums: [C, SUMS] over its rollouts: of a calibration's bins the number, predictions p and successes, one after the
        other; then p^2, and p where the rollout succeeded.
    """

    step: int
    rollouts: float
    log_loss: Floats
    brier: Floats
    sums: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of T steps, in order: columns as of `StepScores`, with `sums` [C, SUMS] over all of them."""

    steps: Counts
    rollouts: Floats
    log_loss: NDArray[np.float64]
    brier: NDArray[np.float64]
    sums: NDArray[np.float64]


def restarted(state: RunState, pool: Pool) -> RunState:
    """Return the state with nothing believed and nothing waiting; settings, step and totals stay.

    From here every belief starts alike, where a run began with a stored state or the comparison begins later.
    """
    if state.seq == 0:
        return state
    belief = fresh_state(state.settings, pool).belief
    return replace(
        state,
        belief=belief,
        open_step=NOTHING_OPEN,
        attempts=no_attempts(),
        guard=NO_ALARMS,
        unfinished=NOTHING_UNFINISHED,
    )


def refolded(
    start: RunState, entries: Iterable[Entry], candidates: Sequence[Candidate], pool: Pool
) -> Iterator[StepScores]:
    """Yield the scores of each closed step that has outcomes.

    The run itself says which step a report belongs to, what of it counts, and when a step closes: so all candidates
    predict the same outcomes, and the first one's errors are those of the run's receipts.

    Args:
        start: the state before the first entry, fresh or `restarted`.
        entries: of one history: those that a rewind undid are left out. A rewind is then a change of epoch.
        candidates: the run's own settings first.
        pool: the tasks, at the last entry's version or a later one.
    """
    seen = {each.sees: view(pool, each) for each in candidates}
    rivals = [_Rival.fresh(each, seen[each.sees]) for each in candidates[1:]]
    state = start
    for entry in entries:
        if isinstance(entry.body, Rewind):
            state, _ = advance(replace(state, seq=entry.seq - 1), entry, pool, base=state)
            continue
        lesson = lesson_of(state, entry, pool)
        rivals = [rival.extended(entry.profiles) for rival in rivals]
        if lesson.step is not None and len(lesson.step.whole):
            own = _Rival(candidates[0], PoolView(pool, np.arange(0)), state.belief.extended(pool, entry.profiles))
            yield _scored(lesson.step, [own, *rivals])
        rivals = [rival.taught(lesson) for rival in rivals]
        state, _ = advance(state, entry, pool)


@dataclass(frozen=True, slots=True)
class _Rival:
    """A candidate with its belief at one place of the journal."""

    candidate: Candidate
    view: PoolView
    belief: Belief

    @classmethod
    def fresh(cls, candidate: Candidate, seen: PoolView) -> "_Rival":
        settings = candidate.settings
        return cls(candidate, seen, KINDS[settings.belief].fresh(settings, seen.pool))

    def extended(self, profiles: int) -> "_Rival":
        return replace(self, belief=self.belief.extended(self.view.pool, self.view.profiles(profiles)))

    def taught(self, lesson: Lesson) -> "_Rival":
        """Return the candidate after an entry."""
        belief, pool, settings = self.belief, self.view.pool, self.candidate.settings
        if len(lesson.forgotten):
            belief = belief.forgotten(lesson.forgotten)
        if lesson.step is not None:
            belief = belief.fold(pool, still_counting(lesson.step, belief.longest_lag), settings)
        return replace(self, belief=belief)

    def predictions(self, evidence: Evidence) -> Floats:
        return self.belief.distributions(self.view.pool, evidence.tasks).mean


def still_counting(step: ClosingStep, longest_lag: int) -> ClosingStep:
    """Return the step without what comes too late for a belief: kinds differ in how late evidence may come."""
    kept = tuple((lag, evidence) for lag, evidence in step.batches if lag <= longest_lag)
    if len(kept) == len(step.batches):
        return step
    parts = [evidence for _, evidence in kept] or [step.whole.where(np.zeros(len(step.whole), bool))]
    return replace(step, batches=kept, whole=sum_by_task(joined(parts)))


def _scored(step: ClosingStep, rivals: Sequence[_Rival]) -> StepScores:
    outcomes = step.whole
    errors, sums = [], []
    for rival in rivals:
        predicted = rival.predictions(outcomes)
        errors.append(prediction_error(predicted, outcomes))
        shown = calibration(predicted, outcomes)
        assert shown is not None  # noqa: S101 - for mypy: there are outcomes
        rollouts = outcomes.successes + outcomes.failures
        squares, solved = ordered_sum(rollouts * predicted**2), ordered_sum(outcomes.successes * predicted)
        sums.append([*shown.rollouts, *shown.predicted, *shown.solved, squares, solved])
    brier, log_loss = np.array(errors, np.float64).T
    total = ordered_sum(outcomes.successes + outcomes.failures)
    return StepScores(step.number, total, frozen(log_loss), frozen(brier), frozen(np.array(sums)))


def collected(scores: Iterable[StepScores], candidates: int) -> Scores:
    """Return the scores of all steps in columns; `candidates`: C."""
    steps = list(scores)
    sums = np.zeros((candidates, SUMS))
    for each in steps:
        sums += each.sums
    return Scores(
        steps=frozen(np.array([each.step for each in steps], np.int64)),
        rollouts=frozen(np.array([each.rollouts for each in steps], np.float64)),
        log_loss=frozen(np.array([each.log_loss for each in steps]).reshape(-1, candidates)),
        brier=frozen(np.array([each.brier for each in steps]).reshape(-1, candidates)),
        sums=frozen(sums),
    )
