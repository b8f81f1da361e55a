"""Selection ids: they carry their run's epoch and step, so evidence finds its place even when leases were lost."""

import hashlib
from dataclasses import dataclass

from bots_service.errors import Flaw, InvalidSelectionError
from bots_service.ports.records import RunRow


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a selection was made.

    epoch, step, seq: of the run's state; ordinal: how many selections were made at that seq before.
    """

    epoch: int
    step: int
    seq: int
    ordinal: int


def write_id(run: RunRow, origin: Origin) -> str:
    """Return the selection's id, as in "0-12-12-3-5f2c9a01d4e6"."""
    numbers = f"{origin.epoch}-{origin.step}-{origin.seq}-{origin.ordinal}"
    return f"{numbers}-{_check(run, numbers)}"


def read_id(run: RunRow, selection_id: str) -> Origin:
    """Return where the selection was made.

    Raises:
        InvalidSelectionError: this run did not give that id out.
    """
    numbers, _, check = selection_id.rpartition("-")
    parts = numbers.split("-")
    # Looked at first: text that is not ASCII may have no bytes to make a mark of.
    are_numbers = len(parts) == 4 and all(part.isascii() and part.isdecimal() for part in parts)
    if not are_numbers or check != _check(run, numbers):
        flaw = Flaw(("body", "selection_id"), f"{selection_id[:80]!r} was not given out by run {run.name!r}")
        raise InvalidSelectionError("the selection is unknown", (flaw,))
    return Origin(*map(int, parts))


def _check(run: RunRow, numbers: str) -> str:
    """Return a mark that only this run's ids carry. It guards against mix-ups, not against forgery."""
    return hashlib.blake2b(f"{run.uid} {numbers}".encode(), digest_size=6).hexdigest()
