"""What replicas share besides SQL: where each run stands, tasks in flight, and selections by idempotency key.

All of it may be lost at any moment: the journal in SQL is the truth. It is kept in this process's memory for one
process, and in Redis (`storage/redis.py`) for all replicas. A lost head is read from SQL; of lost leases, answers say
`degraded`.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from bots_service.core.arrays import NO_TASKS, Floats, Tasks, contained, frozen, united, without
from bots_service.core.state import RunState
from bots_service.records import Head, IdempotencyKey, LeaseTtls, RunRow, Selection
from bots_service.retention import SELECTIONS_S

# Range of random first ordinals: two processes that see nothing of each other hardly ever draw with the same.
ORDINALS = 2**30
REMEMBERED_BYTES = 64 * 2**20
SELECTION_BYTES = 1024  # of a selection without its arrays, about

Version = tuple[int, int]
"""(epoch, seq) of a state, which grows with each state of a run."""
BEGIN: Version = (0, 0)


@dataclass(frozen=True, slots=True)
class Previous:
    """The selection that was made under an idempotency key before, and its request's fingerprint."""

    fingerprint: str
    selection: Selection


@dataclass(frozen=True, slots=True)
class Look:
    """What a selection is drawn with.

    head: version of the run's newest state; None if the store does not know it: read SQL.
    dataset_version: of the run's dataset; None if the store does not know it.
    ordinal: number of this selection among those from the same state; it seeds the draw.
    leased: sorted tasks in flight.
    degraded: others may work on the same tasks: the store is away, or lost leases that may not have ended yet.
    local: the tasks will be leased in this process's memory alone.
    previous: the selection that was made under the request's key before.
    more: selections that may be drawn with what this one leaves; the ordinals after this are theirs.
    """

    head: Version | None
    dataset_version: int | None
    ordinal: int
    leased: Tasks
    degraded: bool = False
    local: bool = False
    previous: Previous | None = None
    more: int = 0

    def after(self, selection: Selection) -> "Look | None":
        """Return what the next selection may be drawn with once this one's tasks are leased; None: look again."""
        if not self.more or self.local:
            return None
        leased = frozen(united(self.leased, selection.leased))
        return replace(self, ordinal=self.ordinal + 1, leased=leased, more=self.more - 1)


@dataclass(frozen=True, slots=True)
class KeptState:
    """A state that is kept for replicas that have none.

    at: when its last entry was appended, as SQL says. After a database was restored to an earlier time, another entry
        may have the same seq.
    """

    state: RunState
    at: float


def version_of(made: RunState | Selection | Head) -> Version:
    """Return the version of a state, of a selection's state, or of a head."""
    return made.epoch, made.seq


@dataclass(slots=True)
class _InFlight:
    """Leases of one run. tasks: sorted; ends: when each lease ends; counted: selections from the newest state."""

    tasks: Tasks = field(default_factory=lambda: NO_TASKS)
    ends: Floats = field(default_factory=lambda: np.empty(0))
    counted: tuple[Version, int] = ((-1, -1), 0)

    def keep(self, stays: np.ndarray) -> None:
        if not stays.all():
            self.tasks, self.ends = frozen(self.tasks[stays]), self.ends[stays]

    def lease(self, tasks: Tasks, until: float) -> None:
        self.keep(~contained(self.tasks, (tasks,)))
        places = np.searchsorted(self.tasks, tasks)
        self.tasks, self.ends = frozen(np.insert(self.tasks, places, tasks)), np.insert(self.ends, places, until)


class Live:
    """The store of live data, in this process's memory. No method raises because a store is away.

    is_exact: no other process changes runs, so that what this process last committed is the newest.
    is_shared: other processes see what is kept here.
    """

    is_shared = False

    def __init__(self, *, is_exact: bool, clock: Callable[[], float] = time.monotonic) -> None:
        """Know nothing yet. clock: monotonic seconds."""
        self.is_exact = is_exact
        self._clock = clock
        self._first_ordinal = 0 if is_exact else secrets.randbelow(ORDINALS)
        self._runs: dict[str, _InFlight] = {}
        self._kept: OrderedDict[tuple[str, str], tuple[Previous, float]] = OrderedDict()  # and until when
        self._bytes = 0

    async def look(
        self,
        run: RunRow,
        version: Version,
        key: str | None,
        *,
        lease_s: float,  # noqa: ARG002
        selects: int = 1,  # noqa: ARG002
    ) -> Look:
        """Return what a selection is drawn with.

        version: of the state that this process would draw from, if the store knows no newer one.
        key: the request's idempotency key; lease_s: how long leases last; selects: how many wait, with this one.
        """
        in_flight, previous = self._in_flight(run), self._previous(run, key, version[0])
        of, count = in_flight.counted
        ordinal = count if of == version else self._first_ordinal
        in_flight.counted = version, ordinal + 1
        alone = not self.is_exact
        return Look(None, None, ordinal, in_flight.tasks, degraded=alone, local=alone, previous=previous)

    async def lease(
        self, run: RunRow, selection: Selection, look: Look, once: IdempotencyKey | None, *, lease_s: float
    ) -> Previous | bool:
        """Lease a selection's tasks, all or none, and keep it under the request's key.

        Where it has tasks again that `look` lists as leased, one that was leased since is still refused.

        Returns:
            True; False if the run has moved on or a task was leased meanwhile: look and draw again; or the selection
            that was made under the same key meanwhile.
        """
        if once is not None and (previous := self._previous(run, once.key, selection.epoch)) is not None:
            return previous
        in_flight, wanted = self._in_flight(run), selection.leased
        if contained(newly_leased(selection, look), (in_flight.tasks,)).any():
            return False
        now = self._clock()
        in_flight.lease(wanted, now + lease_s)
        if once is not None:
            self._forget(run.uid, once.key)  # one from before a rewind
            self._kept[run.uid, once.key] = Previous(once.fingerprint, selection), now + SELECTIONS_S
            self._bytes += _nbytes(selection)
            self._forget_selections()
        return True

    async def moved(
        self,
        run: RunRow,
        head: Version,
        *,
        done: Tasks = NO_TASKS,
        kept: KeptState | None = None,  # noqa: ARG002
        begins: bool = False,  # noqa: ARG002
    ) -> int | None:
        """Tell where a run stands now, and end leases: all of them after a rewind.

        Returns:
            How many tasks are in flight; None if other replicas may not see it.

        head: version of its newest state; an older one changes nothing.
        done: tasks whose leases end.
        kept: for replicas that have no state; it need not be the newest.
        begins: the run is new. If the store knows nothing of any other run, its leases were lost.
        """
        in_flight = self._in_flight(run)
        is_rewind = head[0] > in_flight.counted[0][0]  # the leases are of selections that were counted
        in_flight.keep(~contained(in_flight.tasks, (in_flight.tasks if is_rewind else np.sort(done),)))
        return len(in_flight.tasks) if self.is_exact else None

    async def state(self, run: RunRow) -> KeptState | None:  # noqa: ARG002
        """Return the state of a run that was kept last for replicas; None if there is none."""
        return None

    async def leases(self, run: RunRow) -> LeaseTtls:
        """Return the tasks in flight, and when the lease of each ends."""
        in_flight = self._in_flight(run)
        return LeaseTtls(in_flight.tasks, frozen(in_flight.ends - self._clock()), degraded=not self.is_exact)

    async def delete(self, run: RunRow) -> None:
        """Delete all that is kept of a run, so that every process looks for it in SQL."""
        self._runs.pop(run.uid, None)

    async def dataset_changed(self, dataset_id: int, version: int) -> None:
        """Tell the version of a dataset."""

    async def check(self) -> None:
        """Raise StorageUnavailableError if the store is away."""

    def _in_flight(self, run: RunRow) -> _InFlight:
        in_flight = self._runs.setdefault(run.uid, _InFlight())
        in_flight.keep(in_flight.ends > self._clock())
        return in_flight

    def _previous(self, run: RunRow, key: str | None, epoch: int) -> Previous | None:
        self._forget_selections()
        found, _ = (None, 0.0) if key is None else self._kept.get((run.uid, key), (None, 0.0))
        return found if found is not None and found.selection.epoch == epoch else None  # else from before a rewind

    def _forget_selections(self) -> None:
        """Forget expired selections, and the oldest ones beyond the memory limit."""
        while self._kept:
            place, (_, until) = next(iter(self._kept.items()))
            if until > self._clock() and self._bytes <= REMEMBERED_BYTES:
                return
            self._forget(*place)

    def _forget(self, uid: str, key: str) -> None:
        forgotten, _ = self._kept.pop((uid, key), (None, 0.0))
        if forgotten is not None:
            self._bytes -= _nbytes(forgotten.selection)


def newly_leased(selection: Selection, look: Look) -> Tasks:
    """Return the tasks of a selection that must not be on lease."""
    return without(selection.leased, look.leased) if selection.reused else selection.leased


def _nbytes(selection: Selection) -> int:
    arrays = (selection.tasks, selection.draws, selection.means, selection.effective)
    return SELECTION_BYTES + sum(array.nbytes for array in arrays)
