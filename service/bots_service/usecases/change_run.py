"""Change a run that has a journal: its settings, its step, its stored states."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bots_service.core.arrays import frozen
from bots_service.core.entries import Body, Forget, Rewind, SettingsChange
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings, settings_asked
from bots_service.core.state import RunState
from bots_service.engine.catch_up import CatchUp
from bots_service.engine.open_runs import OpenRun, OpenRuns
from bots_service.engine.replay import SaveSnapshot
from bots_service.errors import BusyError, Flaw, InvalidSettingsError, InvalidTasksError
from bots_service.ports.catalog import Answers
from bots_service.ports.hot import Leases
from bots_service.ports.journal import Journal, Snapshots
from bots_service.ports.records import AppendResult, IdempotencyKey, NewEntry, SnapshotRow
from bots_service.usecases.describe import DescribeRun, RunDescription

ATTEMPTS = 10  # at one change; each fails only if another change of the same run was committed within milliseconds


class ChangeRunResult(NamedTuple):
    """A run after a change. duplicate: the same request had changed it before."""

    run: RunDescription
    duplicate: bool


@dataclass(frozen=True, slots=True)
class ChangeRun:
    """Change a run's settings, forget tasks, or rewind it.

    A change is checked against the newest state and appended only if no other change came in between; otherwise it is
    checked again. Two changes at once come to what they would come to one after the other.
    """

    open_runs: OpenRuns
    journal: Journal
    catch_up: CatchUp
    leases: Leases
    answers: Answers
    describe: DescribeRun

    async def change_settings(
        self, dataset: str, run: str, values: dict[str, Any], idempotency_key: IdempotencyKey | None
    ) -> ChangeRunResult:
        """Change some settings; the others stay.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
            InvalidSettingsError: a setting is out of range, the mix names a tag that no task carries, or belief or
                prior would change.
            KeyReusedError: the key came with another request before.
            BusyError: other changes came in between, again and again.
        """

        async def change(opened: OpenRun) -> ChangeRunResult:
            async def checked(state: RunState) -> SettingsChange:
                settings = settings_asked(values, base=state.settings)
                if "mix" in values:  # another replica may have appended the first tasks with a tag
                    fresh = await self.open_runs.fresh(dataset, run)
                    require_known_tags(settings, fresh.dataset.pool)
                return SettingsChange(values)

            return await self._result(opened, await self._append(opened, checked, idempotency_key), idempotency_key)

        return await self.open_runs.using(dataset, run, change)

    async def forget_tasks(
        self, dataset: str, run: str, tasks: list[str], idempotency_key: IdempotencyKey | None
    ) -> ChangeRunResult:
        """Forget what the run knows of some tasks alone, because they are other tasks now.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
            InvalidTasksError: the dataset has no such task.
            KeyReusedError: the key came with another request before.
            BusyError: other changes came in between, again and again.
        """

        async def forget(opened: OpenRun) -> ChangeRunResult:
            if (found := opened.dataset.ids.find(tasks)).min(initial=0) < 0:
                opened = await self.open_runs.fresh(dataset, run)  # another replica may have appended them just now
                found = opened.dataset.ids.find(tasks)
            flaws = [
                Flaw(("body", "tasks", place), f"no task {tasks[place][:80]!r}")
                for place in np.flatnonzero(found < 0).tolist()
            ]
            if flaws:
                raise InvalidTasksError(f"dataset {dataset!r} has no such tasks", tuple(flaws[:20]))

            async def checked(_: RunState) -> Forget:
                return Forget(frozen(np.unique(found)))

            return await self._result(opened, await self._append(opened, checked, idempotency_key), idempotency_key)

        return await self.open_runs.using(dataset, run, forget)

    async def rewind(
        self, dataset: str, run: str, step: int, idempotency_key: IdempotencyKey | None
    ) -> ChangeRunResult:
        """Go back to an earlier step. History stays; the epoch rises, so evidence from before is refused.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
            UnknownStepError: the present history has no such step.
            KeyReusedError: the key came with another request before.
            BusyError: other changes came in between, again and again.
        """

        async def rewind(opened: OpenRun) -> ChangeRunResult:
            async def checked(_: RunState) -> Rewind:
                return Rewind(await self.catch_up.closing(opened, step), step)

            # Nobody draws here meanwhile. Once this is published, `take` refuses what others drew from an older state.
            async with self.catch_up.live(opened.row.id).selecting:
                appended = await self._append(opened, checked, idempotency_key)
                if not appended.duplicate:
                    await self.leases.clear(opened.row)
            return await self._result(opened, appended, idempotency_key)

        return await self.open_runs.using(dataset, run, rewind)

    async def _append(
        self, run: OpenRun, checked: Callable[[RunState], Awaitable[Body]], key: IdempotencyKey | None
    ) -> AppendResult:
        """Append a change and fold it; under a key that is known, return the change that was appended first.

        Args:
            run: the run.
            checked: returns the entry's body, or raises why the state does not allow the change.
            key: the request's.
        """
        attempts = 0
        while True:
            state = (await self.catch_up.current(run)).state
            # Before the check: what was allowed at first need not be now.
            first = None if key is None else await self.journal.find(run.row, key)
            if first is not None:
                await self.catch_up.through(run, first.seq)
                return AppendResult(first, duplicate=True)
            body = await checked(state)
            new_entry = NewEntry(body, run.dataset.pool.profiles, idempotency_key=key, checked_at=state.seq)
            try:
                appended = await self.journal.append(run.row, new_entry)
            except BusyError:
                attempts += 1
                if attempts == ATTEMPTS:
                    raise
            else:
                await self.catch_up.through(run, appended.entry.seq)
                return appended

    async def _result(self, run: OpenRun, appended: AppendResult, key: IdempotencyKey | None) -> ChangeRunResult:
        result = ChangeRunResult(await self.describe.of(run), duplicate=False)
        return (await self.answers.keep(key, result))._replace(duplicate=appended.duplicate)


def require_known_tags(settings: RunSettings, pool: Pool) -> None:
    """Raise InvalidSettingsError if the mix names a tag that no task carries."""
    flaws = tuple(Flaw(("mix", tag), f"no task has the tag {tag!r}") for tag in settings.mix if tag not in pool.tags)
    if flaws:
        raise InvalidSettingsError("these settings can't be used with this dataset", flaws)


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
