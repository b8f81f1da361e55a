"""The composition root: the only place that names concrete classes together. Opens and closes them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import FastAPI

from bots_service.api.app import create_app
from bots_service.api.overload import Limits
from bots_service.api.uploads import UploadLimits
from bots_service.engine.engine import Engine
from bots_service.metrics.process import Metrics
from bots_service.metrics.training import TrainingMetrics
from bots_service.ports.stores import DurableStores, HotStores
from bots_service.settings import Settings
from bots_service.storage.sql.migrate import head
from bots_service.stores import open_database, open_hot_stores, sql_stores
from bots_service.usecases import UseCases
from bots_service.usecases.readiness import OK, Readiness


def build_app(settings: Settings) -> FastAPI:
    """Return the application; its stores are opened when it starts, and closed when it ends."""
    limits = Limits(settings.request_timeout_s, settings.max_concurrent, settings.max_waiting)
    metrics = Metrics()
    return create_app(
        lambda: open_use_cases(settings, metrics),
        uploads=UploadLimits(settings.max_upload_bytes, settings.max_tasks),
        schema=head(),
        limits=limits,
        metrics=metrics,
    )


@asynccontextmanager
async def open_use_cases(settings: Settings, metrics: Metrics) -> AsyncIterator[UseCases]:
    """Open the stores, bring the database's tables to the newest revision, and hand out what the API may call.

    Raises:
        StorageUnavailableError: the database can't be opened, or another process has it.
    """
    async with open_database(settings) as database, open_hot_stores(settings) as hot:
        engine = build_engine(settings, sql_stores(settings, database), hot, metrics.training)
        opened = build_use_cases(settings, engine)
        watch(opened.readiness, metrics)
        async with AsyncExitStack() as background:
            for work in (
                opened.readiness.in_background,
                opened.known_keys.in_background,
                opened.follow_replicas.in_background,
                opened.observe_runs.in_background,
                opened.prune.in_background,
                opened.compare_beliefs.in_background,
                opened.summarize_runs.in_background,
            ):
                await background.enter_async_context(work())
            yield opened


def build_engine(settings: Settings, stores: DurableStores, hot: HotStores, metrics: TrainingMetrics) -> Engine:
    """Return what the use cases are made of."""
    return Engine(stores, hot, metrics, snapshot_every=settings.snapshot_every, cache_bytes=settings.cache_bytes)


def build_use_cases(settings: Settings, engine: Engine) -> UseCases:
    """Return the use cases."""
    admin_key = None if settings.admin_key is None else settings.admin_key.get_secret_value()
    return UseCases(engine, admin_key=admin_key, keep_journal_days=settings.keep_journal_days)


def watch(readiness: Readiness, metrics: Metrics) -> None:
    """Let metrics show what this process knows of itself and its stores."""
    metrics.watch_state(lambda: readiness().is_ready)
    metrics.watch_stores(lambda: {part: said == OK for part, said in readiness().checks.items()})
