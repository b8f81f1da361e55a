"""A run's journal folded again under other beliefs, scored by what each predicted before each step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bots_service.core.arrays import ordered_sum
from bots_service.core.belief.kinds import KINDS
from bots_service.core.belief.protocol import Belief, ClosingStep
from bots_service.core.entries import Entry, Rewind
from bots_service.core.evidence import joined, sum_by_task
from bots_service.core.pool import Pool
from bots_service.core.receipt import prediction_error
from bots_service.core.run_settings import RunSettings
from bots_service.core.state import Lesson, advance, fresh_state, lesson_of

OWN = "this run"


@dataclass(frozen=True, slots=True)
class ComparedBelief:
    """How wrong a belief's predictions were: means over the rollouts; smaller is better."""

    belief: str
    log_loss: float | None
    brier: float | None


@dataclass(frozen=True, slots=True)
class BeliefComparison:
    """What beliefs would have predicted before each step. steps: those with outcomes; rollouts: in them."""

    steps: int
    rollouts: float
    beliefs: tuple[ComparedBelief, ...]


def compared(
    entries: Sequence[Entry], own: RunSettings, others: Mapping[str, RunSettings], pool: Pool
) -> BeliefComparison:
    """Return the errors of the run's own belief, and of others, on the outcomes that the run counted.

    The run says which step a report belongs to, what of it counts, and when a step closes; so all beliefs predict the
    same outcomes.

    Args:
        entries: the whole journal, from entry 1.
        own: the run's settings before it.
        others: settings of other beliefs, by name.
        pool: the tasks, at the last entry's version or a later one.
    """
    state = fresh_state(own, pool)
    rivals = {name: KINDS[settings.belief].fresh(settings, pool) for name, settings in others.items()}
    errors, steps, rollouts = np.zeros((1 + len(others), 2)), 0, 0.0
    for entry in present(entries):
        if isinstance(entry.body, Rewind):  # what it went back to is where the fold stands
            state, _ = advance(replace(state, seq=entry.seq - 1), entry, pool, base=state)
            continue
        lesson = lesson_of(state, entry, pool)
        rivals = {name: belief.extended(pool, entry.profiles) for name, belief in rivals.items()}
        if lesson.step is not None and len(lesson.step.whole):
            outcomes = lesson.step.whole
            weight = ordered_sum(outcomes.successes + outcomes.failures)
            believed = (state.belief.extended(pool, entry.profiles), *rivals.values())
            means = (belief.distributions(pool, outcomes.tasks).mean for belief in believed)
            errors += weight * np.array([prediction_error(mean, outcomes) for mean in means], np.float64)
            steps, rollouts = steps + 1, rollouts + weight
        rivals = {name: _taught(belief, lesson, others[name], pool) for name, belief in rivals.items()}
        state, _ = advance(state, entry, pool)
    found = [
        (brier / rollouts, log_loss / rollouts) if rollouts else (None, None) for brier, log_loss in errors.tolist()
    ]
    scores = (
        ComparedBelief(name, log_loss, brier) for name, (brier, log_loss) in zip((OWN, *others), found, strict=True)
    )
    return BeliefComparison(steps, rollouts, tuple(scores))


def present(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that no rewind undid, with the rewinds between them."""
    kept, seq = list[Entry](), len(entries)
    while seq > 0:
        entry = entries[seq - 1]
        kept.append(entry)
        seq = entry.body.to_seq if isinstance(entry.body, Rewind) else seq - 1
    return kept[::-1]


def _taught(belief: Belief, lesson: Lesson, settings: RunSettings, pool: Pool) -> Belief:
    """Return a belief after an entry."""
    if len(lesson.forgotten):
        belief = belief.forgotten(lesson.forgotten)
    return belief if lesson.step is None else belief.fold(pool, _counting(lesson.step, belief.longest_lag), settings)


def _counting(step: ClosingStep, longest_lag: int) -> ClosingStep:
    """Return the step without what comes too late for a belief: kinds differ in how late evidence may come."""
    kept = tuple((lag, evidence) for lag, evidence in step.batches if lag <= longest_lag)
    if len(kept) == len(step.batches):
        return step
    parts = [evidence for _, evidence in kept] or [step.whole.where(np.zeros(len(step.whole), bool))]
    return replace(step, batches=kept, whole=sum_by_task(joined(parts)))
