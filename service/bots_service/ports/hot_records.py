"""The small values that cross the ports of what is live."""

from dataclasses import dataclass

from bots_service.core.arrays import Floats, Tasks
from bots_service.core.state import RunState
from bots_service.ports.records import Selection

NO_MARK = ""  # where the store could not be asked; nothing can be published with it


@dataclass(frozen=True, slots=True)
class Published:
    """A run's newest state as the hot store has it, None if it has none that can be trusted.

    mark: names the time since which the store lost nothing and was told of every change of the run's dataset; goes
    back to it with the next state. NO_MARK if the store can't be asked.
    """

    state: RunState | None
    mark: str


@dataclass(frozen=True, slots=True)
class Known:
    """A run's state, as a process goes on from it.

    mark: under which it was published; NO_MARK if other replicas can't see it, or nobody can say whether it is the
    newest.
    """

    state: RunState
    mark: str

    @property
    def degraded(self) -> bool:
        """Whether other replicas may know a newer state, or not know this one."""
        return self.mark == NO_MARK


@dataclass(frozen=True, slots=True)
class Begun:
    """What a selection starts from.

    ordinal: of this selection among those made from this state; no other has the same.
    leased: sorted tasks in flight.
    turn: counts the changes of the run's leases.
    mark: of the state.
    alone: other replicas can't be asked, and won't know of this selection.
    degraded: others may be working on the same tasks, for the selection is made alone, or leases were lost lately.
    previous: the selection that was made under the same key, with its request's fingerprint.
    """

    ordinal: int
    leased: Tasks
    turn: int = 0
    mark: str = NO_MARK
    alone: bool = False
    degraded: bool = False
    previous: tuple[str, Selection] | None = None


@dataclass(frozen=True, slots=True)
class LeaseEnds:
    """The tasks in flight.

    tasks: sorted.
    left_s: seconds until the lease of each ends, above 0, by the clock of whoever ends it; the same for tasks that were
    leased together.
    """

    tasks: Tasks
    left_s: Floats


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a selection.

    selection: the one that is leased now, None if none is: begin again.
    previous: the selection that was made under the same key meanwhile, with its request's fingerprint.
    stale: a newer state was published, the dataset changed, or the store lost something: ask for the newest state.
    """

    selection: Selection | None = None
    previous: tuple[str, Selection] | None = None
    stale: bool = False
