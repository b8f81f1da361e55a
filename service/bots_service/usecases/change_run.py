"""Change a run that has a journal: its settings, its step, its stored states."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from bots_service.core.draw.generators import STRATEGIES_OF_GENERATORS, not_for_generators
from bots_service.core.entries import GuardDecision, Rewind, SettingsChange
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings, fixed_flaws, settings_asked
from bots_service.engine.catch_up import CatchUp
from bots_service.engine.open_runs import OpenRun, OpenRuns
from bots_service.engine.replay import SaveSnapshot
from bots_service.errors import BusyError, Flaw, InvalidSettingsError, NothingToDecideError, StaleEpochError
from bots_service.ports.catalog import Answers
from bots_service.ports.hot import Leases
from bots_service.ports.journal import Journal, Snapshots
from bots_service.ports.records import IdempotencyKey, NewEntry, SnapshotRow
from bots_service.usecases.describe import DescribeRun, RunDescription


class ChangeRunResult(NamedTuple):
    """A run after a change. duplicate: the same request had changed it before."""

    run: RunDescription
    duplicate: bool


@dataclass(frozen=True, slots=True)
class ChangeSettings:
    """Change some settings of a run; the others stay."""

    open_runs: OpenRuns
    journal: Journal
    catch_up: CatchUp
    answers: Answers
    describe: DescribeRun

    async def __call__(
        self, dataset: str, run: str, values: dict[str, Any], idempotency_key: IdempotencyKey | None
    ) -> ChangeRunResult:
        """Return the run.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
            InvalidSettingsError: a setting is out of range, the mix names a tag that no task carries, the strategy is
                none for generators, or belief or prior would change.
            KeyReusedError: the key came with another request before.
        """
        return await self.open_runs.using(dataset, run, lambda opened: self._change(opened, values, idempotency_key))

    async def _change(
        self, run: OpenRun, values: dict[str, Any], idempotency_key: IdempotencyKey | None
    ) -> ChangeRunResult:
        state = (await self.catch_up.current(run)).state
        settings = settings_asked(values, base=state.settings)
        require_fixed(settings, state.settings)
        if "mix" in values:  # another replica may have appended the first tasks with a tag
            fresh = await self.open_runs.fresh(run.dataset.row.name, run.row.name)
            require_known_tags(settings, fresh.dataset.pool)
        require_strategy(settings, run.dataset.pool)
        new_entry = NewEntry(SettingsChange(values), run.dataset.pool.profiles, idempotency_key=idempotency_key)
        appended = await self.journal.append(run.row, new_entry)
        await self.catch_up.through(run, appended.entry.seq)
        result = ChangeRunResult(await self.describe.of(run), duplicate=False)
        return (await self.answers.keep(idempotency_key, result))._replace(duplicate=appended.duplicate)


def require_fixed(settings: RunSettings, base: RunSettings) -> None:
    """Raise InvalidSettingsError if settings would change that a run's state is built on."""
    flaws = fixed_flaws(settings, base)
    if flaws:
        raise InvalidSettingsError("these settings can't be changed", flaws)


def require_known_tags(settings: RunSettings, pool: Pool) -> None:
    """Raise InvalidSettingsError if the mix names a tag that no task carries."""
    flaws = tuple(Flaw(("mix", tag), f"no task has the tag {tag!r}") for tag in settings.mix if tag not in pool.tags)
    if flaws:
        raise InvalidSettingsError("these settings can't be used with this dataset", flaws)


def require_strategy(settings: RunSettings, pool: Pool) -> None:
    """Raise InvalidSettingsError if the tasks are generators and the strategy is none for them."""
    if pool.generators and settings.strategy not in STRATEGIES_OF_GENERATORS:
        flaw = Flaw(("strategy",), not_for_generators(settings.strategy))
        raise InvalidSettingsError("these settings can't be used with this dataset", (flaw,))


@dataclass(frozen=True, slots=True)
class DecideHeldGroups:
    """Append a decision about alarms of the verifier guard and the groups that wait because of them."""

    open_runs: OpenRuns
    journal: Journal
    catch_up: CatchUp
    answers: Answers
    describe: DescribeRun

    async def __call__(
        self, dataset: str, run: str, decision: GuardDecision, idempotency_key: IdempotencyKey | None
    ) -> ChangeRunResult:
        """Return the run.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
            NothingToDecideError: no such alarm stands.
            KeyReusedError: the key came with another request before.
        """
        return await self.open_runs.using(dataset, run, lambda opened: self._decide(opened, decision, idempotency_key))

    async def _decide(
        self, run: OpenRun, decision: GuardDecision, idempotency_key: IdempotencyKey | None
    ) -> ChangeRunResult:
        first = None if idempotency_key is None else await self.journal.find(run.row, idempotency_key)
        state = (await self.catch_up.current(run)).state
        stand = [alarm.tag for alarm in state.guard.alarms]
        if first is None and (not stand if decision.tag is None else decision.tag not in stand):
            whose = "no alarm" if decision.tag is None else f"no alarm about the tag {decision.tag!r}"
            raise NothingToDecideError(f"{whose} of the verifier guard stands in run {run.row.name!r}")
        entry = NewEntry(decision, run.dataset.pool.profiles, idempotency_key=idempotency_key)
        appended = await self.journal.append(run.row, entry)
        await self.catch_up.through(run, appended.entry.seq)
        result = ChangeRunResult(await self.describe.of(run), duplicate=False)
        return (await self.answers.keep(idempotency_key, result))._replace(duplicate=appended.duplicate)


@dataclass(frozen=True, slots=True)
class RewindRun:
    """Append a rewind. History stays; the epoch rises, so evidence from before is refused."""

    open_runs: OpenRuns
    journal: Journal
    catch_up: CatchUp
    leases: Leases
    answers: Answers
    describe: DescribeRun

    async def __call__(
        self, dataset: str, run: str, step: int, idempotency_key: IdempotencyKey | None
    ) -> ChangeRunResult:
        """Return the run.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
            UnknownStepError: the present history has no such step.
            KeyReusedError: the key came with another request before.
            BusyError: somebody else rewound the run at the same time.
        """
        return await self.open_runs.using(dataset, run, lambda opened: self._rewind(opened, step, idempotency_key))

    async def _rewind(self, run: OpenRun, step: int, key: IdempotencyKey | None) -> ChangeRunResult:
        # Nobody draws here meanwhile; what others draw from the state before, `take` refuses once this is published.
        live = self.catch_up.live(run.row.id)
        async with live.selecting:
            duplicate = await self._appended(run, step, key)
        result = ChangeRunResult(await self.describe.of(run), duplicate=False)
        return (await self.answers.keep(key, result))._replace(duplicate=duplicate)

    async def _appended(self, run: OpenRun, step: int, key: IdempotencyKey | None) -> bool:
        first = None if key is None else await self.journal.find(run.row, key)
        if first is not None:  # looked up before the step, which may have been rewound away since
            await self.catch_up.through(run, first.seq)
            return True
        # The epoch first: if somebody rewinds before the append, this one may lead to a step that is abandoned by then.
        epoch = (await self.catch_up.current(run)).state.epoch
        to_seq = await self.catch_up.closing(run, step)
        new_entry = NewEntry(Rewind(to_seq, step), run.dataset.pool.profiles, epoch, key)
        try:
            appended = await self.journal.append(run.row, new_entry)
        except StaleEpochError as error:
            message = f"run {run.row.name!r} was rewound by somebody else just now; look where it stands"
            raise BusyError(message) from error
        await self.catch_up.through(run, appended.entry.seq)
        if not appended.duplicate:
            await self.leases.clear(run.row)
        return appended.duplicate


@dataclass(frozen=True, slots=True)
class TakeSnapshot:
    """Store the run's state as it stands, and list what is stored."""

    open_runs: OpenRuns
    catch_up: CatchUp
    snapshots: Snapshots
    save: SaveSnapshot

    async def __call__(self, dataset: str, run: str, idempotency_key: IdempotencyKey | None) -> SnapshotRow:
        """Return the snapshot; it is not thinned away.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """

        async def store(opened: OpenRun) -> SnapshotRow:
            newest = await self.catch_up.newest(opened)
            return await self.save(opened.row, newest.state, wanted=True, idempotency_key=idempotency_key)

        return await self.open_runs.using(dataset, run, store)

    async def page(self, dataset: str, run: str, after: int, limit: int) -> list[SnapshotRow]:
        """Return up to `limit` snapshots by seq, beginning behind `after`."""
        opened = await self.open_runs.fresh(dataset, run)
        return await self.snapshots.after(opened.row, after, limit)
