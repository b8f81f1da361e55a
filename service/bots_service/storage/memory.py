"""The hot store in this process's memory: newest states, leases and selections."""

import itertools
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from bots_service.core.arrays import Floats, Tasks, contained, frozen, without
from bots_service.core.state import RunState
from bots_service.ports.hot import (
    NO_TOKEN,
    KnownState,
    LeaseResult,
    LeaseTicket,
    LeaseTtls,
    PublishedState,
    PublishResult,
)
from bots_service.ports.records import RunRow, Selection
from bots_service.retention import SELECTIONS_S

STATE_BYTES = 4096  # of a state without its arrays, about
TOKEN = "memory"  # noqa: S105 - not a secret; memory lasts as long as the process, so one token is enough


class MemoryStates:
    """A States; the least recently used states are evicted first."""

    def __init__(self, capacity_bytes: int, *, only_process: bool = True) -> None:
        """Create it.

        Args:
            capacity_bytes: memory limit of the states; the one published last always stays.
            only_process: whether no other process uses the same database; otherwise no state here is certainly the
                newest.
        """
        self._capacity_bytes = capacity_bytes
        self._token = TOKEN if only_process else NO_TOKEN
        self._bytes = 0
        self._states: OrderedDict[tuple[int, str], tuple[RunState, int]] = OrderedDict()  # with their bytes

    def known(self, run: RunRow) -> KnownState | None:
        """Return the newest state in this process; other replicas may have published a newer one."""
        known = self._states.get(_key(run))
        if known is None:
            return None
        self._states.move_to_end(_key(run))
        return KnownState(known[0], self._token)

    async def register(self, run: RunRow) -> None:
        """Do nothing: memory does not lose leases."""

    async def newest(self, run: RunRow) -> PublishedState:
        """Return the newest published state, if one is known and no other process can have published a newer one."""
        known = None if self._token == NO_TOKEN else self.known(run)
        return PublishedState(None if known is None else known.state, self._token)

    async def publish(self, run: RunRow, state: RunState, token: str) -> PublishResult:  # noqa: ARG002 - one token
        """Make a state the newest, unless one with a greater (epoch, seq) is."""
        self.keep(run, state)
        return PublishResult.LOCAL if self._token == NO_TOKEN else PublishResult.SHARED

    def keep(self, run: RunRow, state: RunState) -> None:
        """Store a state, unless one with a greater (epoch, seq) is stored."""
        known = self._states.get(_key(run))
        if known is not None and version(known[0]) >= version(state):
            return
        self.drop(run)
        size = nbytes(state)
        self._states[_key(run)] = state, size
        self._bytes += size
        while self._bytes > self._capacity_bytes and len(self._states) > 1:
            _, (_, size) = self._states.popitem(last=False)
            self._bytes -= size

    async def invalidate(self, run: RunRow) -> None:
        """Do nothing: no other process reads this memory."""

    async def delete(self, run: RunRow) -> None:
        """Delete the run's state."""
        self.drop(run)

    def drop(self, run: RunRow) -> None:
        """Remove the run's state from memory."""
        _, size = self._states.pop(_key(run), (None, 0))
        self._bytes -= size


def _key(run: RunRow) -> tuple[int, str]:
    """Return a key unique to the run; the uid is not enough, because an import may restore an older run under it."""
    return run.id, run.uid


def version(made: RunState | Selection) -> tuple[int, int]:
    """Return the version (epoch, seq) of a state or of a selection from it; it grows with each state of a run."""
    return made.epoch, made.seq


def nbytes(state: RunState) -> int:
    """Return the approximate memory of a state in bytes."""
    return STATE_BYTES + state.nbytes


COUNTED_STATES = 64  # per run; selections from an older state get its first ordinals again
REMEMBERED_BYTES = 64 * 2**20
# Range of random first ordinals: two replicas that are cut off, or one before and after a loss of Redis, hardly ever
# draw with the same.
ORDINALS = 2**30
SELECTION_BYTES = 1024  # of a selection without its arrays, about

Version = tuple[int, int]


@dataclass(slots=True)
class _InFlight:
    """Leases of one run.

    revisions: yields new numbers; revision: the number of the last change.
    tasks: sorted; ends: when each lease ends.
    counts: how many selections were made from each state, by its version.
    reserved: the version and the ordinal reserved for the next selection.
    """

    revisions: Iterator[int]
    revision: int
    tasks: Tasks = field(default_factory=lambda: frozen(np.empty(0, np.int32)))
    ends: Floats = field(default_factory=lambda: np.empty(0))
    counts: OrderedDict[Version, int] = field(default_factory=OrderedDict)
    reserved: tuple[Version, int] | None = None

    def end_before(self, now: float) -> None:
        stays = self.ends > now
        if not stays.all():
            self.tasks, self.ends = frozen(self.tasks[stays]), self.ends[stays]
            self.revision = next(self.revisions)

    def end(self, tasks: Tasks) -> None:
        """End the leases of these tasks, in any order; tasks without a lease are ignored."""
        leased = contained(tasks, (self.tasks,))
        if leased.any():
            ended = np.searchsorted(self.tasks, tasks[leased])
            self.tasks, self.ends = frozen(np.delete(self.tasks, ended)), np.delete(self.ends, ended)
            self.revision = next(self.revisions)

    def lease(self, tasks: Tasks, until: float) -> None:
        """Lease these sorted tasks until then, including tasks that are already leased."""
        self.end(tasks)
        places = np.searchsorted(self.tasks, tasks)
        self.tasks = frozen(np.insert(self.tasks, places, tasks))
        self.ends = np.insert(self.ends, places, until)
        self.revision = next(self.revisions)

    def count(self, origin: Version, first: int) -> int:
        """Return the ordinal of the next selection from a state, and count it."""
        ordinal = self.counts.get(origin, first)
        self.counts[origin] = ordinal + 1
        if len(self.counts) > COUNTED_STATES:
            self.counts.popitem(last=False)
        return ordinal


@dataclass(frozen=True, slots=True)
class _KeptSelection:
    selection: Selection
    fingerprint: str
    until: float

    @property
    def nbytes(self) -> int:
        chosen = self.selection
        arrays = (chosen.tasks, chosen.draws, chosen.means, chosen.effective)
        return SELECTION_BYTES + sum(array.nbytes for array in arrays)


class MemoryLeases:
    """A Leases for one process."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        remembered_bytes: int = REMEMBERED_BYTES,
        first_ordinal: int = 0,
    ) -> None:
        """Create it.

        Args:
            clock: monotonic seconds.
            remembered_bytes: memory limit of selections kept by idempotency key.
            first_ordinal: of each state; processes with other first ordinals draw other tasks from the same state.
        """
        self._clock = clock
        self._capacity_bytes = remembered_bytes
        self._first_ordinal = first_ordinal
        self._revisions = itertools.count()
        self._runs: dict[str, _InFlight] = {}
        self._remembered: OrderedDict[tuple[str, str], _KeptSelection] = OrderedDict()
        self._bytes = 0

    async def prepare(self, run: RunRow, known: KnownState, *, key: str | None) -> LeaseTicket:
        """Return the ticket that a selection from this state is drawn with."""
        in_flight, origin = self._in_flight(run), version(known.state)
        ordinal = in_flight.counts.get(origin, self._first_ordinal)
        if in_flight.reserved is not None and in_flight.reserved[0] == origin:
            ordinal = in_flight.reserved[1]
        local, previous = known.token == NO_TOKEN, await self.previous(run, key)
        return LeaseTicket(ordinal, in_flight.tasks, in_flight.revision, known.token, local, local, previous)

    async def acquire(
        self,
        run: RunRow,
        selection: Selection,
        ticket: LeaseTicket,
        *,
        seconds: float,
        key: str | None,
        fingerprint: str,
        reuse: bool,
    ) -> LeaseResult:
        """Lease the selection's tasks, all or none, and keep it under its key.

        If the run's leases changed since the ticket, the selection is refused once, and must be drawn again. The next
        one has a reserved ordinal, and is refused only if it shares a newly leased task.
        """
        previous = await self.previous(run, key)
        if previous is not None:
            return LeaseResult(previous=previous)
        in_flight, origin = self._in_flight(run), version(selection)
        wanted = selection.leased
        if in_flight.reserved == (origin, ticket.ordinal):
            free = without(wanted, ticket.leased) if reuse else wanted
            if contained(free, (in_flight.tasks,)).any():
                return LeaseResult()
            in_flight.reserved = None
        else:
            ordinal = in_flight.count(origin, self._first_ordinal)
            if (ticket.revision, ticket.ordinal) != (in_flight.revision, ordinal):
                in_flight.reserved = origin, ordinal
                return LeaseResult()
        now = self._clock()
        in_flight.lease(wanted, now + seconds)
        if key is not None:
            self._remember(run, key, _KeptSelection(selection, fingerprint, now + SELECTIONS_S))
        return LeaseResult(selection)

    async def release(self, run: RunRow, tasks: Tasks) -> None:
        """End the leases of these tasks; tasks without a lease are ignored."""
        self._in_flight(run).end(tasks)

    async def leased(self, run: RunRow) -> Tasks:
        """Return the tasks in flight, sorted."""
        return self._in_flight(run).tasks

    async def ttls(self, run: RunRow) -> LeaseTtls:
        """Return the tasks in flight, and when the lease of each ends."""
        now = self._clock()
        in_flight = self._in_flight(run)
        return LeaseTtls(in_flight.tasks, frozen(in_flight.ends - now))

    async def clear(self, run: RunRow) -> None:
        """End all leases of the run, and delete its selections."""
        self._runs.pop(run.uid, None)
        for place in [place for place in self._remembered if place[0] == run.uid]:
            self._bytes -= self._remembered.pop(place).nbytes

    async def previous(self, run: RunRow, key: str | None) -> tuple[str, Selection] | None:
        """Return the selection that was made under a key, with its request's fingerprint; None if there is none."""
        self._drop_remembered()
        known = None if key is None else self._remembered.get((run.uid, key))
        return None if known is None else (known.fingerprint, known.selection)

    def _in_flight(self, run: RunRow) -> _InFlight:
        """Return the run's leases that have not ended."""
        in_flight = self._runs.get(run.uid)
        if in_flight is None:
            in_flight = self._runs[run.uid] = _InFlight(self._revisions, next(self._revisions))
        in_flight.end_before(self._clock())
        return in_flight

    def _remember(self, run: RunRow, key: str, selection: _KeptSelection) -> None:
        self._remembered[run.uid, key] = selection
        self._bytes += selection.nbytes
        self._drop_remembered()

    def _drop_remembered(self) -> None:
        """Drop expired selections, and the oldest ones beyond the memory limit."""
        now = self._clock()
        while self._remembered:
            place, oldest = next(iter(self._remembered.items()))
            if oldest.until > now and self._bytes <= self._capacity_bytes:
                return
            self._bytes -= self._remembered.pop(place).nbytes
