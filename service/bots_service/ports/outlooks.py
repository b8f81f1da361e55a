"""What the service expected of a run's pool as training went on."""

from dataclasses import dataclass
from typing import Protocol

from bots_service.core.outlook import Outlook
from bots_service.ports.records import RunRow


@dataclass(frozen=True, slots=True)
class StoredOutlook:
    """What was expected when the service looked after entry `seq`, in step `step`.

    uniform_effective_task_ratio: the effective task ratio that uniform choice could expect;
    distribution: shares of the tasks by expected success probability, in equal bins, to 7 digits;
    created_at: when it looked, in seconds since 1970, UTC.
    """

    seq: int
    step: int
    uniform_effective_task_ratio: float
    distribution: tuple[float, ...]
    created_at: float


class Outlooks(Protocol):
    """Outlooks of runs. An observation, not the truth. Every method may raise StorageUnavailableError."""

    async def keep(self, run: RunRow, seq: int, step: int, outlook: Outlook) -> None:
        """Keep what is expected after entry `seq`; where something is kept for it, that stays.

        Raises:
            UnknownRunError: the run is gone.
        """
        ...

    async def read(self, run: RunRow, up_to: int, most: int) -> list[StoredOutlook]:
        """Return the outlooks of the present history up to entry `up_to`, in order: for each step the first.

        Where they are more than `most`, evenly spaced ones, with the first and the last; the last alone if one is
        wanted. A run that is gone has none.
        """
        ...
