"""GET history: what each closed step brought."""

from dataclasses import dataclass

from bots_service.ports.journal import Journal
from bots_service.ports.records import StoredReceipt
from bots_service.usecases.catch_up import CatchUp
from bots_service.usecases.open_run import OpenRun, OpenRuns


@dataclass(frozen=True, slots=True)
class ReadHistory:
    """Closed steps of a run's present history, in order."""

    open_runs: OpenRuns
    catch_up: CatchUp
    journal: Journal

    async def __call__(self, dataset: str, run: str, after_step: int, limit: int) -> list[StoredReceipt]:
        """Return up to `limit` closed steps, beginning behind `after_step`.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """

        async def read(opened: OpenRun) -> list[StoredReceipt]:
            state = await self.catch_up.mend_receipts(opened)
            # What other replicas folded meanwhile is kept in any order: it would leave a hole before the last steps.
            steps = await self.journal.history(opened.row, after_step, limit)
            return [step for step in steps if step.receipt.seq <= state.seq]

        return await self.open_runs.using(dataset, run, read)
