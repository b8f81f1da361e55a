"""Datasets of generators: drawn again and again, from seeds that a retry repeats, and counted group by group."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bots_service.core.draw.selection import SelectRequest
from bots_service.core.run_settings import settings_from
from bots_service.core.state import fresh_state
from bots_service.engine.dataset_builder import DatasetHeader
from bots_service.errors import InvalidOutcomesError, InvalidSelectionError, InvalidSettingsError, PoolTooSmallError
from bots_service.ports.records import IdempotencyKey, Selection, TaskBlock
from bots_service.storage.redis.leases import decode_selection, encode_selection
from bots_service.usecases.report_outcomes import Outcome
from bots_service.usecases.select_tasks import QUICK_NUMBERS, QUICK_PER_WANTED, is_quick
from tests.usecases.replicas import Replica
from tests.usecases.world import POOL, World, never, stream

COUNT = 4
GENERATORS = DatasetHeader(generators=True)


def block(count: int = COUNT) -> TaskBlock:
    return TaskBlock(
        [f"g{number}" for number in range(count)],
        np.empty((count, 0)),
        [("easy",) if number < 2 else () for number in range(count)],
    )


async def made(world: World) -> None:
    await world.use.import_dataset(POOL, GENERATORS, stream(block()), never)


@pytest.fixture
async def generating(empty: World) -> World:
    """A service with one dataset of four generators."""
    await made(empty)
    return empty


def drawn(selection: Selection) -> list[tuple[int, int]]:
    assert selection.seeds is not None
    return list(zip(selection.tasks.tolist(), selection.seeds.tolist(), strict=True))


def groups(selection: Selection, solved: int = 3) -> list[Outcome]:
    return [Outcome(f"g{task}", solved, 8, seed=seed) for task, seed in drawn(selection)]


async def test_a_selection_may_draw_a_generator_many_times_and_leases_none(generating: World):
    told = [await generating.select(10) for _ in range(3)]
    pairs = [pair for selection in told for pair in drawn(selection)]
    assert len(set(pairs)) == 30
    assert all((np.bincount(one.tasks, minlength=COUNT) >= 2).all() for one in told)
    assert [one.reused for one in told] == [0, 0, 0]
    assert (await generating.describe()).leased == 0


async def test_a_retry_gets_the_same_seeds(generating: World):
    first = await generating.select(10, key="key")
    await generating.select(10)
    assert drawn(await generating.select(10, key="key")) == drawn(first)
    _, again = decode_selection(encode_selection(first, "f"))
    assert drawn(again) == drawn(first)


async def test_the_same_calls_give_the_same_draws_elsewhere(generating: World, folder: Callable[[str], Path]):
    other = World.open(folder("other"))
    await made(other)
    for world in (generating, other):
        await world.report(Outcome("g0", 0, 8), Outcome("g0", 8, 8))
    assert drawn(await generating.select(7)) == drawn(await other.select(7))
    for world in (generating, other):
        await world.put_run("seeded", seed=5)
    assert drawn(await generating.select(7, "seeded")) != drawn(await generating.select(7))
    await other.close()


async def test_a_report_counts_each_group_and_is_a_replay(generating: World):
    selection = await generating.select(10)
    receipt = await generating.report(*groups(selection), selection_id=selection.id)
    assert (receipt.tally.reported, receipt.tally.effective, receipt.tally.rollouts) == (10, 10, 80.0)
    task, seed = drawn(selection)[0]
    parts = [Outcome(f"g{task}", rewards=[reward], seed=seed) for reward in (0.0, 1.0)]
    receipt = await generating.report(*parts, Outcome(f"g{task}", rewards=[1.0]))
    assert (receipt.tally.reported, receipt.tally.effective) == (2, 1)
    await generating.assert_is_a_replay()
    after = await generating.select(3)
    assert set(drawn(after)).isdisjoint(drawn(selection))


async def test_effective_groups_may_be_more_than_generators(generating: World):
    wanted = SelectRequest(POOL, want_effective=12)
    selection, _, _ = await generating.use.select_tasks(wanted, None)
    assert len(selection.tasks) > 12
    with pytest.raises(PoolTooSmallError):
        await generating.select(1, exclude=tuple(f"g{number}" for number in range(COUNT)))


async def test_seeds_are_refused_where_there_are_no_generators(world: World):
    with pytest.raises(InvalidOutcomesError) as told:
        await world.report(Outcome("t1", 1, 2), Outcome("t2", 1, 2, seed=5))
    assert [flaw.where for flaw in told.value.flaws] == [("body", "outcomes", 1, "seed")]
    assert (await world.select(3)).seeds is None


@pytest.mark.parametrize("strategy", ["shuffle", "easy_to_hard"])
async def test_strategies_that_use_tasks_up_are_refused(generating: World, strategy: str):
    with pytest.raises(InvalidSettingsError) as told:
        await generating.put_run("other", strategy=strategy)
    assert told.value.flaws[0].where == ("strategy",)
    with pytest.raises(InvalidSettingsError):
        await generating.use.change_settings(POOL, "default", {"strategy": strategy}, None)
    await generating.use.change_settings(POOL, "default", {"strategy": "uniform"}, None)
    assert len((await generating.select(9)).tasks) == 9


async def test_a_strategy_from_elsewhere_is_refused_at_the_selection(
    generating: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("bots_service.usecases.begin_run.require_strategy", lambda *_: None)
    await generating.put_run("imported", strategy="shuffle")
    with pytest.raises(InvalidSelectionError):
        await generating.select(1, "imported")


async def test_appended_generators_are_drawn_too(generating: World):
    more = TaskBlock(["g4", "g5"], np.empty((2, 0)), [(), ("easy",)])
    await generating.use.append_tasks(POOL, stream(more), never)
    assert set((await generating.select(60)).tasks.tolist()) == set(range(6))
    reopened = await generating.reopened()
    assert set((await reopened.select(60)).tasks.tolist()) == set(range(6))
    assert (await reopened.opened()).dataset.row.facts.generators
    await reopened.close()


async def test_replicas_draw_other_seeds_and_a_retry_elsewhere_the_same(replicas: tuple[Replica, Replica]):
    here, there = replicas
    await here.use.import_dataset("made", GENERATORS, stream(block()), never)
    first = await here.select(6, dataset="made", key="key")
    second = await there.select(6, dataset="made")
    assert set(drawn(first)).isdisjoint(drawn(second))
    assert drawn(await there.select(6, dataset="made", key="key")) == drawn(first)
    receipt = await there.report(*groups(first), dataset="made", selection_id=first.id)
    assert receipt.tally.reported == 6
    assert (await here.select(1, dataset="made")).seq == 1


@pytest.fixture
async def other(folder: Callable[[str], Path]) -> AsyncIterator[World]:
    world = World.open(folder("other"))
    yield world
    await world.close()


async def test_content_with_and_without_generators_differs(generating: World, other: World):
    await other.use.import_dataset(POOL, replace(GENERATORS, generators=False), stream(block()), never)
    digests = {(await world.opened()).dataset.row.facts.digest for world in (generating, other)}
    assert len(digests) == 2


async def test_a_draw_of_few_is_quick(generating: World):
    pool = (await generating.opened()).dataset.pool
    state, nobody = fresh_state(settings_from({}), pool), np.empty(0, np.int32)
    assert pool.members.sizes.sum() == COUNT
    most = (QUICK_NUMBERS - COUNT) // QUICK_PER_WANTED
    assert is_quick(SelectRequest(POOL, most), state, pool, nobody)
    assert not is_quick(SelectRequest(POOL, most + 1), state, pool, nobody)
    assert not is_quick(SelectRequest(POOL, want_effective=1), state, pool, nobody)


async def test_a_key_of_another_request_is_not_answered_with_draws(generating: World):
    wanted = SelectRequest(POOL, 3)
    first, _, _ = await generating.use.select_tasks(wanted, IdempotencyKey("key", "fingerprint"))
    again, _, is_again = await generating.use.select_tasks(wanted, IdempotencyKey("key", "fingerprint"))
    assert (drawn(again), is_again) == (drawn(first), True)
