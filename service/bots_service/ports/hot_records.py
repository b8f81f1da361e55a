"""The small values that cross the ports of what is live."""

from dataclasses import dataclass

from bots_service.core.arrays import Floats, Tasks
from bots_service.core.state import RunState
from bots_service.ports.records import Selection


@dataclass(frozen=True, slots=True)
class Published:
    """A run's newest state as the hot store has it, None if it has none that can be trusted.

    mark: names the time since which the store lost nothing; goes back to it with the next state.
    """

    state: RunState | None
    mark: str


@dataclass(frozen=True, slots=True)
class Begun:
    """What a selection starts from.

    ordinal: how many selections were made from this state before.
    leased: sorted tasks in flight.
    turn: counts the changes of the run's leases.
    degraded: other replicas can't be asked, and won't know of this selection.
    previous: the selection that was made under the same key, with its request's fingerprint.
    """

    ordinal: int
    leased: Tasks
    turn: int = 0
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
    stale: a newer state was published, or the state can no longer be trusted.
    """

    selection: Selection | None = None
    previous: tuple[str, Selection] | None = None
    stale: bool = False
