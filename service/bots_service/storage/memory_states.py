"""The newest state of each run, decoded, in this process's memory."""

from collections import OrderedDict
from typing import Any

from numpy.typing import NDArray

from bots_service.core.state import RunState
from bots_service.ports.records import RunRow

STATE_BYTES = 4096  # of a state without its arrays, about


class MemoryStates:
    """A States. Where memory is short, the states of runs that nobody asked for longest go first."""

    def __init__(self, capacity_bytes: int) -> None:
        """Keep states within a number of bytes; the one published last stays, however large it is."""
        self._capacity_bytes = capacity_bytes
        self._bytes = 0
        self._states: OrderedDict[str, RunState] = OrderedDict()

    async def newest(self, run: RunRow) -> RunState | None:
        """Return the newest published state, None if none is known."""
        state = self._states.get(run.uid)
        if state is not None:
            self._states.move_to_end(run.uid)
        return state

    async def publish(self, run: RunRow, state: RunState) -> None:
        """Make a state known, unless one with a greater seq is."""
        known = self._states.get(run.uid)
        if known is not None and known.seq >= state.seq:
            return
        self._drop(run.uid)
        self._states[run.uid] = state
        self._bytes += nbytes(state)
        while self._bytes > self._capacity_bytes and len(self._states) > 1:
            self._drop(next(iter(self._states)))

    async def forget(self, run: RunRow) -> None:
        """Forget the run's state."""
        self._drop(run.uid)

    def _drop(self, uid: str) -> None:
        state = self._states.pop(uid, None)
        if state is not None:
            self._bytes -= nbytes(state)


def nbytes(state: RunState) -> int:
    """Return about how much memory a state takes."""
    belief, waiting = state.belief, state.open_step
    past, seen = belief.past, waiting.evidence
    arrays: tuple[NDArray[Any], ...] = (
        belief.implied,
        *belief.tried.settled,
        *belief.tried.recent,
        *(past.capability, past.booked, past.kept),
        *(seen.tasks, seen.successes, seen.failures, waiting.made_at),
    )
    return STATE_BYTES + sum(array.nbytes for array in arrays)
