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
from bots_service.usecases.open_run import OpenRun, OpenRuns


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
        return await self.open_runs.using(dataset, run, lambda opened: self._change(opened, values, once))

    async def _change(self, run: OpenRun, values: dict[str, Any], once: Once | None) -> tuple[RunDescription, bool]:
        state = (await self.catch_up.current(run)).state
        if settings_from(values, base=state.settings).prior != state.settings.prior:
            raise fixed_prior()
        draft = Draft(SettingsChange(values), run.dataset.pool.profiles, once=once)
        appended = await self.journal.append(run.row, draft)
        await self.catch_up.through(run, appended.entry.seq)
        return await self.describe.of(run), appended.duplicate


def fixed_prior() -> InvalidSettingsError:
    """Return the refusal to change a prior: all beliefs of the run stand on it."""
    flaw = Flaw(("prior",), "the prior is fixed once a run exists; create another run with it")
    return InvalidSettingsError("the prior can't be changed", (flaw,))
