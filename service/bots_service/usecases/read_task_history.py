"""GET history of a task: what each report of a run said of it."""

import asyncio
from dataclasses import dataclass

from bots_service.core.task_ids import TaskIds
from bots_service.engine.catch_up import CatchUp
from bots_service.engine.open_runs import OpenRun, OpenRuns
from bots_service.errors import UnknownTaskError
from bots_service.ports.journal import Journal, VisitsPage

SHOWN_IDS = 5  # enough to see what was meant


@dataclass(frozen=True, slots=True)
class ReadTaskHistory:
    """The reports of a task in a run's whole journal, those too that a rewind took out of its present history."""

    open_runs: OpenRuns
    catch_up: CatchUp
    journal: Journal

    async def __call__(self, dataset: str, run: str, task_id: str, before: int | None, limit: int) -> VisitsPage:
        """Return up to `limit` reports before this entry, None for the newest; a page may be empty and not the last.

        Raises:
            UnknownDatasetError, UnknownRunError, UnknownTaskError: one of the names is not known.
        """

        async def read(opened: OpenRun) -> VisitsPage:
            await self.catch_up.settled(opened)
            task = int(opened.dataset.ids.find([task_id])[0])
            if task < 0:
                ids = (await self.open_runs.fresh(dataset, run)).dataset.ids  # another replica may have appended it
                task = int(ids.find([task_id])[0])
                if task < 0:
                    raise UnknownTaskError(await asyncio.to_thread(unknown, task_id, dataset, ids))
            return await self.journal.visits(opened.row, task, before, limit)

        return await self.open_runs.using(dataset, run, read)


def unknown(task_id: str, dataset: str, ids: TaskIds) -> str:
    """Return what to say of an id that no task has: it names some ids that contain it."""
    near = ids.take(ids.containing(task_id)[:SHOWN_IDS])
    hint = f"these ids contain it: {', '.join(map(repr, near))}" if near else "search for a part of the id"
    return f"no task {task_id[:80]!r} in dataset {dataset!r}; {hint}"
