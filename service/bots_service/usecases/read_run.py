"""Read what a run did: history, curve, calibration, outlooks, journal, leases."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bots_service.core.arrays import is_first
from bots_service.core.receipt import Calibration, added
from bots_service.engine.catch_up import CatchUp
from bots_service.engine.open_runs import OpenRun, OpenRuns
from bots_service.ports.history import Outlooks, StoredOutlook
from bots_service.ports.hot import Leases, LeaseTtls
from bots_service.ports.journal import EntryKind, Journal, LoggedEntry
from bots_service.ports.records import CurvePoint, OpenDataset, StoredReceipt


@dataclass(frozen=True, slots=True)
class ReadHistory:
    """Closed steps of a run's present history, in order."""

    open_runs: OpenRuns
    catch_up: CatchUp
    journal: Journal

    async def __call__(self, dataset: str, run: str, after_step: int, limit: int) -> list[StoredReceipt]:
        """Return up to `limit` closed steps, beginning behind `after_step`.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """

        async def read(opened: OpenRun) -> list[StoredReceipt]:
            state = await self.catch_up.repair_receipts(opened)
            # What other replicas folded meanwhile is kept in any order: it would leave a hole before the last steps.
            steps = await self.journal.history(opened.row, after_step, limit)
            return [step for step in steps if step.receipt.seq <= state.seq]

        return await self.open_runs.using(dataset, run, read)


@dataclass(frozen=True, slots=True)
class ReadCurve:
    """Closed steps of a run's present history, some of them a point."""

    open_runs: OpenRuns
    catch_up: CatchUp
    journal: Journal

    async def __call__(self, dataset: str, run: str, points: int) -> list[CurvePoint]:
        """Return at most `points` points, in order; each but the last stands for as many steps.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """

        async def read(opened: OpenRun) -> list[CurvePoint]:
            state = await self.catch_up.repair_receipts(opened)
            width = -(-(state.step - opened.row.origin_step) // points)
            return await self.journal.curve(opened.row, state.seq, max(width, 1))

        return await self.open_runs.using(dataset, run, read)


@dataclass(frozen=True, slots=True)
class ReadCalibration:
    """Compare what was predicted before each of the last steps with what was observed, by bins."""

    open_runs: OpenRuns
    catch_up: CatchUp
    journal: Journal

    async def __call__(self, dataset: str, run: str, steps: int) -> tuple[int, Calibration]:
        """Return of how many steps it is, and the sums over them.

        Steps without outcomes tell nothing of predictions.

        Args:
            dataset: the run's.
            run: its name.
            steps: the most recent ones of the present history, at most so many.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """

        async def read(opened: OpenRun) -> tuple[int, Calibration]:
            state = await self.catch_up.repair_receipts(opened)
            stored = await self.journal.history(opened.row, max(0, state.step - steps), steps)
            shown = [found.receipt.calibration for found in stored if found.receipt.calibration is not None]
            return len(shown), added(shown)

        return await self.open_runs.using(dataset, run, read)


@dataclass(frozen=True, slots=True)
class ReadOutlooks:
    """Outlooks of a run's present history."""

    open_runs: OpenRuns
    catch_up: CatchUp
    outlooks: Outlooks

    async def __call__(self, dataset: str, run: str, points: int) -> list[StoredOutlook]:
        """Return at most `points` outlooks, in order.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """

        async def read(opened: OpenRun) -> list[StoredOutlook]:
            state = (await self.catch_up.current(opened)).state
            return await self.outlooks.read(opened.row, state.seq, points)

        return await self.open_runs.using(dataset, run, read)


@dataclass(frozen=True, slots=True)
class ReadJournal:
    """Entries of a run's whole journal, those too that a rewind took out of its present history."""

    open_runs: OpenRuns
    catch_up: CatchUp
    journal: Journal

    async def __call__(
        self, dataset: str, run: str, before: int | None, limit: int, kinds: Sequence[EntryKind] = ()
    ) -> list[LoggedEntry]:
        """Return up to `limit` entries before this one, None for the newest; pruned ones are not there.

        With `kinds` only entries of these kinds.

        Who watches a run asks every few seconds, so receipts that a crash kept from SQL are not looked for. Entries
        without one have no step until a history is read.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """

        async def read(opened: OpenRun) -> list[LoggedEntry]:
            await self.catch_up.settled(opened)
            return await self.journal.before(opened.row, before, limit, kinds)

        return await self.open_runs.using(dataset, run, read)


IDS_PER_LEASE = 5  # ids of each group, unless more are wanted: enough to know a selection by


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

    The store that keeps the leases ends them by its own clock (Redis by that of its machine). So the store is asked
    how long each still lasts, and a time given here is as right as this machine's clock.
    """

    open_runs: OpenRuns
    catch_up: CatchUp
    leases: Leases
    clock: Callable[[], float] = time.time

    async def __call__(
        self, dataset: str, run: str, limit: int, named: int = IDS_PER_LEASE
    ) -> tuple[int, list[LeaseGroup]]:
        """Return how many tasks are in flight, and up to `limit` groups of them, those that end soonest first.

        Each group names up to `named` of its tasks.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """

        async def read(opened: OpenRun) -> tuple[int, list[LeaseGroup]]:
            await self.catch_up.newest_or_known(opened)  # notices where another replica replaced the run
            leased = await self.leases.ttls(opened.row)
            now = self.clock()
            known = (await self.open_runs.with_tasks(opened, leased.tasks)).dataset
            return len(leased.tasks), grouped(leased, known, now, limit, named)

        return await self.open_runs.using(dataset, run, read)


def grouped(
    leased: LeaseTtls, dataset: OpenDataset, now: float, limit: int, named: int = IDS_PER_LEASE
) -> list[LeaseGroup]:
    """Return up to `limit` groups of tasks whose leases end together, those that end soonest first."""
    order = np.argsort(leased.ttl_s, kind="stable")
    tasks, ttl_s = leased.tasks[order], leased.ttl_s[order]
    begins = np.flatnonzero(is_first(ttl_s))
    sizes = np.diff(begins, append=len(tasks))
    return [
        LeaseGroup(now + float(ttl_s[begin]), size, dataset.ids.take(tasks[begin : begin + min(size, named)]))
        for begin, size in zip(begins[:limit].tolist(), sizes[:limit].tolist(), strict=True)
    ]
