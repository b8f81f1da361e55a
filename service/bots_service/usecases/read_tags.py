"""Read what the last steps of a run showed, by tag."""

import asyncio
from dataclasses import dataclass

from bots_service.core.summary.tags import TagRow, tag_rows
from bots_service.engine.catch_up import CatchUp
from bots_service.engine.open_runs import OpenRun, OpenRuns
from bots_service.engine.step_evidence import ReadStepEvidence


@dataclass(frozen=True, slots=True)
class TagTable:
    """The tags of a run's pool over its last steps. first_step, last_step: of these; both 0 if no step closed."""

    first_step: int
    last_step: int
    tags: list[TagRow]


@dataclass(frozen=True, slots=True)
class ReadTags:
    """The tags with most tasks, over the last steps and compared with the steps before."""

    open_runs: OpenRuns
    catch_up: CatchUp
    step_evidence: ReadStepEvidence

    async def __call__(self, dataset: str, run: str, steps: int) -> TagTable:
        """Return the table over the last steps, at most so many.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """

        async def read(opened: OpenRun) -> TagTable:
            state = await self.catch_up.repair_receipts(opened)
            found = await self.step_evidence(opened, state, 2 * steps)
            last, earlier = found[-steps:], found[:-steps]
            pool = (await self.open_runs.matching(opened, state)).dataset.pool
            rows = await asyncio.to_thread(tag_rows, pool, last, earlier)
            return TagTable(last[0].step if last else 0, last[-1].step if last else 0, rows)

        return await self.open_runs.using(dataset, run, read)
