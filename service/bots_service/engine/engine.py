"""The engine of one process: its stores, and what keeps runs live over them. All use cases share it."""

import time
from collections.abc import Callable

from bots_service.engine.catch_up import CatchUp
from bots_service.engine.live_runs import LiveRuns
from bots_service.engine.open_runs import OpenDatasets, OpenRuns
from bots_service.engine.replay import Replay, SaveSnapshot
from bots_service.engine.replicas import FollowReplicas, TellReplicas
from bots_service.metrics.training import TrainingMetrics
from bots_service.ports.stores import DurableStores, HotStores


class Engine:
    """What use cases are made of, by name.

    metrics: what all of them count with; at_work: the runs that have series of their own.
    """

    def __init__(
        self,
        stores: DurableStores,
        hot: HotStores,
        metrics: TrainingMetrics,
        *,
        snapshot_every: int,
        cache_bytes: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make what keeps runs live; nothing is read yet.

        Args:
            stores: what is kept in the database.
            hot: what is live.
            metrics: counts folds, looks and runs.
            snapshot_every: entries between two stored states of a run.
            cache_bytes: how much memory open datasets may take.
            clock: seconds since 1970, UTC.
        """
        self.answers, self.keys = stores.answers, stores.keys
        self.datasets, self.runs = stores.datasets, stores.runs
        self.journal, self.snapshots, self.retention = stores.journal, stores.snapshots, stores.retention
        self.outlooks, self.sizes = stores.outlooks, stores.sizes
        self.exports, self.imports = stores.exports, stores.imports
        self.states, self.leases, self.limits = hot.states, hot.leases, hot.limits
        self.health = {**stores.health, **hot.health}
        self.metrics, self.at_work = metrics, metrics.runs
        self.live = LiveRuns()
        self.save_snapshot = SaveSnapshot(self.snapshots, every=snapshot_every, clock=clock)
        self.open_datasets = OpenDatasets(self.datasets, max_bytes=cache_bytes, cache=metrics.caches.datasets)
        self.open_runs = OpenRuns(self.runs, self.open_datasets)
        replay = Replay(self.journal, self.snapshots, self.open_runs, metrics)
        self.catch_up = CatchUp(self.journal, self.states, self.live, self.save_snapshot, replay, metrics)
        self.tell_replicas = TellReplicas(self.runs, self.states)
        self.follow_replicas = FollowReplicas(
            self.journal, self.catch_up, self.open_runs, self.at_work, is_needed=hot.is_shared
        )
