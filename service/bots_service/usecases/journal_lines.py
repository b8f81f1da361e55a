"""A run's journal as lines of JSON: a header, then one line an entry."""

from typing import Any

import msgspec
from msgspec import Struct

from bots_service.core.run_settings import FIXED
from bots_service.errors import InvalidJournalError
from bots_service.ports.records import DatasetFacts, RunRow
from bots_service.ports.transfer import SavedEntry

LONGEST_LINE = 32 * 2**20  # bytes; a report of the largest request is some 8 MiB as an entry


class TasksFacts(Struct, frozen=True):
    """What a journal speaks of: its dataset's digest, and what the dataset chose of its tasks when it was made."""

    digest: str
    reference_order: tuple[int, ...]
    offset_tags: tuple[str, ...]

    @classmethod
    def of(cls, facts: DatasetFacts) -> "TasksFacts":
        """Return those of a dataset."""
        return cls(facts.digest, facts.reference_order, facts.offset_tags)


class ParentRun(Struct, frozen=True):
    """The run that an exported run forked; the journal begins with that run's."""

    run: str
    step: int
    seq: int


class JournalHeader(Struct, frozen=True):
    """The first line.

    settings: of the run before its first entry.
    predictions: name and digest of those that it knows.
    entries: how many follow.
    """

    dataset: str
    run: str
    tasks: TasksFacts
    settings: dict[str, Any]
    predictions: tuple[tuple[str, str], ...]
    parent: ParentRun | None
    entries: int


_encoder = msgspec.json.Encoder()
_header = msgspec.json.Decoder(JournalHeader)
_entry = msgspec.json.Decoder(SavedEntry)


def line_of(part: JournalHeader | SavedEntry) -> bytes:
    """Return a line."""
    return _encoder.encode(part) + b"\n"


def read_header(line: bytes) -> JournalHeader:
    """Return the header.

    Raises:
        InvalidJournalError: the line is none.
    """
    try:
        return _header.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidJournalError(f"the first line is no header of a journal: {error}") from error


def read_entry(line: bytes, number: int) -> SavedEntry:
    """Return the entry of a line. number: the line's, from 1.

    Raises:
        InvalidJournalError: the line is no entry.
    """
    try:
        return _entry.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidJournalError(f"line {number} is no entry of a journal: {error}") from error


def forked(entry: SavedEntry, row: RunRow, seq: int, epoch: int) -> list[SavedEntry]:
    """Return what leads from the ancestor's entry `seq` to the run that begins there: a rewind, and its settings.

    Args:
        entry: the run's first, which holds the state that the ancestors' journal leads to.
        row: the run's.
        seq: of the last of the ancestors' entries before it, as they are numbered in the export.
        epoch: of the first entry.
    """
    settings = {name: value for name, value in row.settings.as_dict().items() if name not in FIXED}
    bodies: list[dict[str, Any]] = [
        {"kind": "rewind", "to_seq": seq, "to_step": row.origin_step},
        {"kind": "settings", "settings": settings},
    ]
    return [
        SavedEntry(seq + place, epoch, entry.profiles, entry.created_at, msgspec.Raw(_encoder.encode(body)))
        for place, body in enumerate(bodies, 1)
    ]


def renumbered(entry: SavedEntry, seqs: int, epochs: int) -> SavedEntry:
    """Return an entry of a fork behind its ancestors' entries, so many seqs and epochs later."""
    if not seqs:
        return entry
    body = msgspec.json.decode(entry.body)
    if body["kind"] == "rewind":
        body["to_seq"] += seqs
    elif body.get("selection"):
        body["selection"][0] += seqs
    return SavedEntry(
        entry.seq + seqs,
        entry.epoch + epochs,
        entry.profiles,
        entry.created_at,
        msgspec.Raw(_encoder.encode(body)),
        entry.key,
        entry.fingerprint,
    )
