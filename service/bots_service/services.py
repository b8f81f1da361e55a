"""All that the API may call, and what works in the background, made over one database and one live store."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from bots_service.access import Access, digest_of
from bots_service.background import repeating
from bots_service.datasets import Datasets
from bots_service.insight import Insight, Overview
from bots_service.metrics import TrainingMetrics
from bots_service.moving import MoveRuns
from bots_service.readiness import Check, Readiness
from bots_service.replay import Replay
from bots_service.retention import DELETE_EVERY_S
from bots_service.runs import Runs
from bots_service.storage.live import Live
from bots_service.storage.sql.stores import SqlStores


class Services:
    """What one process does."""

    def __init__(
        self,
        store: SqlStores,
        live: Live,
        metrics: TrainingMetrics,
        *,
        snapshot_every: int,
        cache_bytes: int,
        admin_key: str | None = None,
    ) -> None:
        """Make all of it; nothing is read yet.

        snapshot_every: entries between two snapshots of a run. cache_bytes: limit of open datasets, and of states.
        admin_key: the operator's own.
        """
        self.store, self.live = store, live
        self.datasets = Datasets(store.datasets, store.runs, live, metrics.runs, max_bytes=cache_bytes)
        self.replay = Replay(store.journal, store.snapshots, self.datasets, metrics.fold_seconds, snapshot_every)
        self.runs = Runs(store, self.datasets, live, self.replay, metrics, cache_bytes=cache_bytes)
        self.moves = MoveRuns(self.runs)
        self.insight = Insight(self.runs)
        self.overview = Overview(self.runs, store.history)
        self.access = Access(store.keys, None if admin_key is None else digest_of(admin_key))
        checks: dict[str, Check] = {"sql": store.health.check, "sql_writes": store.health.check_writes}
        self.readiness = Readiness(checks | ({"redis": live.check} if live.is_shared else {}))

    @asynccontextmanager
    async def in_background(self) -> AsyncIterator[None]:
        """Do what is done beside requests. Raises StorageUnavailableError: nobody knows if keys guard the service."""
        async with AsyncExitStack() as stack:
            for work in (self.readiness.in_background, self.access.in_background, self.runs.follow_replicas):
                await stack.enter_async_context(work())
            await stack.enter_async_context(
                repeating(self.delete_old, every_s=DELETE_EVERY_S, failure_event="old_not_deleted", jitter=0.5)
            )
            yield

    async def delete_old(self) -> None:
        """Delete kept answers that are old, and uploads that died; another replica may do so at once."""
        now = time.time()
        await self.store.answers.delete_old(now)
        for stage in await self.store.datasets.dead_stages(now):  # one at a time: a large one takes a second
            await self.store.datasets.drop_stage(stage)
