"""What is live: newest states and leases. Losing it loses nothing that was acknowledged.

One process keeps it in memory; replicas share it in Redis. Nothing here raises when a shared store is away: a process
then goes on by itself, and says so.
"""

from enum import Enum
from typing import Protocol

from bots_service.core.arrays import Tasks
from bots_service.core.state import RunState
from bots_service.ports.hot_records import Begun, Known, LeaseEnds, Published, Taken
from bots_service.ports.records import RunRow, Selection


class Reach(Enum):
    """Who can see what was published."""

    ALL = "all"
    """Every replica sees this state, or a newer one."""
    ALONE = "alone"
    """Only this process: the shared store is away."""
    OUTDATED = "outdated"
    """Nobody: since the mark was made the store lost something, or the dataset changed. Ask for the newest again."""


class States(Protocol):
    """The newest known state of each run."""

    def known(self, run: RunRow) -> Known | None:
        """Return the newest state that this process holds; others may have published a newer one."""
        ...

    async def created(self, run: RunRow) -> None:
        """Note that the run is new: a store that knows nothing of a run otherwise takes its leases for lost."""
        ...

    async def newest(self, run: RunRow) -> Published:
        """Return the newest published state.

        It has none if none can be trusted, for nobody published one, or the shared store was wiped, restarted, or is
        away, or this process has published none since the run's dataset changed: the run's head in SQL, read after this
        returns, then says what the newest state is, and how the dataset stands.
        """
        ...

    async def publish(self, run: RunRow, state: RunState, mark: str) -> Reach:
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

    async def begin(self, run: RunRow, known: Known, *, key: str | None) -> Begun:
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
        begun: Begun,
        *,
        seconds: float,
        key: str | None,
        fingerprint: str,
        reuse: bool,
    ) -> Taken:
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
