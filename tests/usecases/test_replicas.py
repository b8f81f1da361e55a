"""Two replicas over one database and one Redis: whatever one does, the other goes on from it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from bots_service.core.codec import encode_state
from bots_service.core.entries import Report
from bots_service.core.evidence import Evidence
from bots_service.errors import InvalidOutcomesError, StorageUnavailableError, UnknownDatasetError, UnknownRunError
from bots_service.ports.records import Draft
from bots_service.settings import Settings
from bots_service.stores import HotStores, open_hot_stores
from bots_service.usecases.dataset_builder import DatasetHeader
from bots_service.wiring import use_cases
from tests.servers import RedisServer
from tests.usecases.world import HEADER, POOL, World, block, never, outcome, stream


@dataclass
class Replica(World):
    hot: HotStores

    async def follow(self) -> None:
        await self.use.follow_replicas.once()


@pytest.fixture
async def replicas(world: World, redis_server: RedisServer) -> AsyncIterator[tuple[Replica, Replica]]:
    with redis_server.client() as client:
        client.flushall()
    settings = Settings(**{**world.settings.model_dump(), "redis_url": redis_server.url})
    async with AsyncExitStack() as stack:
        both = []
        for _ in range(2):
            hot = await stack.enter_async_context(open_hot_stores(settings))
            both.append(Replica(world.folder, world.database, use_cases(settings, world.database, hot), settings, hot))
        yield both[0], both[1]


async def test_what_was_reported_here_is_selected_from_there(replicas: tuple[Replica, Replica]):
    for step in range(6):
        here, there = replicas[step % 2], replicas[1 - step % 2]
        receipt = await here.report(outcome(f"t{step}", step), outcome("t9"))
        selection = await there.select(3)
        assert (selection.seq, selection.step) == (receipt.seq, receipt.step) == (step + 1, step + 1)
        assert not selection.degraded
    assert encode_state(await replicas[0].state()) == encode_state(await replicas[1].state())
    await replicas[0].assert_is_a_replay()


async def test_selections_at_once_on_both_share_no_task_while_others_are_free(replicas: tuple[Replica, Replica]):
    selections = await asyncio.gather(*(replicas[place % 2].select(4) for place in range(10)))
    assert len({task for selection in selections for task in selection.tasks.tolist()}) == 40
    assert {selection.reused for selection in selections} == {0}
    assert len({selection.id for selection in selections}) == 10
    assert (await replicas[0].select(2)).reused == 2


async def test_the_same_key_gives_the_same_selection_on_both(replicas: tuple[Replica, Replica]):
    first = await replicas[0].select(4, key="once")
    assert (await replicas[1].select(4, key="once")).tasks.tolist() == first.tasks.tolist()
    assert (await replicas[1].describe()).leased == 4


async def test_settings_changed_on_both_at_once_are_both_changed(replicas: tuple[Replica, Replica]):
    changes: list[dict[str, Any]] = [{"forgetting": 0.3}, {"target": 0.7}, {"reward_range": (-1.0, 1.0)}]
    calls = [replicas[n % 2].use.change_settings(POOL, "default", values, None) for n, values in enumerate(changes)]
    await asyncio.gather(*calls)
    for replica in replicas:
        settings = (await replica.state()).settings
        assert (settings.forgetting, settings.target, settings.reward_range) == (0.3, 0.7, (-1.0, 1.0))


async def test_tasks_appended_here_are_known_there(replicas: tuple[Replica, Replica]):
    here, there = replicas
    await there.select(1)
    grown = block(40, 2)
    grown.references[:] = [[0.01, 0.99], [0.02, 0.5]]
    grown.tags[:] = [("new",), ("new",)]
    await here.use.append_tasks(POOL, stream(grown), never)
    assert sorted((await there.select(2, tags=("new",))).tasks.tolist()) == [40, 41]
    assert (await there.report(outcome("t40"))).tally.reported == 1
    await here.assert_is_a_replay()
    with pytest.raises(InvalidOutcomesError):
        await there.report(outcome("t99"))


async def test_tasks_reported_there_before_this_one_heard_of_them_are_folded_here(replicas: tuple[Replica, Replica]):
    here, there = replicas
    before = await here.opened()
    await here.state()
    grown = block(40, 2)
    grown.references[:] = [[0.01, 0.99], [0.02, 0.5]]
    await there.use.append_tasks(POOL, stream(grown), never)
    entry = (await there.use.report_outcomes.journal.append(before.row, _draft(there, await there.opened(), 41))).entry
    state = await here.use.report_outcomes.catch_up.through(before, entry.seq)
    assert state.seq == 1
    await there.assert_is_a_replay()


def _draft(replica: Replica, run, task: int) -> Draft:
    import numpy as np

    evidence = Evidence(np.array([task], np.int32), np.array([1.0]), np.array([3.0]))
    return Draft(Report(evidence, None, None), run.dataset.pool.profiles)


async def test_tasks_retired_here_are_no_longer_selected_there(replicas: tuple[Replica, Replica]):
    here, there = replicas
    await there.select(1)
    await here.use.retire_tasks(POOL, [f"t{number}" for number in range(35)], None)
    assert set((await there.select(5)).tasks.tolist()) <= set(range(35, 40))


async def test_a_run_deleted_or_replaced_here_is_the_new_one_there(replicas: tuple[Replica, Replica]):
    here, there = replicas
    await there.report(outcome("t1"))
    await here.use.delete_run(POOL, "default", None)
    assert (await there.select(3)).seq == 0
    await here.put_run("default", target=0.9)
    assert (await there.state()).settings.target == 0.9
    assert (await there.report(outcome("t1"))).seq == 1
    await here.put_run("side")
    await there.select(1, "side")
    await here.use.delete_run(POOL, "side", None)
    with pytest.raises(UnknownRunError):
        await there.report(outcome("t1"), run="side")


async def test_a_dataset_deleted_and_made_anew_here_is_the_new_one_there(replicas: tuple[Replica, Replica]):
    here, there = replicas
    await there.report(outcome("t1"))
    await here.use.delete_dataset(POOL, None)
    with pytest.raises(UnknownDatasetError):
        await there.select(1)
    await here.use.import_dataset(POOL, DatasetHeader(HEADER.reference_models, "other"), stream(block(0, 9)), never)
    assert len((await there.select(9)).tasks) == 9
    assert (await there.report(outcome("t1"))).seq == 1


async def test_what_a_replica_committed_before_it_died_is_followed(replicas: tuple[Replica, Replica]):
    here, there = replicas
    await there.select(1)
    await there.follow()
    run = await here.opened()
    await here.use.report_outcomes.journal.append(run.row, _draft(here, run, 3))
    await there.select(1)
    await there.follow()
    assert (await there.select(1)).seq == 1
    assert (await here.select(1)).seq == 1
    await there.assert_is_a_replay()


async def test_a_replica_follows_what_was_changed_without_telling_it(replicas: tuple[Replica, Replica], world: World):
    _, there = replicas
    await there.select(1)
    await world.use.retire_tasks(POOL, [f"t{number}" for number in range(39)], None)  # this one has no Redis
    await there.follow()
    assert (await there.select(1)).tasks.tolist() == [39]
    await world.put_run("default", target=0.9)
    await there.select(1)
    await there.follow()
    assert (await there.state()).settings.target == 0.9
    await there.follow()
    await there.follow()


async def test_a_wipe_at_any_moment_loses_nothing(replicas: tuple[Replica, Replica], redis_server: RedisServer):
    with redis_server.client() as client:
        for step in range(12):
            here, there = replicas[step % 2], replicas[1 - step % 2]
            assert (await here.report(outcome(f"t{step}"))).seq == step + 1
            if step % 3 == 0:
                client.flushall()
            assert (await there.select(1)).seq == step + 1
            if step % 3 == 1:
                client.flushall()
    await replicas[0].assert_is_a_replay()


async def test_with_neither_sql_nor_a_shared_state_an_older_belief_goes_on(
    replicas: tuple[Replica, Replica], redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
):
    here, there = replicas
    await here.report(outcome("t1"))
    await there.opened()

    async def away(*_: object) -> None:
        raise StorageUnavailableError("the database did not answer")

    for replica in replicas:
        monkeypatch.setattr(replica.use.report_outcomes.journal, "head", away)
        monkeypatch.setattr(replica.use.report_outcomes.journal, "heads", away)
        monkeypatch.setattr(replica.use.select_tasks.catch_up.replay.snapshots, "newest", away)
    assert not (await here.select(1)).degraded
    with redis_server.client() as client:
        client.flushall()
    selection = await here.select(2)
    assert (selection.seq, selection.degraded, len(selection.tasks)) == (1, True, 2)
    with pytest.raises(StorageUnavailableError):
        await there.select(1)
    with pytest.raises(StorageUnavailableError):
        await here.follow()
