"""GET journal: everything that ever changed a run, the newest first."""

from dataclasses import dataclass

from bots_service.ports.journal import Journal
from bots_service.ports.journal_records import LoggedEntry
from bots_service.usecases.catch_up import CatchUp
from bots_service.usecases.open_run import OpenRun, OpenRuns


@dataclass(frozen=True, slots=True)
class ReadJournal:
    """Entries of a run's whole journal, those too that a rewind took out of its present history."""

    open_runs: OpenRuns
    catch_up: CatchUp
    journal: Journal

    async def __call__(self, dataset: str, run: str, before: int | None, limit: int) -> list[LoggedEntry]:
        """Return up to `limit` entries before this one, None for the newest; pruned ones are not there.

        Who watches a run asks every few seconds, so receipts that a crash kept from SQL are not looked for. Entries
        without one have no step until a history is read.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """

        async def read(opened: OpenRun) -> list[LoggedEntry]:
            await self.catch_up.settled(opened)
            return await self.journal.before(opened.row, before, limit)

        return await self.open_runs.using(dataset, run, read)
