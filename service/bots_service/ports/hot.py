"""What lives only while the service runs: newest states and leases. Losing it loses nothing that was acknowledged."""

from typing import Protocol

from bots_service.core.arrays import Tasks
from bots_service.core.state import RunState
from bots_service.ports.records import Begun, RunRow, Selection


class States(Protocol):
    """The newest known state of each run."""

    async def newest(self, run: RunRow) -> RunState | None:
        """Return the newest published state, None if none is known."""
        ...

    async def publish(self, run: RunRow, state: RunState) -> None:
        """Make a state known, unless one with a greater seq is."""
        ...

    async def forget(self, run: RunRow) -> None:
        """Forget the run's state."""
        ...


class Leases(Protocol):
    """Tasks in flight, and selections by their idempotency key."""

    async def begin(self, run: RunRow, *, seq: int, key: str | None) -> Begun:
        """Return what a selection of this run at this seq starts from, and count it unless its key is known."""
        ...

    async def take(
        self, run: RunRow, selection: Selection, *, seconds: float, key: str | None, fingerprint: str, reuse: bool
    ) -> Tasks:
        """Lease the selection's tasks, all or none, and remember it under its key.

        Returns:
            The tasks that someone else leased meanwhile; if there are any and `reuse` is false, nothing was leased.

        Raises:
            BusyError: a selection was remembered under this key meanwhile; `begin` now returns it.
        """
        ...

    async def release(self, run: RunRow, tasks: Tasks) -> None:
        """End the leases of these tasks; those that have none are fine."""
        ...

    async def leased(self, run: RunRow) -> Tasks:
        """Return the tasks in flight, sorted."""
        ...

    async def forget(self, run: RunRow) -> None:
        """End all leases of the run."""
        ...
