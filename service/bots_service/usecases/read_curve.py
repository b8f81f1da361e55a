"""GET curve: a run's history in few points, for charts."""

from dataclasses import dataclass

from bots_service.ports.journal import Journal
from bots_service.ports.records import CurvePoint
from bots_service.usecases.catch_up import CatchUp
from bots_service.usecases.open_run import OpenRun, OpenRuns


@dataclass(frozen=True, slots=True)
class ReadCurve:
    """Closed steps of a run's present history, some of them a point."""

    open_runs: OpenRuns
    catch_up: CatchUp
    journal: Journal

    async def __call__(self, dataset: str, run: str, points: int) -> list[CurvePoint]:
        """Return at most `points` points, in order; each stands for as many steps, but for the last one.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """

        async def read(opened: OpenRun) -> list[CurvePoint]:
            state = await self.catch_up.mend_receipts(opened)
            width = -(-(state.step - opened.row.origin_step) // points)
            return await self.journal.curve(opened.row, state.seq, max(width, 1))

        return await self.open_runs.using(dataset, run, read)
