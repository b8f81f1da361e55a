"""Which entries of a journal belong to the run's present history: a rewind hides what stood before it."""

from typing import NamedTuple

from sqlalchemy import Connection, bindparam, select, text

from bots_service.core.entries import Rewind
from bots_service.storage.entries_codec import decode_body
from bots_service.storage.tables import journal, runs

_HEAD = select(runs.c.head, runs.c.epoch).where(runs.c.id == bindparam("run"))
_REWINDS = (
    select(journal.c.seq, journal.c.body)
    .where(journal.c.run_id == bindparam("run"), text("kind = 'rewind'"))  # as the index's condition has it
    .order_by(journal.c.seq)
)


class Span(NamedTuple):
    """Entries after `after`, up to and including `last`."""

    after: int
    last: int


def visible_spans(head: int, rewinds: list[tuple[int, int]]) -> list[Span]:
    """Return the spans of the present history, oldest first.

    Goes backwards from the head: the newest rewind leads to the entry that it went back to, and so on from there.

    Args:
        head: the last seq.
        rewinds: (seq of the rewind, seq that it went back to), by seq.
    """
    spans: list[Span] = []
    last = head
    for seq, to_seq in reversed(rewinds):
        if seq <= last:
            spans.append(Span(seq - 1, last))
            last = to_seq
    spans.append(Span(0, last))
    return spans[::-1]


def spans_of(connection: Connection, run_id: int) -> list[Span]:
    """Return the spans of a run's present history; none if the run is gone."""
    row = connection.execute(_HEAD, {"run": run_id}).one_or_none()
    if row is None:
        return []
    return visible_spans(row.head, rewinds_of(connection, run_id) if row.epoch > 0 else [])


def rewinds_of(connection: Connection, run_id: int) -> list[tuple[int, int]]:
    """Return a run's rewinds by seq: the seq of each, and the seq that it went back to."""
    rewinds = []
    for seq, body in connection.execute(_REWINDS, {"run": run_id}):
        rewind = decode_body(body)
        if isinstance(rewind, Rewind):
            rewinds.append((seq, rewind.to_seq))
    return rewinds
