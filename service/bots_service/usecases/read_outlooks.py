"""GET outlooks: what the service expected of a run's pool as training went on."""

from dataclasses import dataclass

from bots_service.ports.outlooks import Outlooks, StoredOutlook
from bots_service.usecases.catch_up import CatchUp
from bots_service.usecases.open_run import OpenRun, OpenRuns


@dataclass(frozen=True, slots=True)
class ReadOutlooks:
    """Outlooks of a run's present history."""

    open_runs: OpenRuns
    catch_up: CatchUp
    outlooks: Outlooks

    async def __call__(self, dataset: str, run: str, points: int) -> list[StoredOutlook]:
        """Return at most `points` outlooks, in order.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """

        async def read(opened: OpenRun) -> list[StoredOutlook]:
            state = (await self.catch_up.current(opened)).state
            return await self.outlooks.read(opened.row, state.seq, points)

        return await self.open_runs.using(dataset, run, read)
