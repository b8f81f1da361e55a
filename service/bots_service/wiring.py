"""The composition root: the only place that names concrete classes together. Opens and closes them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from bots_service.api.app import create_app
from bots_service.settings import Settings
from bots_service.storage.memory_leases import MemoryLeases
from bots_service.storage.memory_states import MemoryStates
from bots_service.storage.migrate import head, upgrade
from bots_service.storage.sql_answers import SqlAnswers
from bots_service.storage.sql_datasets import SqlDatasets
from bots_service.storage.sql_health import SqlHealth
from bots_service.storage.sql_journal import SqlJournal
from bots_service.storage.sql_runs import SqlRuns
from bots_service.storage.sql_snapshots import SqlSnapshots
from bots_service.storage.sqlite_database import SqliteDatabase
from bots_service.usecases import UseCases
from bots_service.usecases.append_tasks import AppendTasks
from bots_service.usecases.catch_up import CatchUp
from bots_service.usecases.change_settings import ChangeSettings
from bots_service.usecases.delete import DeleteDataset, DeleteRun
from bots_service.usecases.describe_run import DescribeRun
from bots_service.usecases.import_dataset import ImportDataset
from bots_service.usecases.live import LiveRuns
from bots_service.usecases.open_dataset import OpenDatasets
from bots_service.usecases.open_run import OpenRuns
from bots_service.usecases.put_run import PutRun
from bots_service.usecases.read_history import ReadHistory
from bots_service.usecases.read_tasks import ReadTasks
from bots_service.usecases.report_outcomes import ReportOutcomes
from bots_service.usecases.retire_tasks import RetireTasks
from bots_service.usecases.rewind_run import RewindRun
from bots_service.usecases.save_snapshot import SaveSnapshot
from bots_service.usecases.select_tasks import SelectTasks
from bots_service.usecases.take_snapshot import TakeSnapshot


def build_app(settings: Settings) -> FastAPI:
    """Return the application; its stores are opened when it starts, and closed when it ends."""
    return create_app(lambda: open_use_cases(settings), max_upload_bytes=settings.max_upload_bytes, schema=head())


@asynccontextmanager
async def open_use_cases(settings: Settings) -> AsyncIterator[UseCases]:
    """Open the stores, bring the database's tables to the newest revision, and hand out what the API may call.

    Raises:
        StorageUnavailableError: the database can't be opened, or another process has it.
    """
    database = SqliteDatabase(settings.sql_url)
    try:
        await asyncio.to_thread(upgrade, settings.sql_url)
        yield use_cases(settings, database)
    finally:
        await database.close()


def use_cases(settings: Settings, database: SqliteDatabase) -> UseCases:
    """Return the use cases over one database and the memory of this process."""
    datasets, runs, journal = SqlDatasets(database), SqlRuns(database), SqlJournal(database)
    snapshots, states, leases = SqlSnapshots(database), MemoryStates(settings.cache_bytes), MemoryLeases()
    live, save = LiveRuns(), SaveSnapshot(snapshots, every=settings.snapshot_every)
    open_datasets = OpenDatasets(datasets, max_bytes=settings.cache_bytes)
    open_runs = OpenRuns(runs, open_datasets)
    catch_up = CatchUp(journal, snapshots, states, live, save, open_runs)
    describe = DescribeRun(runs, open_datasets, open_runs, catch_up, leases)
    return UseCases(
        datasets=datasets,
        answers=SqlAnswers(database),
        health=SqlHealth(database),
        import_dataset=ImportDataset(datasets, open_datasets),
        append_tasks=AppendTasks(datasets, open_datasets),
        retire_tasks=RetireTasks(datasets, open_datasets),
        delete_dataset=DeleteDataset(datasets, open_datasets),
        put_run=PutRun(runs, open_datasets, open_runs, catch_up, describe),
        change_settings=ChangeSettings(open_runs, journal, catch_up, describe),
        describe_run=describe,
        delete_run=DeleteRun(runs, open_runs, states, leases),
        rewind_run=RewindRun(open_runs, journal, catch_up, leases, describe),
        take_snapshot=TakeSnapshot(open_runs, catch_up, snapshots, save),
        read_tasks=ReadTasks(open_runs, catch_up),
        read_history=ReadHistory(open_runs, catch_up, journal),
        select_tasks=SelectTasks(open_runs, catch_up, leases, live),
        report_outcomes=ReportOutcomes(open_runs, journal, catch_up, leases),
    )
