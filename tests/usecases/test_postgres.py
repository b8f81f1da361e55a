"""A run moves between SQLite and PostgreSQL, and pruning there: the same as on SQLite."""

from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from bots_service.core.codec import encode_state
from bots_service.errors import BusyError
from bots_service.outcomes import ReportRequest
from bots_service.prune import PrunedRun
from bots_service.records import IdempotencyKey
from bots_service.settings import Settings
from bots_service.storage.postgres import PostgresDatabase
from tests.usecases.moving import exported, histories, imported, live, rows, states
from tests.usecases.test_pruning import pruner, reports
from tests.usecases.world import POOL, World, outcome

PRUNE_LOCK = 0x7072756E


@pytest.fixture
async def shared(postgres_url: str, tmp_path: Path) -> AsyncIterator[World]:
    """A service without datasets on PostgreSQL."""
    settings = Settings(data_dir=tmp_path, snapshot_every=5)
    database = PostgresDatabase(postgres_url, pool_size=4, timeout_s=30)
    world = World.over(tmp_path, settings, database)
    yield world
    await world.close()


async def test_a_run_moves_there_and_back(world: World, shared: World):
    news = ReportRequest(POOL, [outcome("t1"), outcome("t2")])
    await shared.import_pool()
    first = await world.runs.report(news, IdempotencyKey("key", "fingerprint"))
    await world.rewind(0)
    await reports(world, 3)
    await imported(shared, await exported(world))
    again = await shared.runs.report(news, IdempotencyKey("key", "fingerprint"))
    assert (again.duplicate, again.receipt) == (True, first.receipt)
    assert await states(shared, "default") == await states(world, "default")
    await imported(world, await exported(shared), "back")
    assert await states(world, "back") == await states(world, "default")


@pytest.mark.no_cover
async def test_pruning_leaves_states_histories_and_later_reports_as_they_were(empty: World, shared: World):
    for world in (shared, empty):
        await live(world, 15, actions=60)
    assert await pruner(shared)()
    assert await pruner(shared)() == []
    told = [
        {run: [one.receipt for one in steps] for run, steps in (await histories(world)).items()}
        for world in (shared, empty)
    ]
    assert told[0] == told[1]
    for row in await rows(shared):
        begins = (await shared.use.store.journal.head(row)).pruned
        assert await states(shared, row.name) == (await states(empty, row.name))[begins:]
        for world in (shared, empty):
            await reports(world, 8, first=900, run=row.name)
        assert encode_state(await shared.state(row.name)) == encode_state(await empty.state(row.name))


async def test_one_replica_at_a_time_prunes(shared: World, postgres_url: str):
    await shared.import_pool()
    await reports(shared, 23)
    with psycopg.connect(postgres_url) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [PRUNE_LOCK])
        with pytest.raises(BusyError, match="another replica"):
            await pruner(shared)()
        other.rollback()
    assert await pruner(shared)() == [PrunedRun(POOL, "default", 15, 15)]


async def test_dead_uploads_and_old_answers_go(shared: World, postgres_url: str):
    await shared.use.store.datasets.stage()
    with psycopg.connect(postgres_url, autocommit=True) as direct:
        direct.execute("UPDATE datasets SET created_at = 1")
        direct.execute("INSERT INTO answers VALUES ('PUT /x', 'old', 'f', 'null', 1.0)")
        await shared.use.prune()
        assert direct.execute("SELECT count(*) FROM datasets").fetchone() == (0,)
        assert direct.execute("SELECT count(*) FROM answers").fetchone() == (0,)
