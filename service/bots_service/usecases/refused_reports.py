"""Count the reports that were refused as invalid, so that everybody who looks at the run sees it."""

from dataclasses import dataclass

from bots_service.engine.open_runs import OpenRun, OpenRuns
from bots_service.errors import InvalidInputError
from bots_service.ports.catalog import Runs

LONGEST_REASON = 300  # characters; a longer one is cut


@dataclass(frozen=True, slots=True)
class CountRefusedReport:
    """Count a refused report with its run, in SQL: a trainer trains on after a refusal, and nobody reads its log."""

    open_runs: OpenRuns
    runs: Runs

    async def __call__(self, dataset: str, run: str, error: InvalidInputError) -> None:
        """Count it, and keep the reason.

        Args:
            dataset: the run's.
            run: its name.
            error: why the report was refused.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """

        async def count(opened: OpenRun) -> None:
            await self.runs.note_refused_report(opened.row, reason_of(error))

        await self.open_runs.using(dataset, run, count)


def reason_of(error: InvalidInputError) -> str:
    """Return why a report was refused: the first flaw and its field, or the message of an error without flaws."""
    if not error.flaws:
        return str(error)[:LONGEST_REASON]
    flaw = error.flaws[0]
    is_of_field = isinstance(flaw.where[-1], str) and flaw.where[-1] != "body"
    place = f"{'.'.join(map(str, flaw.where[1:]))}: " if is_of_field else ""
    return f"{place}{flaw.what}"[:LONGEST_REASON]
