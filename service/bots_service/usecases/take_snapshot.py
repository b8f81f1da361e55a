"""POST and GET snapshots: stored states, made on demand."""

from dataclasses import dataclass

from bots_service.ports.journal import Snapshots
from bots_service.ports.records import KeptAnswer, SnapshotRow
from bots_service.usecases.catch_up import CatchUp
from bots_service.usecases.open_run import OpenRun, OpenRuns
from bots_service.usecases.save_snapshot import SaveSnapshot


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Store the run's state as it stands, and list what is stored."""

    open_runs: OpenRuns
    catch_up: CatchUp
    snapshots: Snapshots
    save: SaveSnapshot

    async def __call__(self, dataset: str, run: str, keep: KeptAnswer[SnapshotRow] | None) -> SnapshotRow:
        """Return the snapshot; it is not thinned away.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """

        async def store(opened: OpenRun) -> SnapshotRow:
            newest = await self.catch_up.newest(opened)
            return await self.save(opened.row, newest.state, wanted=True, keep=keep)

        return await self.open_runs.using(dataset, run, store)

    async def page(self, dataset: str, run: str, after: int, limit: int) -> list[SnapshotRow]:
        """Return up to `limit` snapshots by seq, beginning behind `after`."""
        opened = await self.open_runs.fresh(dataset, run)
        return await self.snapshots.after(opened.row, after, limit)
