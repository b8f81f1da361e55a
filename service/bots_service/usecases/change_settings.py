"""PATCH a run: other settings from the next step on, written to the journal."""

from dataclasses import dataclass
from typing import Any

from bots_service.core.entries import SettingsChange
from bots_service.core.run_settings import settings_from
from bots_service.errors import Flaw, InvalidSettingsError
from bots_service.ports.journal import Journal
from bots_service.ports.records import Draft, Once
from bots_service.usecases.catch_up import CatchUp
from bots_service.usecases.describe_run import DescribeRun, RunDescription
from bots_service.usecases.open_run import OpenRuns


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """Change some settings of a run; the others stay."""

    open_runs: OpenRuns
    journal: Journal
    catch_up: CatchUp
    describe: DescribeRun

    async def __call__(
        self, dataset: str, run: str, values: dict[str, Any], once: Once | None
    ) -> tuple[RunDescription, bool]:
        """Return the run, and whether the same request was answered before.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
            InvalidSettingsError: a setting is out of range, or the prior would change.
            KeyReusedError: the key came with another request before.
        """
        opened = await self.open_runs(dataset, run)
        async with self.catch_up.live(opened.row.id).changing:
            state = await self.catch_up.current(opened)
            settings = settings_from(values, base=state.settings)
            if settings.prior != state.settings.prior:
                raise fixed_prior()
            draft = Draft(SettingsChange(settings), opened.dataset.pool.profiles, once=once)
            appended = await self.journal.append(opened.row, draft)
            await self.catch_up.through(opened, appended.entry.seq)
        return await self.describe.of(opened), appended.duplicate


def fixed_prior() -> InvalidSettingsError:
    """Return the refusal to change a prior: all beliefs of the run stand on it."""
    flaw = Flaw(("prior",), "the prior is fixed once a run exists; create another run with it")
    return InvalidSettingsError("the prior can't be changed", (flaw,))
