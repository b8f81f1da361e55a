"""The answer that lists a run's journal."""

from datetime import datetime
from typing import Any

from msgspec import Struct

from bots_service.api.answers import moment
from bots_service.core.entries import Report, Rewind, SettingsChange
from bots_service.ports.journal_records import LoggedEntry


class JournalEntry(Struct, frozen=True, kw_only=True):
    """One entry of a run's journal.

    step: how many steps had closed after it, null where that is not known yet; hidden: a rewind took it out of the
    present history. tasks, rollouts and closed are those of a report, to_step is a rewind's, changed that of a change
    of settings: names and values.
    """

    seq: int
    epoch: int
    step: int | None
    kind: str
    tasks: int | None = None
    rollouts: float | None = None
    closed: bool | None = None
    to_step: int | None = None
    changed: dict[str, Any] | None = None
    hidden: bool
    time: datetime

    @classmethod
    def of(cls, logged: LoggedEntry) -> "JournalEntry":
        """Return the answer for an entry."""
        entry, own = logged.entry, dict[str, Any]()
        if isinstance(entry.body, Report):
            seen = entry.body.evidence
            rollouts = float(seen.successes.sum() + seen.failures.sum())
            own = {"tasks": len(seen), "rollouts": rollouts, "closed": logged.closed}
        elif isinstance(entry.body, Rewind):
            own = {"to_step": entry.body.to_step}
        elif isinstance(entry.body, SettingsChange):
            own = {"changed": entry.body.values}
        return cls(
            seq=entry.seq,
            epoch=entry.epoch,
            step=logged.step,
            kind=logged.kind,
            hidden=logged.is_hidden,
            time=moment(logged.created_at),
            **own,
        )


class JournalPage(Struct, frozen=True):
    """A page of a run's journal, the newest entry first."""

    entries: list[JournalEntry]
    next_cursor: str | None
