"""What a process keeps of each run while it works on it: locks, what is asked for, and the newest receipts."""

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

import structlog

from bots_service.core.receipt import Receipt

log = structlog.get_logger(__name__)

REMEMBERED_RECEIPTS = 128  # per run, of about 3 KB each; twice the reports that a process works on at once
REMEMBERED_RUNS = 1024


@dataclass(slots=True)
class LiveRun:
    """One run at work.

    folding: held by whoever folds entries; selecting: by whoever draws, so that two draws share no task; telling: by
    whoever folds again what another replica did first.
    wanted: the greatest seq that somebody waits for; one fold serves all.
    degraded: other replicas can't see what this process last published.
    keeping: receipts on their way to SQL; they follow from the journal, so nobody waits for them but snapshots.
    """

    folding: asyncio.Lock = field(default_factory=asyncio.Lock)
    selecting: asyncio.Lock = field(default_factory=asyncio.Lock)
    telling: asyncio.Lock = field(default_factory=asyncio.Lock)
    wanted: int = 0
    degraded: bool = False
    receipts: OrderedDict[int, Receipt] = field(default_factory=OrderedDict)
    keeping: set[asyncio.Task[None]] = field(default_factory=set)

    def remember(self, receipts: list[Receipt]) -> None:
        """Keep receipts for the callers that wait for them."""
        for receipt in receipts:
            self.receipts[receipt.seq] = receipt
        while len(self.receipts) > REMEMBERED_RECEIPTS:
            self.receipts.popitem(last=False)

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

    @property
    def is_idle(self) -> bool:
        """Whether nobody holds a lock and no receipts are on their way."""
        locks = (self.folding, self.selecting, self.telling)
        return not (self.keeping or any(lock.locked() for lock in locks))


class LiveRuns:
    """The runs that this process worked on lately, by run id."""

    def __init__(self) -> None:
        self._runs: OrderedDict[int, LiveRun] = OrderedDict()

    def __call__(self, run_id: int) -> LiveRun:
        """Return the run's live part, new if it was not known."""
        live = self._runs.get(run_id)
        if live is None:
            live = self._runs[run_id] = LiveRun()
            self._drop_idle()
        self._runs.move_to_end(run_id)
        return live

    def _drop_idle(self) -> None:
        while len(self._runs) > REMEMBERED_RUNS and next(iter(self._runs.values())).is_idle:
            self._runs.popitem(last=False)
