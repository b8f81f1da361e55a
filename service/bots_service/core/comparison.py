"""A run's journal folded again under other beliefs, scored by what each predicted before each step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bots_service.core.arrays import ordered_sum
from bots_service.core.belief import KINDS
from bots_service.core.entries import Entry, Report, Rewind
from bots_service.core.evidence import NO_EVIDENCE, ClosingStep, Evidence, sum_by_task
from bots_service.core.pool import Pool
from bots_service.core.receipt import errors_of
from bots_service.core.run_settings import RunSettings
from bots_service.core.state import advance, fresh_state, with_report

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
    """Return the errors of the run's own belief, and of others by name, on the outcomes that the run counted.

    entries: the whole journal; own: the settings before it; pool: at the last entry's version or a later one.
    """
    state = fresh_state(own, pool)
    rivals = {name: KINDS[settings.belief].fresh(settings, pool) for name, settings in others.items()}
    errors, steps, rollouts = np.zeros((1 + len(others), 2)), 0, 0.0
    for entry in present(entries):
        rivals = {name: belief.extended(pool, entry.profiles) for name, belief in rivals.items()}
        own_belief, step = state.belief.extended(pool, entry.profiles), None
        if isinstance(entry.body, Rewind):  # what it went back to is where the fold stands
            state, _ = advance(replace(state, seq=entry.seq - 1), entry, pool, base=state)
        elif isinstance(entry.body, Report):
            state, _, step = with_report(state, entry, entry.body, pool)
        else:
            state, _ = advance(state, entry, pool)
        if step is None:
            continue
        if len(step.whole):
            weight = ordered_sum(step.whole.successes + step.whole.failures)
            means = (one.distributions(pool, step.whole.tasks).mean for one in (own_belief, *rivals.values()))
            errors += weight * np.array([errors_of(mean, step.whole) for mean in means], np.float64)
            steps, rollouts = steps + 1, rollouts + weight
        for name, belief in rivals.items():
            rivals[name] = belief.fold(pool, _counting(step, belief.longest_lag), others[name])
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


def _counting(step: ClosingStep, longest_lag: int) -> ClosingStep:
    """Return the step without what comes too late for a belief: kinds differ in how late evidence may come."""
    kept = tuple((lag, evidence) for lag, evidence in step.batches if lag <= longest_lag)
    if len(kept) == len(step.batches):
        return step
    return replace(step, batches=kept, whole=sum_by_task(Evidence.joined([one for _, one in kept] or [NO_EVIDENCE])))
