"""What crosses the port of the journal beside its entries."""

from dataclasses import dataclass

from bots_service.core.entries import Entry


@dataclass(frozen=True, slots=True)
class LoggedEntry:
    """An entry with what is known of it.

    kind: as the journal calls it.
    step: how many steps had closed after it, in the history as it then was; None where its receipt was not kept yet.
    closed: whether it closed a step, None as above.
    is_hidden: whether a later rewind took it out of the present history.
    created_at: when it was appended (seconds since 1970, UTC).
    """

    entry: Entry
    kind: str
    step: int | None
    closed: bool | None
    is_hidden: bool
    created_at: float
