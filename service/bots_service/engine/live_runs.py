"""A process's working state of each run: locks, awaited entries, and the newest receipts."""

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine, Iterable
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import structlog

from bots_service.core.receipt import Receipt

log = structlog.get_logger(__name__)

REMEMBERED_RECEIPTS = 128  # per run, about 3 KB each; twice the reports that a process handles at once
REMEMBERED_RUNS = 1024


@dataclass(frozen=True, slots=True)
class Folded:
    """The receipt of a folded entry. degraded: other replicas could not see the fold."""

    receipt: Receipt
    degraded: bool


@dataclass(slots=True, weakref_slot=True, eq=False)
class LiveRun:
    """The working state of one run.

    folding: lock around each fold of entries.
    acknowledging: lock around a fold that reports wait for, so that one fold serves all of them.
    selecting: lock around each draw, so that two draws share no task.
    wanted: the largest seq that a caller waits for; one fold serves all.
    folded: receipts of the newest entries folded in this process, by seq.
    unpublished: receipts of entries folded in this process that other replicas may not see yet.
    keeping: receipts being written to SQL. They can be recomputed from the journal, so only snapshots wait for them.
    """

    folding: asyncio.Lock = field(default_factory=asyncio.Lock)
    acknowledging: asyncio.Lock = field(default_factory=asyncio.Lock)
    selecting: asyncio.Lock = field(default_factory=asyncio.Lock)
    wanted: int = 0
    folded: OrderedDict[int, Folded] = field(default_factory=OrderedDict)
    unpublished: list[Receipt] = field(default_factory=list)
    keeping: set[asyncio.Task[None]] = field(default_factory=set)

    def acknowledge(self, up_to: int, *, degraded: bool) -> None:
        """Make the unpublished receipts up to this seq available to waiting callers."""
        self.remember([receipt for receipt in self.unpublished if receipt.seq <= up_to], degraded=degraded)
        self.unpublished = [receipt for receipt in self.unpublished if receipt.seq > up_to]

    def remember(self, receipts: list[Receipt], *, degraded: bool) -> None:
        """Make receipts available to waiting callers."""
        for receipt in receipts:
            self.folded[receipt.seq] = Folded(receipt, degraded)
        while len(self.folded) > REMEMBERED_RECEIPTS:
            self.folded.popitem(last=False)

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Write receipts to SQL in the background."""
        task = asyncio.create_task(work, context=Context())  # not the request's context: it outlives the request
        self.keeping.add(task)
        task.add_done_callback(self._kept)

    def _kept(self, task: asyncio.Task[None]) -> None:
        self.keeping.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.warning("receipts_not_kept", reason=str(task.exception()))

    async def settled(self) -> None:
        """Wait until all receipts so far are written to SQL, or the write has failed."""
        if self.keeping:
            await asyncio.wait(set(self.keeping))


class LiveRuns:
    """The working states of recently used runs, by run id. All callers of a run share one."""

    def __init__(self) -> None:
        self._recent: OrderedDict[int, LiveRun] = OrderedDict()
        self._at_work: WeakValueDictionary[int, LiveRun] = WeakValueDictionary()  # while a caller holds it

    def __call__(self, run_id: int) -> LiveRun:
        """Return the run's working state, a new one if nobody uses it; hold it for the duration of the work."""
        live = self._at_work.get(run_id)
        if live is None:
            live = self._at_work[run_id] = LiveRun()
        self._recent[run_id] = live
        self._recent.move_to_end(run_id)
        if len(self._recent) > REMEMBERED_RUNS:
            self._recent.popitem(last=False)
        return live

    async def settled(self, run_ids: Iterable[int]) -> None:
        """Wait until all receipts of these runs so far are written to SQL, or the writes have failed."""
        for run_id in run_ids:
            live = self._at_work.get(run_id)
            if live is not None:
                await live.settled()
