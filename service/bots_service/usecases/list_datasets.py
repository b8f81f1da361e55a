"""GET /datasets: those that the caller may know of."""

from dataclasses import dataclass

from bots_service.ports.catalog import Datasets
from bots_service.ports.records import DatasetRow
from bots_service.usecases.authenticate import Caller

BATCH = 500  # rows looked through at once where most may belong to others


@dataclass(frozen=True, slots=True)
class ListDatasets:
    """Datasets by name, without those that the caller's key doesn't reach."""

    datasets: Datasets

    async def __call__(self, caller: Caller, after: str, limit: int) -> list[DatasetRow]:
        """Return up to `limit` datasets, beginning behind the name `after`."""
        found: list[DatasetRow] = []
        asked, rows = limit, await self.datasets.after(after, limit)
        while True:
            found += [row for row in rows if caller.reaches(row.name)]
            if len(found) >= limit or len(rows) < asked:
                return found[:limit]
            asked, rows = BATCH, await self.datasets.after(rows[-1].name, BATCH)
