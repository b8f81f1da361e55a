"""A dataset that one replica changes, deletes or brings back is known to the other one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bots_service.core.belief.kinds import KINDS
from bots_service.dataset_builder import DatasetHeader
from bots_service.errors import (
    BusyError,
    InvalidOutcomesError,
    KeyReusedError,
    PoolTooSmallError,
    StorageUnavailableError,
    UnknownDatasetError,
)
from bots_service.records import DatasetRow
from tests.servers import RedisServer
from tests.usecases.moving import exported, imported
from tests.usecases.world import HEADER, POOL, block, never, outcome, stream

Retire = Callable[..., Awaitable[DatasetRow]]


@pytest.mark.parametrize("belief", sorted(KINDS))
async def test_tasks_appended_here_are_known_there(replicas: tuple[World, World], belief: str):
    here, there = replicas
    await here.put_run("default", belief=belief)
    await there.select(1)
    grown = block(40, 2)
    grown.references[:] = [[0.01, 0.99], [0.02, 0.5]]
    grown.tags[:] = [("new",), ("new",)]
    await here.use.datasets.append(POOL, stream(grown), never)
    assert sorted((await there.select(2, tags=("new",))).tasks.tolist()) == [40, 41]
    assert (await there.report(outcome("t40"))).tally.reported == 1
    await here.assert_is_a_replay()
    with pytest.raises(InvalidOutcomesError):
        await there.report(outcome("t99"))


async def test_tasks_retired_here_are_no_longer_selected_there(replicas: tuple[World, World]):
    here, there = replicas
    await there.select(1)
    await here.use.datasets.retire(POOL, [f"t{number}" for number in range(35)], None)
    assert set((await there.select(5)).tasks.tolist()) <= set(range(35, 40))


async def test_tasks_restored_here_are_selected_again_there(replicas: tuple[World, World]):
    here, there = replicas
    await here.use.datasets.retire(POOL, [f"t{number}" for number in range(35)], None)
    with pytest.raises(PoolTooSmallError):
        await there.select(6)
    await here.use.datasets.restore(POOL, ["t4", "t30"], None)
    assert set((await there.select(7)).tasks.tolist()) == {4, 30, *range(35, 40)}


async def test_a_dataset_deleted_and_made_anew_here_is_the_new_one_there(replicas: tuple[World, World]):
    here, there = replicas
    await there.report(outcome("t1"))
    await here.use.datasets.delete(POOL, None)
    with pytest.raises(UnknownDatasetError):
        await there.select(1)
    await here.use.datasets.create(POOL, DatasetHeader(HEADER.reference_models, "other"), stream(block(0, 9)), never)
    assert len((await there.select(9)).tasks) == 9
    assert (await there.report(outcome("t1"))).seq == 1


async def test_a_dataset_made_anew_here_is_the_new_one_where_its_run_was_forgotten(replicas: tuple[World, World]):
    here, there = replicas
    await there.select(1)
    await here.use.datasets.delete(POOL, None)
    await there.opened()
    await there.runs.follow_once()  # so it knows that the run is gone, and has the dataset still open
    await here.use.datasets.create(POOL, DatasetHeader(HEADER.reference_models, "other"), stream(block(0, 9)), never)
    assert len((await there.select(9)).tasks) == 9


@pytest.mark.parametrize("belief", sorted(KINDS))
async def test_a_state_that_knows_newer_tasks_than_this_replica_opens_the_dataset_anew(
    replicas: tuple[World, World], redis_server: RedisServer, belief: str
):
    here, there = replicas
    await here.put_run("default", belief=belief)
    await there.opened()  # with the tasks of now, and not used until others reported more
    grown = block(40, 2)
    grown.references[:] = [[0.01, 0.99], [0.02, 0.5]]
    await here.use.datasets.append(POOL, stream(grown), never)
    await here.report(outcome("t41"), outcome("t2"))
    assert sorted((await there.select(42)).tasks.tolist()) == list(range(42))
    repeated = await here.select(3, key="again")
    assert repeated.reused == 3
    await there.assert_is_a_replay()


async def test_a_published_state_that_knows_newer_tasks_serves_where_sql_can_not_say_whether_it_is_the_newest(
    replicas: tuple[World, World], monkeypatch: pytest.MonkeyPatch
):
    here, there = replicas
    await there.opened()
    await here.use.datasets.append(POOL, stream(block(40, 2)), never)
    await here.report(outcome("t41"))

    async def away(*_: object) -> None:
        raise StorageUnavailableError("the database did not answer")

    monkeypatch.setattr(there.use.store.journal, "head", away)
    selection = await there.select(42)
    assert (selection.seq, selection.degraded) == (1, True)
    assert sorted(selection.tasks.tolist()) == list(range(42))


async def test_tasks_retired_at_once_by_two_are_refused_once(
    replicas: tuple[World, World], monkeypatch: pytest.MonkeyPatch
):
    both_know_the_dataset = asyncio.Barrier(2)
    for replica in replicas:
        datasets = replica.use.store.datasets

        async def retire(*arguments: Any, retire: Retire = datasets.retire) -> DatasetRow:
            await both_know_the_dataset.wait()
            return await retire(*arguments)

        monkeypatch.setattr(datasets, "retire", retire)
    calls = [replica.use.datasets.retire(POOL, [f"t{place}"], None) for place, replica in enumerate(replicas)]
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(one, BusyError) for one in done].count(True) == 1
    monkeypatch.undo()
    await replicas[0].use.datasets.retire(POOL, ["t0", "t1"], None)
    assert (await replicas[1].select(38)).reused == 0


@pytest.mark.parametrize("select_between", [True, False])
async def test_a_selection_is_given_again_under_its_key_where_too_few_tasks_are_left_for_another(
    replicas: tuple[World, World], *, select_between: bool
):
    here, _ = replicas
    first = await here.select(10, key="once")
    await here.use.datasets.retire(POOL, [f"t{place}" for place in range(35)], None)
    if select_between:
        await here.select(1)
    assert (await here.select(10, key="once")).id == first.id
    with pytest.raises(KeyReusedError):
        await here.select(11, key="once")
    with pytest.raises(PoolTooSmallError):
        await here.select(10, key="another")


async def test_a_run_that_an_import_makes_has_lost_nothing(replicas: tuple[World, World]):
    here, there = replicas
    await here.put_run("side")
    await here.report(outcome("t1"), run="side")
    await imported(here, await exported(here, "side"), run="copied")
    selection = await there.select(1, "copied")
    assert (selection.seq, selection.degraded) == (1, False)
