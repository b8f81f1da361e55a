"""What a process keeps of each run while it works on it: locks, what is asked for, and the newest receipts."""

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import structlog

from bots_service.core.receipt import Receipt

log = structlog.get_logger(__name__)

REMEMBERED_RECEIPTS = 128  # per run, of about 3 KB each; twice the reports that a process works on at once
REMEMBERED_RUNS = 1024


@dataclass(frozen=True, slots=True)
class Folded:
    """What folding an entry did. degraded: other replicas could not see that when it was folded."""

    receipt: Receipt
    degraded: bool


@dataclass(slots=True, weakref_slot=True, eq=False)
class LiveRun:
    """One run at work.

    folding: lock around each fold of entries.
    acknowledging: lock around a fold that reports wait for, so that one fold serves all of them.
    selecting: lock around each draw, so that two draws share no task.
    telling: lock around a repeated fold of entries that another replica folded first.
    wanted: the greatest seq that somebody waits for; one fold serves all.
    folded: the newest entries that were folded here, by seq.
    unpublished: receipts of the newest entries that were folded here and that others may not see yet.
    keeping: receipts on their way to SQL; they follow from the journal, so nobody waits for them but snapshots.
    """

    folding: asyncio.Lock = field(default_factory=asyncio.Lock)
    acknowledging: asyncio.Lock = field(default_factory=asyncio.Lock)
    selecting: asyncio.Lock = field(default_factory=asyncio.Lock)
    telling: asyncio.Lock = field(default_factory=asyncio.Lock)
    wanted: int = 0
    folded: OrderedDict[int, Folded] = field(default_factory=OrderedDict)
    unpublished: list[Receipt] = field(default_factory=list)
    keeping: set[asyncio.Task[None]] = field(default_factory=set)

    def acknowledge(self, up_to: int, *, degraded: bool) -> None:
        """Keep the unpublished receipts up to this seq for the callers that wait for them."""
        self.remember([receipt for receipt in self.unpublished if receipt.seq <= up_to], degraded=degraded)
        self.unpublished = [receipt for receipt in self.unpublished if receipt.seq > up_to]

    def remember(self, receipts: list[Receipt], *, degraded: bool) -> None:
        """Keep receipts for the callers that wait for them."""
        for receipt in receipts:
            self.folded[receipt.seq] = Folded(receipt, degraded)
        while len(self.folded) > REMEMBERED_RECEIPTS:
            self.folded.popitem(last=False)

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Let the receipts go to SQL on their own."""
        task = asyncio.create_task(work, context=Context())  # not the request's: it goes on when that has ended
        self.keeping.add(task)
        task.add_done_callback(self._kept)

    def _kept(self, task: asyncio.Task[None]) -> None:
        self.keeping.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.warning("receipts_not_kept", reason=str(task.exception()))

    async def settled(self) -> None:
        """Return once all receipts folded so far are in SQL, or have failed to get there."""
        if self.keeping:
            await asyncio.wait(set(self.keeping))


class LiveRuns:
    """The runs that this process worked on lately, by run id. A run at work has one live part, whoever asks."""

    def __init__(self) -> None:
        self._lately: OrderedDict[int, LiveRun] = OrderedDict()
        self._at_work: WeakValueDictionary[int, LiveRun] = WeakValueDictionary()  # while anybody holds it

    def __call__(self, run_id: int) -> LiveRun:
        """Return the run's live part, new if nobody works on it; hold it as long as the work takes."""
        live = self._at_work.get(run_id)
        if live is None:
            live = self._at_work[run_id] = LiveRun()
        self._lately[run_id] = live
        self._lately.move_to_end(run_id)
        if len(self._lately) > REMEMBERED_RUNS:
            self._lately.popitem(last=False)
        return live
