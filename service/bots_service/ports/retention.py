"""What is old enough to go."""

from typing import Protocol

from bots_service.ports.records import RunRow


class Retention(Protocol):
    """Removes what is old, a little at a time, so that nobody waits long for it.

    Every method may raise StorageUnavailableError, and those that remove something BusyError: another replica is
    removing something just now.
    """

    async def coverable(self, run: RunRow, before: float) -> list[int]:
        """Return the seqs of stored states, newest first, whose entries are older than that and can go.

        Args:
            run: the run.
            before: seconds since 1970, UTC; an entry that is not older stays.
        """
        ...

    async def count(self, run: RunRow, seq: int) -> int:
        """Return how many entries up to `seq` would go."""
        ...

    async def cover(self, run: RunRow, seq: int) -> bool:
        """Let the journal begin behind `seq`, where a state is stored, from now on; say whether that could be.

        It can't where the run or the stored state is gone, an entry has no receipt, or a later rewind goes further
        back. The stored state is not thinned away any more.
        """
        ...

    async def drop_entries(self, run: RunRow) -> int:
        """Remove some entries before the beginning of the journal, and return how many; rewinds stay."""
        ...

    async def drop_answers(self, before: float) -> int:
        """Remove some kept answers that are older, and return how many."""
        ...

    async def drop_stages(self, before: float) -> int:
        """Remove some of what stages that are older hold, and return how many rows."""
        ...
