"""What crosses the port of the journal beside its entries."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEntry:
    """What is known of an entry, in a few words: what it holds may be large.

    seq, epoch: as the entry has them.
    kind: as the journal calls it.
    step: how many steps had closed after it, in the history as it then was; None where its receipt was not kept yet.
    closed: whether it closed a step, None as above.
    is_hidden: whether a later rewind took it out of the present history.
    created_at: when it was appended (seconds since 1970, UTC).
    tasks, rollouts: how many a report tells of; effective: how many of the tasks have a gradient.
    to_step: the step that a rewind went back to.
    changed: what a change of settings changed, names and values.
    """

    seq: int
    epoch: int
    kind: str
    step: int | None
    closed: bool | None
    is_hidden: bool
    created_at: float
    tasks: int | None = None
    effective: int | None = None
    rollouts: float | None = None
    to_step: int | None = None
    changed: dict[str, Any] | None = None
