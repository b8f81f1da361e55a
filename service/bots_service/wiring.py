"""The composition root: the only place that names concrete classes together. Opens and closes them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING

from fastapi import FastAPI

from bots_service.api.app import create_app
from bots_service.api.overload import Limits
from bots_service.api.uploads import UploadLimits
from bots_service.engine.catch_up import CatchUp
from bots_service.engine.live_runs import LiveRuns
from bots_service.engine.open_runs import OpenDatasets, OpenRuns
from bots_service.engine.replay import Replay, SaveSnapshot
from bots_service.engine.replicas import FollowReplicas, TellReplicas
from bots_service.errors import BotsError
from bots_service.metrics.process import Metrics
from bots_service.metrics.training import TrainingMetrics
from bots_service.settings import Settings
from bots_service.storage.sql.migrate import head
from bots_service.stores import DurableStores, HotStores, open_database, open_hot_stores, sql_stores
from bots_service.usecases import UseCases
from bots_service.usecases.append_tasks import AppendTasks
from bots_service.usecases.authenticate import Authenticate, KnownKeys, digest_of
from bots_service.usecases.change_run import ChangeSettings, RewindRun, TakeSnapshot
from bots_service.usecases.delete import DeleteDataset, DeleteRun
from bots_service.usecases.describe import DescribeRun, ListDatasets
from bots_service.usecases.export_backup import ExportBackup
from bots_service.usecases.import_backup import ImportBackup
from bots_service.usecases.import_dataset import ImportDataset
from bots_service.usecases.manage_keys import CreateKey, RevokeKey
from bots_service.usecases.observe_runs import LookAtRun, ObserveRuns
from bots_service.usecases.prune import Prune
from bots_service.usecases.put_run import PutRun
from bots_service.usecases.read_run import (
    ReadCalibration,
    ReadCurve,
    ReadHistory,
    ReadJournal,
    ReadLeases,
    ReadOutlooks,
)
from bots_service.usecases.read_tasks import ReadTasks
from bots_service.usecases.readiness import OK, Readiness
from bots_service.usecases.report_outcomes import ReportOutcomes
from bots_service.usecases.retire_tasks import RetireTasks
from bots_service.usecases.select_tasks import SelectTasks

if TYPE_CHECKING:
    from bots_service.tracing import OtlpTracer


class TracingMissingError(BotsError):
    """Traces were asked for, and the library that sends them is not installed."""


def build_app(settings: Settings) -> FastAPI:
    """Return the application; its stores are opened when it starts, and closed when it ends.

    Raises:
        TracingMissingError: traces were asked for, and the library that sends them is not installed.
    """
    limits = Limits(settings.request_timeout_s, settings.max_concurrent, settings.max_waiting)
    metrics, tracer = Metrics(), tracer_of(settings)
    return create_app(
        lambda: open_use_cases(settings, metrics, tracer),
        uploads=UploadLimits(settings.max_upload_bytes, settings.max_tasks),
        schema=head(),
        limits=limits,
        metrics=metrics,
        tracer=tracer,
    )


def tracer_of(settings: Settings) -> "OtlpTracer | None":
    """Return what sends traces where the settings say, None where they say nothing.

    Raises:
        TracingMissingError: the library for it is not installed.
    """
    if settings.otlp_endpoint is None:
        return None
    try:
        from bots_service.tracing import OtlpTracer  # not above: who traces nothing loads none of it
    except ModuleNotFoundError as error:
        raise TracingMissingError(
            f"BOTS_OTLP_ENDPOINT needs {error.name}, which is not installed; "
            "install the extra `tracing` (in a checkout: pip install ./client '.[tracing]'), or unset it"
        ) from error
    return OtlpTracer(settings.otlp_endpoint, share=settings.trace_share)


@asynccontextmanager
async def open_use_cases(
    settings: Settings, metrics: Metrics, tracer: "OtlpTracer | None" = None
) -> AsyncIterator[UseCases]:
    """Open the stores, bring the database's tables to the newest revision, and hand out what the API may call.

    Raises:
        StorageUnavailableError: the database can't be opened, or another process has it.
    """
    sending = nullcontext() if tracer is None else aclosing(tracer)
    async with sending, open_database(settings) as database, open_hot_stores(settings) as hot:
        opened = use_cases(Parts(settings, sql_stores(settings, database), hot, metrics.training))
        watch(opened.readiness, metrics)
        async with AsyncExitStack() as background:
            for work in (
                opened.readiness.in_background,
                opened.authenticate.known.in_background,
                opened.follow_replicas.in_background,
                opened.observe_runs.in_background,
                opened.prune.in_background,
            ):
                await background.enter_async_context(work())
            yield opened


class Parts:
    """What several use cases share, by name: the stores, and what keeps runs live over them."""

    def __init__(self, settings: Settings, stores: DurableStores, hot: HotStores, metrics: TrainingMetrics) -> None:
        """Make the rest over the stores."""
        self.settings, self.hot, self.metrics, self.at_work = settings, hot, metrics, metrics.runs
        self.states, self.leases = hot.states, hot.leases
        self.answers, self.keys = stores.answers, stores.keys
        self.datasets, self.runs = stores.datasets, stores.runs
        self.journal, self.snapshots, self.retention = stores.journal, stores.snapshots, stores.retention
        self.outlooks, self.sizes = stores.outlooks, stores.sizes
        self.exports, self.imports = stores.exports, stores.imports
        self.health = {**stores.health, **hot.health}
        self.known_keys = KnownKeys(self.keys)
        self.live, self.save = LiveRuns(), SaveSnapshot(self.snapshots, every=settings.snapshot_every)
        self.open_datasets = OpenDatasets(self.datasets, max_bytes=settings.cache_bytes, cache=metrics.caches.datasets)
        self.open_runs = OpenRuns(self.runs, self.open_datasets)
        self.tell_replicas = TellReplicas(self.runs, self.states)
        replay = Replay(self.journal, self.snapshots, self.open_runs, metrics)
        self.catch_up = CatchUp(self.journal, self.states, self.live, self.save, replay, metrics)
        self.look_at_run = LookAtRun(
            self.open_runs, self.catch_up, self.journal, self.leases, self.outlooks, self.sizes, self.at_work
        )
        self.describe = DescribeRun(self.runs, self.open_datasets, self.open_runs, self.catch_up, self.leases)


def use_cases(parts: Parts) -> UseCases:
    """Return the use cases, made of their parts."""
    p = parts
    return UseCases(
        datasets=p.datasets,
        answers=p.answers,
        readiness=Readiness(p.health),
        keys=p.keys,
        authenticate=Authenticate(p.known_keys, p.hot.limits, p.metrics.caches.keys, admin_digest(p.settings)),
        create_key=CreateKey(p.keys, p.known_keys),
        revoke_key=RevokeKey(p.keys, p.known_keys),
        list_datasets=ListDatasets(p.datasets),
        import_dataset=ImportDataset(p.datasets, p.open_datasets, p.tell_replicas),
        append_tasks=AppendTasks(p.datasets, p.open_datasets, p.tell_replicas),
        retire_tasks=RetireTasks(p.datasets, p.open_datasets, p.tell_replicas),
        delete_dataset=DeleteDataset(p.datasets, p.open_datasets, p.runs, p.states, p.leases, p.at_work),
        put_run=PutRun(p.runs, p.open_datasets, p.open_runs, p.catch_up, p.states, p.leases, p.describe),
        change_settings=ChangeSettings(p.open_runs, p.journal, p.catch_up, p.describe),
        describe_run=p.describe,
        delete_run=DeleteRun(p.runs, p.open_runs, p.states, p.leases, p.at_work),
        rewind_run=RewindRun(p.open_runs, p.journal, p.catch_up, p.leases, p.describe),
        take_snapshot=TakeSnapshot(p.open_runs, p.catch_up, p.snapshots, p.save),
        read_tasks=ReadTasks(p.open_runs, p.catch_up),
        read_history=ReadHistory(p.open_runs, p.catch_up, p.journal),
        read_curve=ReadCurve(p.open_runs, p.catch_up, p.journal),
        read_outlooks=ReadOutlooks(p.open_runs, p.catch_up, p.outlooks),
        read_calibration=ReadCalibration(p.open_runs, p.catch_up, p.journal),
        read_journal=ReadJournal(p.open_runs, p.catch_up, p.journal),
        read_leases=ReadLeases(p.open_runs, p.catch_up, p.leases),
        select_tasks=SelectTasks(p.open_runs, p.catch_up, p.leases, p.live, p.metrics),
        report_outcomes=ReportOutcomes(p.open_runs, p.journal, p.catch_up, p.leases, p.metrics),
        follow_replicas=FollowReplicas(p.journal, p.catch_up, p.open_runs, p.at_work, is_needed=p.hot.is_shared),
        observe_runs=ObserveRuns(p.look_at_run, p.at_work),
        export_backup=ExportBackup(p.exports, p.datasets, p.snapshots),
        import_backup=ImportBackup(p.imports, p.datasets, p.open_runs, p.states, p.leases, p.tell_replicas),
        prune=prune(p, p.settings.keep_journal_days),
    )


def prune(p: Parts, keep_days: float | None) -> Prune:
    """Return what removes old journal entries, by itself where days are given."""
    return Prune(p.retention, p.datasets, p.runs, p.journal, p.snapshots, p.open_runs, p.catch_up, keep_days)


def watch(readiness: Readiness, metrics: Metrics) -> None:
    """Let metrics show what this process knows of itself and its stores."""
    metrics.watch_state(lambda: readiness().is_ready)
    metrics.watch_stores(lambda: {part: said == OK for part, said in readiness().checks.items()})


def admin_digest(settings: Settings) -> bytes | None:
    """Return the digest of the operator's own key, None if none was set."""
    return None if settings.admin_key is None else digest_of(settings.admin_key.get_secret_value())
