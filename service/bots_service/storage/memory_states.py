"""The newest state of each run, decoded, in this process's memory."""

from collections import OrderedDict
from typing import Any

from numpy.typing import NDArray

from bots_service.core.state import RunState
from bots_service.ports.hot import Reach
from bots_service.ports.hot_records import NO_MARK, Known, Published
from bots_service.ports.records import RunRow, Selection

STATE_BYTES = 4096  # of a state without its arrays, about
MARK = "memory"  # what a process forgets when it ends, nobody can ask it for: one mark is enough


class MemoryStates:
    """A States. Where memory is short, the states of runs that nobody asked for longest go first."""

    def __init__(self, capacity_bytes: int, *, alone: bool = False) -> None:
        """Keep states in memory.

        Args:
            capacity_bytes: of the states; the one published last stays, however large it is.
            alone: other processes publish too, where this one can't look: nothing it holds is known to be the newest.
        """
        self._capacity_bytes = capacity_bytes
        self._mark = NO_MARK if alone else MARK
        self._bytes = 0
        self._states: OrderedDict[tuple[int, str], RunState] = OrderedDict()

    def known(self, run: RunRow) -> Known | None:
        """Return the newest state that this process holds; others may have published a newer one."""
        state = self._states.get(_key(run))
        if state is None:
            return None
        self._states.move_to_end(_key(run))
        return Known(state, self._mark)

    async def created(self, run: RunRow) -> None:
        """Do nothing: memory that knows nothing of a run has lost nothing."""

    async def newest(self, run: RunRow) -> Published:
        """Return the newest published state; without one if none is known, or others may have published a newer one."""
        known = None if self._mark == NO_MARK else self.known(run)
        return Published(None if known is None else known.state, self._mark)

    async def publish(self, run: RunRow, state: RunState, mark: str) -> Reach:  # noqa: ARG002 - the port's mark
        """Make a state known, unless one with a greater (epoch, seq) is."""
        self.keep(run, state)
        return Reach.ALONE if self._mark == NO_MARK else Reach.ALL

    def keep(self, run: RunRow, state: RunState) -> None:
        """Hold a state, unless one with a greater (epoch, seq) is held."""
        known = self._states.get(_key(run))
        if known is not None and version(known) >= version(state):
            return
        self.drop(run)
        self._states[_key(run)] = state
        self._bytes += nbytes(state)
        while self._bytes > self._capacity_bytes and len(self._states) > 1:
            _, oldest = self._states.popitem(last=False)
            self._bytes -= nbytes(oldest)

    async def doubt(self, run: RunRow) -> None:
        """Do nothing: nobody else reads this memory."""

    async def forget(self, run: RunRow) -> None:
        """Forget the run's state."""
        self.drop(run)

    def drop(self, run: RunRow) -> None:
        """Hold the run's state no longer."""
        state = self._states.pop(_key(run), None)
        if state is not None:
            self._bytes -= nbytes(state)


def _key(run: RunRow) -> tuple[int, str]:
    """Return what no other run has: an import may bring a run back under its uid, older than it was."""
    return run.id, run.uid


def version(made: RunState | Selection) -> tuple[int, int]:
    """Return what grows from each state of a run to the next, of a state or of what was made from it."""
    return made.epoch, made.seq


def nbytes(state: RunState) -> int:
    """Return about how much memory a state takes."""
    belief, waiting = state.belief, state.open_step
    past, seen = belief.past, waiting.evidence
    arrays: tuple[NDArray[Any], ...] = (
        belief.implied,
        *belief.tried.settled,
        *belief.tried.recent,
        belief.estimate.sums,
        *(past.capability, past.booked, past.kept),
        *(seen.tasks, seen.successes, seen.failures, waiting.made_at),
    )
    return STATE_BYTES + sum(array.nbytes for array in arrays)
