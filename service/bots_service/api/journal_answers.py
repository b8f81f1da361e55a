"""The answer that lists a run's journal."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from bots_service.api.answers import moment
from bots_service.ports.journal import LoggedEntry


class JournalEntry(Struct, frozen=True, kw_only=True):
    """One entry of a run's journal.

    step: how many steps had closed after it, null where that is not known yet; hidden: a rewind took it out of the
    present history. tasks, effective, rollouts and closed are those of a report: outcomes, those whose group has a
    gradient, rollouts, and whether it closed a step. to_step is a rewind's, changed that of a change of settings: names
    and values.
    """

    seq: int
    epoch: int
    step: int | None
    kind: str
    tasks: int | None = None
    effective: int | None = None
    rollouts: float | None = None
    closed: bool | None = None
    to_step: int | None = None
    changed: dict[str, Any] | None = None
    hidden: bool
    time: datetime

    @classmethod
    def of(cls, logged: LoggedEntry) -> "JournalEntry":
        """Return the answer for an entry."""
        return cls(
            seq=logged.seq,
            epoch=logged.epoch,
            step=logged.step,
            kind=logged.kind,
            tasks=logged.tasks,
            effective=logged.effective,
            rollouts=logged.rollouts,
            closed=None if logged.tasks is None else logged.closed,
            to_step=logged.to_step,
            changed=logged.changed,
            hidden=logged.is_hidden,
            time=moment(logged.created_at),
        )


class JournalPage(Struct, frozen=True):
    """A page of a run's journal, the newest entry first."""

    entries: list[JournalEntry]
    next_cursor: str | None
