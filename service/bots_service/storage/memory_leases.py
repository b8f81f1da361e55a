"""Tasks in flight, and selections by their idempotency key, in this process's memory."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bots_service.core.arrays import Floats, Tasks, frozen
from bots_service.core.task_sets import contained, united
from bots_service.errors import BusyError
from bots_service.ports.records import Begun, RunRow, Selection

COUNTED_SEQS = 64  # a selection that starts from a state this many entries old is no longer told apart from others
REMEMBERED_S = 900.0  # a retry comes within seconds; a client that slept longer gets a new selection
REMEMBERED_BYTES = 64 * 2**20
SELECTION_BYTES = 1024  # of a selection without its arrays, about


@dataclass(slots=True)
class _InFlight:
    """Leases of one run. tasks: sorted; ends: when each lease ends; selections: how many were begun at a seq."""

    tasks: Tasks = field(default_factory=lambda: frozen(np.empty(0, np.int32)))
    ends: Floats = field(default_factory=lambda: np.empty(0))
    selections: OrderedDict[int, int] = field(default_factory=OrderedDict)

    def keep(self, stays: np.ndarray) -> None:
        if not stays.all():
            self.tasks, self.ends = frozen(self.tasks[stays]), self.ends[stays]

    def drop(self, tasks: Tasks) -> None:
        """End the leases of these tasks, in any order; those that have none are fine."""
        leased = contained(tasks, (self.tasks,))
        if leased.any():
            ended = np.searchsorted(self.tasks, tasks[leased])
            self.tasks, self.ends = frozen(np.delete(self.tasks, ended)), np.delete(self.ends, ended)


@dataclass(frozen=True, slots=True)
class _Remembered:
    selection: Selection
    fingerprint: str
    until: float

    @property
    def nbytes(self) -> int:
        chosen = self.selection
        arrays = (chosen.tasks, chosen.draws, chosen.means, chosen.evidence)
        return SELECTION_BYTES + sum(array.nbytes for array in arrays)


class MemoryLeases:
    """A Leases for one process."""

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, remembered_bytes: int = REMEMBERED_BYTES
    ) -> None:
        """Keep leases in memory.

        Args:
            clock: seconds that never go backwards.
            remembered_bytes: memory for selections that may be asked for again.
        """
        self._clock = clock
        self._capacity_bytes = remembered_bytes
        self._runs: dict[str, _InFlight] = {}
        self._remembered: OrderedDict[tuple[str, str], _Remembered] = OrderedDict()
        self._bytes = 0

    async def begin(self, run: RunRow, *, seq: int, key: str | None) -> Begun:
        """Return what a selection of this run at this seq starts from, and count it, unless its key is known."""
        in_flight = self._in_flight(run)
        self._drop_remembered()
        known = None if key is None else self._remembered.get((run.uid, key))
        ordinal = in_flight.selections.get(seq, 0)
        if known is None:
            in_flight.selections[seq] = ordinal + 1
            if len(in_flight.selections) > COUNTED_SEQS:
                in_flight.selections.popitem(last=False)
        previous = None if known is None else (known.fingerprint, known.selection)
        return Begun(ordinal, in_flight.tasks, previous)

    async def take(
        self, run: RunRow, selection: Selection, *, seconds: float, key: str | None, fingerprint: str, reuse: bool
    ) -> Tasks:
        """Lease the selection's tasks, all or none, and remember it under its key.

        Raises:
            BusyError: another selection was remembered under the key meanwhile.
        """
        in_flight, now = self._in_flight(run), self._clock()
        if key is not None and (run.uid, key) in self._remembered:
            raise BusyError("the same selection was made just now; ask again for it")
        wanted = united(selection.tasks)
        taken = frozen(wanted[contained(wanted, (in_flight.tasks,))])
        if len(taken) and not reuse:
            return taken
        in_flight.drop(taken)
        places = np.searchsorted(in_flight.tasks, wanted)
        in_flight.tasks = frozen(np.insert(in_flight.tasks, places, wanted))
        in_flight.ends = np.insert(in_flight.ends, places, now + seconds)
        if key is not None:
            remembered = _Remembered(selection, fingerprint, now + REMEMBERED_S)
            self._remembered[run.uid, key] = remembered
            self._bytes += remembered.nbytes
            self._drop_remembered()
        return taken

    async def release(self, run: RunRow, tasks: Tasks) -> None:
        """End the leases of these tasks; those that have none are fine."""
        self._in_flight(run).drop(tasks)

    async def leased(self, run: RunRow) -> Tasks:
        """Return the tasks in flight, sorted."""
        return self._in_flight(run).tasks

    async def forget(self, run: RunRow) -> None:
        """End all leases of the run, and forget its selections."""
        self._runs.pop(run.uid, None)
        for place in [place for place in self._remembered if place[0] == run.uid]:
            self._bytes -= self._remembered.pop(place).nbytes

    def _in_flight(self, run: RunRow) -> _InFlight:
        """Return the run's leases that have not ended."""
        in_flight = self._runs.setdefault(run.uid, _InFlight())
        in_flight.keep(in_flight.ends > self._clock())
        return in_flight

    def _drop_remembered(self) -> None:
        """Drop selections that are too old, and the oldest where there are too many."""
        now = self._clock()
        while self._remembered:
            place, oldest = next(iter(self._remembered.items()))
            if oldest.until > now and self._bytes <= self._capacity_bytes:
                return
            self._bytes -= self._remembered.pop(place).nbytes
