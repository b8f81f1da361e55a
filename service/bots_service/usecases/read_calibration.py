"""GET calibration: how belief and reality agreed of late."""

from dataclasses import dataclass

import numpy as np

from bots_service.core.receipt import BINS, Calibration
from bots_service.ports.journal import Journal
from bots_service.usecases.catch_up import CatchUp
from bots_service.usecases.open_run import OpenRun, OpenRuns


@dataclass(frozen=True, slots=True)
class ReadCalibration:
    """What was predicted before each of the last steps beside what came, by bins."""

    open_runs: OpenRuns
    catch_up: CatchUp
    journal: Journal

    async def __call__(self, dataset: str, run: str, steps: int) -> tuple[int, Calibration]:
        """Return of how many steps it is, and the sums over them.

        Steps without outcomes, and those that an older version of the service closed, tell nothing of predictions.

        Args:
            dataset: the run's.
            run: its name.
            steps: the most recent ones of the present history, at most so many.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """

        async def read(opened: OpenRun) -> tuple[int, Calibration]:
            state = await self.catch_up.mend_receipts(opened)
            stored = await self.journal.history(opened.row, max(0, state.step - steps), steps)
            shown = [found.receipt.calibration for found in stored if found.receipt.calibration is not None]
            return len(shown), added(shown)

        return await self.open_runs.using(dataset, run, read)


def added(several: list[Calibration]) -> Calibration:
    """Return the sums of several."""
    rows = [(one.rollouts, one.predicted, one.solved) for one in several]
    sums = np.array(rows).sum(axis=0) if rows else np.zeros((3, BINS))
    return Calibration(*(tuple(each) for each in sums.tolist()))
