"""A run's journal folded again under other beliefs, scored by what each predicted before each step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from bots_service.core.entries import Entry, Rewind, SettingsChange
from bots_service.core.pool import Pool
from bots_service.core.receipt import Receipt
from bots_service.core.run_settings import RunSettings
from bots_service.core.state import advance, fresh_state

OWN = "this run"
SCHEDULE = ("tasks_per_step", "rollouts_per_task", "lease_seconds")  # settings that are not the belief's


@dataclass(frozen=True, slots=True)
class ComparedBelief:
    """How wrong a belief's predictions were: means over the rollouts; smaller is better."""

    belief: str
    log_loss: float | None
    brier: float | None


@dataclass(frozen=True, slots=True)
class BeliefComparison:
    """What beliefs would have predicted before each step. steps: the run's with outcomes; rollouts: in them."""

    steps: int
    rollouts: float
    beliefs: tuple[ComparedBelief, ...]


def compared(
    entries: Sequence[Entry], own: RunSettings, others: Mapping[str, RunSettings], pool: Pool
) -> BeliefComparison:
    """Return the errors of the run's own belief, and of others by name, as if the run had had them from the beginning.

    entries: the whole journal; own: the settings before it; pool: at the last entry's version or a later one.
    """
    kept = present(entries)
    steps = _scored(kept, own, pool)
    schedule = {name: getattr(own, name) for name in SCHEDULE}
    rescheduled = [_with_schedule_alone(entry) for entry in kept]
    replays = {OWN: steps} | {
        name: _scored(rescheduled, structs.replace(settings, **schedule), pool) for name, settings in others.items()
    }
    beliefs = tuple(
        ComparedBelief(name, _mean(replay, "log_loss"), _mean(replay, "brier")) for name, replay in replays.items()
    )
    return BeliefComparison(len(steps), sum(step.rollouts for step in steps), beliefs)


def present(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that no rewind undid, with the rewinds between them."""
    kept, seq = list[Entry](), len(entries)
    while seq > 0:
        entry = entries[seq - 1]
        kept.append(entry)
        seq = entry.body.to_seq if isinstance(entry.body, Rewind) else seq - 1
    return kept[::-1]


def _with_schedule_alone(entry: Entry) -> Entry:
    """Return the entry; of a change of settings only those that say when steps close."""
    if not isinstance(entry.body, SettingsChange):
        return entry
    values = {name: value for name, value in entry.body.values.items() if name in SCHEDULE}
    return replace(entry, body=SettingsChange(values))


def _scored(entries: Sequence[Entry], settings: RunSettings, pool: Pool) -> list[Receipt]:
    """Return the receipts of the closed steps that have outcomes."""
    state, found = fresh_state(settings, pool), list[Receipt]()
    for entry in entries:
        # What a rewind went back to is where the fold stands.
        state, receipt = advance(replace(state, seq=entry.seq - 1), entry, pool, base=state)
        if receipt.closed and receipt.log_loss is not None:
            found.append(receipt)
    return found


def _mean(steps: Sequence[Receipt], error: str) -> float | None:
    """Return the mean error over the rollouts; None without any."""
    rollouts = sum(step.rollouts for step in steps)
    return sum(step.rollouts * float(getattr(step, error)) for step in steps) / rollouts if rollouts else None
