"""GET leases: which tasks are in flight, and until when."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bots_service.core.task_sets import is_first
from bots_service.ports.hot import Leases
from bots_service.ports.hot_records import LeaseEnds
from bots_service.ports.records import OpenDataset
from bots_service.usecases.catch_up import CatchUp
from bots_service.usecases.open_run import OpenRun, OpenRuns

TOLD = 5  # ids of each group, unless more are wanted: enough to know a selection by


@dataclass(frozen=True, slots=True)
class LeaseGroup:
    """Tasks whose leases end together, as those of one selection do.

    expires_at: by this process's clock, in seconds since 1970, UTC.
    first: the ids of some of them, by index.
    """

    expires_at: float
    tasks: int
    first: list[str]


@dataclass(frozen=True, slots=True)
class ReadLeases:
    """Tasks in flight, by when their leases end.

    Whoever keeps the leases ends them by a clock of its own, Redis by that of its machine. It is asked how long each
    still lasts, so that a time told here is as right as this machine's clock, whatever that one says.
    """

    open_runs: OpenRuns
    catch_up: CatchUp
    leases: Leases
    clock: Callable[[], float] = time.time

    async def __call__(self, dataset: str, run: str, limit: int, told: int = TOLD) -> tuple[int, list[LeaseGroup]]:
        """Return how many tasks are in flight, and up to `limit` groups of them, those that end soonest first.

        Each group names up to `told` of its tasks.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """

        async def read(opened: OpenRun) -> tuple[int, list[LeaseGroup]]:
            await self.catch_up.newest_or_known(opened)  # notices where another replica replaced the run
            leased = await self.leases.ends(opened.row)
            now = self.clock()
            known = (await self.open_runs.knowing(opened, leased.tasks)).dataset
            return len(leased.tasks), grouped(leased, known, now, limit, told)

        return await self.open_runs.using(dataset, run, read)


def grouped(leased: LeaseEnds, dataset: OpenDataset, now: float, limit: int, told: int = TOLD) -> list[LeaseGroup]:
    """Return up to `limit` groups of tasks whose leases end together, those that end soonest first."""
    order = np.argsort(leased.left_s, kind="stable")
    tasks, left_s = leased.tasks[order], leased.left_s[order]
    begins = np.flatnonzero(is_first(left_s))
    sizes = np.diff(begins, append=len(tasks))
    return [
        LeaseGroup(now + float(left_s[begin]), size, dataset.ids.take(tasks[begin : begin + min(size, told)]))
        for begin, size in zip(begins[:limit].tolist(), sizes[:limit].tolist(), strict=True)
    ]
