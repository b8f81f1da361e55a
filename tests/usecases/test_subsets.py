"""Subsets of a dataset: made once, selected in, and known to every replica."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.belief.kinds import KINDS
from bots_service.core.pool import Pool
from bots_service.errors import InvalidTasksError, PoolTooSmallError
from bots_service.records import IdempotencyKey, PredictionBlock, Subset
from tests.usecases.world import POOL, World, block, flaws_of, never, outcome, stream


async def make(world: World, numbers, key: IdempotencyKey | None = None) -> Subset:
    one = block(0, len(numbers), ids=[f"t{number}" for number in numbers])
    return await world.use.datasets.keep_subset(POOL, stream(one), lambda: key)


async def made(world: World, numbers) -> str:
    subset = await make(world, numbers)
    assert subset.name is not None
    return subset.name


@pytest.mark.parametrize("belief", sorted(KINDS))
@pytest.mark.parametrize("strategy", ["pass", "thompson", "uniform", "shuffle"])
async def test_selections_stay_in_their_subset(world: World, belief: str, strategy: str):
    await world.put_run("default", belief=belief, strategy=strategy)
    mine = set(range(5, 20))
    name = await made(world, sorted(mine))
    chosen: list[int] = []
    for _ in range(3):
        selection = await world.select(5, subset=name)
        assert selection.reused == 0
        chosen += selection.tasks.tolist()
    assert sorted(chosen) == sorted(mine)
    with pytest.raises(PoolTooSmallError, match=f"of subset {name}"):
        await world.select(16, subset=name)
    assert len((await world.select(25)).tasks) == 25, "others select as if it were not there"


async def test_tags_and_first_tasks_count_within_a_subset(world: World):
    name = await made(world, range(10))
    tagged = await world.select(5, subset=name, tags=("even",), key="k")
    assert sorted(tagged.tasks.tolist()) == [0, 2, 4, 6, 8]
    first = await world.select(3, subset=name, first=("t30", "t1"))
    assert first.tasks[0] == 1
    assert set(first.tasks.tolist()) <= set(range(10))
    with pytest.raises(PoolTooSmallError):
        await world.select(6, subset=name, tags=("even",))


async def test_the_same_tasks_are_the_same_subset_in_any_order(world: World):
    key = IdempotencyKey("k", "print", "scope")
    first = await make(world, [3, 1, 2], key)
    assert first == await make(world, [2, 2, 3, 1])
    assert (first.tasks, first.retired, first.others, first.missing) == (3, 0, 37, ())
    assert first.name != (await make(world, [1, 2])).name
    kept = await world.use.store.answers.find("scope", "k", Subset)
    assert kept is not None
    assert kept.result == first
    with pytest.raises(InvalidTasksError):
        await world.use.datasets.keep_subset(POOL, stream(), never)


async def test_a_subset_with_tasks_that_the_dataset_lacks_is_not_kept(world: World):
    subset = await make(world, [1, 77, 2, 78])
    assert subset == Subset(None, 2, 0, 38, (1, 3))
    await world.use.datasets.append(POOL, stream(block(77, 2)), never)
    name, whole = await made(world, [1, 77, 2, 78]), await made(world, range(40))
    assert sorted((await world.select(4, subset=name)).tasks.tolist()) == [1, 2, 40, 41]
    await world.use.datasets.append(POOL, stream(block(100, 10)), never)
    assert set((await world.select(36, subset=whole)).tasks.tolist()) < set(range(40))  # it stays what it is


async def test_retired_tasks_of_a_subset_are_counted_and_not_selected(world: World):
    await world.use.datasets.retire(POOL, ["t2", "t30"], None)
    subset = await make(world, [1, 2, 3])
    assert (subset.tasks, subset.retired, subset.others) == (3, 1, 37)
    assert sorted((await world.select(2, subset=subset.name)).tasks.tolist()) == [1, 3]
    await world.rewind(0)
    await world.use.datasets.restore(POOL, ["t2"], None)
    assert sorted((await world.select(3, subset=subset.name)).tasks.tolist()) == [1, 2, 3]
    await world.use.datasets.retire(POOL, ["t1", "t2", "t3"], None)
    for _ in range(2):  # the second time the subset is ready
        with pytest.raises(PoolTooSmallError):
            await world.select(1, subset=subset.name)


async def test_a_run_that_knows_predictions_selects_in_a_subset(world: World):
    async def predictions():
        yield PredictionBlock([f"t{number}" for number in range(40)], np.linspace(0, 1, 40))

    await world.use.datasets.put_predictions(POOL, "probe", predictions(), never)
    await world.put_run("seeing")
    name = await made(world, range(5))
    assert sorted((await world.select(5, "seeing", subset=name)).tasks.tolist()) == list(range(5))


async def test_more_subsets_than_are_kept_open_are_selected_in(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bots_service.datasets.SUBSET_TASKS", 3 * 40)
    names = [await made(world, range(first, first + 2)) for first in range(0, 38, 2)]
    for name in [*names, *names]:
        first = 2 * names.index(name)
        assert sorted((await world.select(2, subset=name)).tasks.tolist()) == [first, first + 1]
        await world.report(*(outcome(f"t{number}") for number in (first, first + 1)))
        assert len((await world.opened()).dataset.subsets) <= 3


async def test_a_subset_of_the_whole_dataset_is_the_dataset(world: World):
    name = await made(world, range(40))
    await world.select(1, subset=name)
    opened = await world.opened()
    assert (await world.use.datasets.within(opened, name)).dataset.pool is opened.dataset.pool


async def test_a_subset_made_here_is_known_there(replicas: tuple[World, World]):
    here, there = replicas
    await there.select(1)
    await here.use.datasets.append(POOL, stream(block(40, 4)), never)
    name = await made(here, range(38, 44))
    assert sorted((await there.select(6, subset=name)).tasks.tolist()) == list(range(38, 44))


async def test_a_dataset_made_anew_has_no_subsets(world: World):
    name = await made(world, range(4))
    await world.use.datasets.delete(POOL, None)
    await world.import_pool()
    for one in (world, world.beside()):
        assert await flaws_of(one.select(1, subset=name)) == [("body", "subset")]


@given(st.sets(st.integers(0, 39), min_size=1), st.sets(st.integers(0, 39)))
def test_only_some_tasks_of_a_pool_are_those_that_are_not_retired(mine, retired):
    pool = Pool.of_tasks(block().references, {"even": np.arange(0, 40, 2, dtype=np.int32)})
    pool = replace(pool, retired=np.array(sorted(retired), np.int32))
    part = pool.only("mine", np.array(sorted(mine), np.int32))
    assert sorted(part.part().members.order.tolist()) == sorted(mine - retired)
    tagged = part.part(("even",)).members.order.tolist()
    assert sorted(tagged) == sorted(task for task in mine - retired if task % 2 == 0)
    assert len(part) == len(pool)


async def test_coverage_says_how_far_the_pass_through_a_subset_is(world: World):
    name = await made(world, range(0, 40, 2))
    reached: list[float] = []
    for _ in range(6):
        selection = await world.select(5, subset=name)
        await world.report(*(outcome(f"t{task}") for task in selection.tasks), selection_id=selection.id)
        shown = (await world.describe()).coverage
        assert shown.passes_done is not None
        assert shown.pass_share is not None
        reached.append(shown.passes_done + shown.pass_share)
    assert reached == sorted(set(reached))
    assert reached[-1] > 1, "30 of 20 tasks"
