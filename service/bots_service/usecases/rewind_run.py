"""POST rewind: a trainer resumed from its checkpoint of an earlier step, so the belief goes back to that step too."""

from dataclasses import dataclass

from bots_service.core.entries import Rewind
from bots_service.errors import BusyError, StaleEpochError
from bots_service.ports.hot import Leases
from bots_service.ports.journal import Journal
from bots_service.ports.records import Draft, Once
from bots_service.usecases.catch_up import CatchUp
from bots_service.usecases.describe_run import DescribeRun, RunDescription
from bots_service.usecases.open_run import OpenRun, OpenRuns


@dataclass(frozen=True, slots=True)
class RewindRun:
    """Append a rewind. History stays; the epoch rises, so evidence from before is refused."""

    open_runs: OpenRuns
    journal: Journal
    catch_up: CatchUp
    leases: Leases
    describe: DescribeRun

    async def __call__(self, dataset: str, run: str, step: int, once: Once | None) -> tuple[RunDescription, bool]:
        """Return the run, and whether the same request was answered before.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
            UnknownStepError: the present history has no such step.
            KeyReusedError: the key came with another request before.
            BusyError: somebody else rewound the run at the same time.
        """
        return await self.open_runs.using(dataset, run, lambda opened: self._rewind(opened, step, once))

    async def _rewind(self, run: OpenRun, step: int, once: Once | None) -> tuple[RunDescription, bool]:
        # Nobody draws here meanwhile; what others draw from the state before, `take` refuses once this is published.
        live = self.catch_up.live(run.row.id)
        async with live.selecting:
            duplicate = await self._appended(run, step, once)
        return await self.describe.of(run), duplicate

    async def _appended(self, run: OpenRun, step: int, once: Once | None) -> bool:
        first = None if once is None else await self.journal.find(run.row, once)
        if first is not None:  # looked up before the step, which may have been rewound away since
            await self.catch_up.through(run, first.seq)
            return True
        # The epoch first: if somebody rewinds before the append, this one may lead to a step that is abandoned by then.
        epoch = (await self.catch_up.current(run)).state.epoch
        to_seq = await self.catch_up.closing(run, step)
        draft = Draft(Rewind(to_seq, step), run.dataset.pool.profiles, epoch, once)
        try:
            appended = await self.journal.append(run.row, draft)
        except StaleEpochError as error:
            message = f"run {run.row.name!r} was rewound by somebody else just now; look where it stands"
            raise BusyError(message) from error
        await self.catch_up.through(run, appended.entry.seq)
        if not appended.duplicate:
            await self.leases.forget(run.row)
        return appended.duplicate
