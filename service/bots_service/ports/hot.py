"""The hot store: newest states, leases, and selections by idempotency key. Losing it loses nothing acknowledged."""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from bots_service.core.arrays import Floats, Tasks
from bots_service.core.state import RunState
from bots_service.ports.records import RunRow, Selection

NO_TOKEN = ""  # where the store could not be asked; nothing can be published with it


@dataclass(frozen=True, slots=True)
class PublishedState:
    """A run's newest state as the hot store has it, None if it has none that can be trusted.

    mark: names the time since which the store lost nothing and was told of every change of the run's dataset; goes
    back to it with the next state. NO_MARK if the store can't be asked.
    """

    state: RunState | None
    mark: str


@dataclass(frozen=True, slots=True)
class KnownState:
    """A run's state, as a process goes on from it.

    mark: under which it was published; NO_MARK if other replicas can't see it, or nobody can say whether it is the
    newest.
    """

    state: RunState
    mark: str

    @property
    def degraded(self) -> bool:
        """Whether other replicas may know a newer state, or not know this one."""
        return self.mark == NO_TOKEN


@dataclass(frozen=True, slots=True)
class LeaseTicket:
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
    mark: str = NO_TOKEN
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
class LeaseResult:
    """What became of a selection.

    selection: the one that is leased now, None if none is: begin again.
    previous: the selection that was made under the same key meanwhile, with its request's fingerprint.
    stale: a newer state was published, the dataset changed, or the store lost something: ask for the newest state.
    """

    selection: Selection | None = None
    previous: tuple[str, Selection] | None = None
    stale: bool = False


class PublishResult(Enum):
    """Who can see what was published."""

    ALL = "all"
    """Every replica sees this state, or a newer one."""
    ALONE = "alone"
    """Only this process: the shared store is away."""
    SUPERSEDED = "superseded"
    """Nobody, but no replica goes on from an older state: since the mark was made the store lost something, or the
    dataset changed, so that each asks SQL first. It finds there whatever was committed before the mark was made."""
    OUTDATED = "outdated"
    """Nobody: since the mark was made this process lost sight of the store. Ask for the newest again."""


class States(Protocol):
    """The newest known state of each run."""

    def known(self, run: RunRow) -> KnownState | None:
        """Return the newest state that this process holds; others may have published a newer one."""
        ...

    async def created(self, run: RunRow) -> None:
        """Note that the run is new: a store that knows nothing of a run otherwise takes its leases for lost."""
        ...

    async def newest(self, run: RunRow) -> PublishedState:
        """Return the newest published state.

        It has none if none can be trusted, for nobody published one, or the shared store was wiped, restarted, or is
        away, or this process has published none since the run's dataset changed: the run's head in SQL, read after this
        returns, then says what the newest state is, and how the dataset stands.
        """
        ...

    async def publish(self, run: RunRow, state: RunState, mark: str) -> PublishResult:
        """Make a state known, unless one with a greater (epoch, seq) is.

        Args:
            run: the run.
            state: its state, with everything in it that was committed when the mark was made.
            mark: of what `newest` or `known` returned before the run's head was read.
        """
        ...

    async def doubt(self, run: RunRow) -> None:
        """Make every process ask SQL before it goes on with the run: its dataset is no longer what they know."""
        ...

    async def forget(self, run: RunRow) -> None:
        """Forget the run's state, here and everywhere: the run is gone."""
        ...


class Leases(Protocol):
    """Tasks in flight, and selections by their idempotency key."""

    async def begin(self, run: RunRow, known: KnownState, *, key: str | None) -> LeaseTicket:
        """Return what a selection from this state starts from.

        A shared store may answer from memory what is no longer so; `take` then refuses the selection.

        Args:
            run: the run.
            known: what the selection will be drawn from, known before its dataset was looked at; with NO_MARK the tasks
                are leased in this process only.
            key: the idempotency key.
        """
        ...

    async def take(
        self,
        run: RunRow,
        selection: Selection,
        begun: LeaseTicket,
        *,
        seconds: float,
        key: str | None,
        fingerprint: str,
        reuse: bool,
    ) -> LeaseResult:
        """Lease the selection's tasks, all or none, and remember it under its key.

        Args:
            run: the run.
            selection: what was drawn.
            begun: what it was drawn from.
            seconds: how long the leases last.
            key: the idempotency key.
            fingerprint: of the request that came with the key.
            reuse: lease tasks again that `begun` says are on lease, for they are wanted first or too few others are
                left; a task that was leased since is still refused.
        """
        ...

    async def release(self, run: RunRow, tasks: Tasks) -> None:
        """End the leases of these tasks; those that have none are fine."""
        ...

    async def leased(self, run: RunRow) -> Tasks:
        """Return the tasks in flight, sorted."""
        ...

    async def ends(self, run: RunRow) -> LeaseEnds:
        """Return the tasks in flight, and when the lease of each ends."""
        ...

    async def remembered(self, run: RunRow, key: str | None) -> tuple[str, Selection] | None:
        """Return the selection that was made under a key, with its request's fingerprint; None if none is known."""
        ...

    async def forget(self, run: RunRow) -> None:
        """End all leases of the run, and forget its selections."""
        ...
