"""What stands in a run's journal, as frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

Setting = int | float | str | tuple[float, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One entry of a run's journal.

    kind: report, settings, rewind or fork.
    step: how many steps had closed after it; None where that is not known yet.
    tasks, effective, rollouts, closed: of a report; effective: the tasks whose group has a gradient; closed: whether it
        closed a step.
    to_step: of a rewind.
    changed: of a change of settings, their names and values.
    hidden: a rewind took it out of the present history.
    """

    seq: int
    epoch: int
    kind: str
    time: datetime
    step: int | None = None
    tasks: int | None = None
    effective: int | None = None
    rollouts: float | None = None
    closed: bool | None = None
    to_step: int | None = None
    changed: Mapping[str, Setting] | None = None
    hidden: bool = False
