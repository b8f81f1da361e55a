"""The engine of one process, shared by all use cases: the stores, and the parts that keep runs live."""

import time
from collections.abc import Callable

from bots_service.engine.catch_up import CatchUp
from bots_service.engine.comparing import Comparing
from bots_service.engine.judging import JudgeRuns
from bots_service.engine.live_runs import LiveRuns
from bots_service.engine.open_runs import OpenDatasets, OpenRuns
from bots_service.engine.replay import Replay, SaveSnapshot
from bots_service.engine.replicas import FollowReplicas, NotifyReplicas
from bots_service.engine.run_courses import RunCourses
from bots_service.engine.run_gains import CompareWithUniform
from bots_service.engine.step_evidence import ReadStepEvidence
from bots_service.metrics.training import TrainingMetrics
from bots_service.ports.stores import DurableStores, HotStores


class Engine:
    """The parts from which use cases are built.

    metrics: shared by all; at_work: the runs that have their own metrics.
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
        """Create the parts; nothing is read yet.

        Args:
            stores: the database.
            hot: the hot store.
            metrics: counts folds and runs.
            snapshot_every: entries between two snapshots of a run.
            cache_bytes: memory limit of open datasets.
            clock: seconds since 1970, UTC.
        """
        self.answers, self.keys = stores.answers, stores.keys
        self.datasets, self.runs = stores.datasets, stores.runs
        self.journal, self.snapshots, self.retention = stores.journal, stores.snapshots, stores.retention
        self.courses, self.outlooks = stores.courses, stores.outlooks
        self.exports, self.imports = stores.exports, stores.imports
        self.states, self.leases = hot.states, hot.leases
        self.health = {**stores.health, **hot.health}
        self.metrics, self.at_work = metrics, metrics.runs
        self.live = LiveRuns()
        self.save_snapshot = SaveSnapshot(self.snapshots, every=snapshot_every, clock=clock)
        self.open_datasets = OpenDatasets(self.datasets, max_bytes=cache_bytes)
        self.open_runs = OpenRuns(self.runs, self.open_datasets)
        replay = Replay(self.journal, self.snapshots, self.open_runs, metrics)
        self.catch_up = CatchUp(self.journal, self.states, self.live, self.save_snapshot, replay)
        self.comparing = Comparing(self.journal, replay, self.open_runs)
        self.run_courses = RunCourses(
            self.courses, self.live, self.repair_receipts, CompareWithUniform(self.courses), now=clock
        )
        self.step_evidence = ReadStepEvidence(self.journal, self.courses)
        self.judging = JudgeRuns(
            self.open_datasets, self.open_runs, self.catch_up, self.journal, self.step_evidence, self.courses
        )
        self.notify_replicas = NotifyReplicas(self.runs, self.states)
        self.follow_replicas = FollowReplicas(
            self.journal, self.catch_up, self.open_runs, self.at_work, is_needed=hot.is_shared
        )

    async def repair_receipts(self, dataset: str, run: str) -> None:
        """Store the receipts of a run that a crash left out."""
        await self.open_runs.using(dataset, run, self.catch_up.repair_receipts)
