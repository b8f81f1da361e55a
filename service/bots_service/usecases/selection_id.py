"""Selection ids: they carry their run's epoch and step, and how far the selection walked through passes.

So evidence finds its place, and passes continue, even when leases were lost.
"""

import hashlib
import re
from dataclasses import dataclass

from bots_service.core.walks import Walk, walk_numbers
from bots_service.errors import Flaw, InvalidSelectionError
from bots_service.ports.records import RunRow

LONGEST_ID = 4096  # characters: one of 33 walks, for 32 tags of a mix and the rest, has up to 1,300
# Numbers of bounded length: a state keeps them.
_PARTS = re.compile(r"[0-9]{1,15}(-[0-9]{1,15}){3}(-[0-9a-f]{1,8}(\.[0-9a-f]{1,8}){3})*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a selection was made.

    epoch, step, seq: of the run's state; ordinal: how many selections were made at that seq before.
    walks: where its passes stood afterwards.
    """

    epoch: int
    step: int
    seq: int
    ordinal: int
    walks: tuple[Walk, ...] = ()


def write_id(run: RunRow, origin: Origin) -> str:
    """Return the selection's id, as in "0-12-12-3-5f2c9a01d4e6", or with a walk "0-12-12-3-0.1.a7.3c0-5f2c9a01d4e6"."""
    parts = [str(number) for number in (origin.epoch, origin.step, origin.seq, origin.ordinal)]
    parts += [".".join(f"{number:x}" for number in walk_numbers(walk)) for walk in origin.walks]
    numbers = "-".join(parts)
    return f"{numbers}-{_check(run, numbers)}"


def read_id(run: RunRow, selection_id: str) -> Origin:
    """Return where the selection was made.

    Raises:
        InvalidSelectionError: this run did not give that id out.
    """
    numbers, _, check = selection_id.rpartition("-")
    parts = _PARTS.fullmatch(numbers)
    if parts is None or check != _check(run, numbers):
        flaw = Flaw(("body", "selection_id"), f"{selection_id[:80]!r} was not given out by run {run.name!r}")
        raise InvalidSelectionError("the selection is unknown", (flaw,))
    epoch, step, seq, ordinal, *walks = numbers.split("-")
    ends = (Walk(*(int(number, 16) for number in walk.split("."))) for walk in walks)
    return Origin(int(epoch), int(step), int(seq), int(ordinal), tuple(ends))


def _check(run: RunRow, numbers: str) -> str:
    """Return a mark that only this run's ids carry. It guards against mix-ups, not against forgery."""
    return hashlib.blake2b(f"{run.uid} {numbers}".encode(), digest_size=6).hexdigest()
