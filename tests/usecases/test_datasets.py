"""Datasets, with their subsets: nothing half-imported is seen, and changes leave what was believed."""

import asyncio
import itertools
from collections.abc import AsyncIterator

import numpy as np
import pytest

from bots_service import errors
from bots_service.core.belief import KINDS
from bots_service.core.belief.distributions import Distributions
from bots_service.records import IdempotencyKey, Subset, TaskBlock
from tests.usecases.world import HEADER, POOL, World, block, flaws_of, meanwhile, never, outage, outcome, stream


def cut(whole: TaskBlock, *ends: int) -> list[TaskBlock]:
    starts = (0, *ends)
    stops = (*ends, len(whole))
    return [
        TaskBlock(whole.ids[a:b], whole.references[a:b], whole.tags[a:b]) for a, b in zip(starts, stops, strict=True)
    ]


def changed(
    whole: TaskBlock, task: int, *, rate: float | None = None, tags=None, task_id: str | None = None
) -> TaskBlock:
    ids, references, all_tags = list(whole.ids), whole.references.copy(), list(whole.tags)
    if rate is not None:
        references[task, 0] = rate
    if tags is not None:
        all_tags[task] = tags
    if task_id is not None:
        ids[task] = task_id
    return TaskBlock(ids, references, all_tags)


def hidden(world: World) -> int:
    """Return how many stages and blocks without a name there are."""
    named = "SELECT id FROM datasets WHERE name IS NOT NULL"
    [(count,)] = world.sql(f"SELECT count(*) FROM task_blocks WHERE dataset_id NOT IN ({named})")  # noqa: S608 - fixed
    [(stages,)] = world.sql("SELECT count(*) FROM datasets WHERE name IS NULL")
    return int(count + stages)


async def test_an_upload_ends_as_it_would_where_its_stage_can_not_be_dropped(world: World):
    wrong, datasets, arrived = changed(block(50, 3), 1, rate=2.0), world.use.datasets, asyncio.Event()

    async def endless() -> AsyncIterator[TaskBlock]:
        yield block()
        arrived.set()
        await asyncio.Event().wait()

    with outage(world.use.store.datasets, "drop_stage"):
        for refused in (
            datasets.create("other", *HEADER, stream(wrong), never),
            datasets.append(POOL, stream(wrong), never),
        ):
            with pytest.raises(errors.InvalidTasksError, match="invalid tasks"):
                await refused
        row = (await world.opened()).dataset.row
        assert await datasets.create(POOL, *HEADER, stream(block()), never) == (row, False)
        assert (await datasets.create("other", *HEADER, stream(block(0, 3)), never))[1]
        assert (await datasets.append("other", stream(block(3, 2)), never)).live == 5
        upload = asyncio.create_task(datasets.create("given up", *HEADER, endless(), never))
        await arrived.wait()
        upload.cancel()
        with pytest.raises(asyncio.CancelledError):
            await upload


async def test_the_digest_knows_the_content_and_not_its_blocks(empty: World):
    whole = block()
    row, new = await empty.use.datasets.create(POOL, *HEADER, stream(whole), never)
    assert new
    for ends in [(1,), (20,), (39,), (0, 0, 40), tuple(range(1, 40))]:
        again, new = await empty.use.datasets.create(POOL, *HEADER, stream(*cut(whole, *ends)), never)
        assert (again, new) == (row, False)
    zero = changed(whole, 0, rate=0.0)
    one, _ = await empty.use.datasets.create("zero", *HEADER, stream(zero), never)
    odd_nan = changed(changed(whole, 0, rate=-0.0), 8, rate=float(np.array(0xFFF8000000000001, np.uint64).view(float)))
    assert (await empty.use.datasets.create("zero", *HEADER, stream(odd_nan), never)) == (one, False)
    others = [
        changed(whole, 3, rate=0.0625),
        changed(whole, 3, tags=("even", "odd")),
        changed(whole, 3, task_id="other"),
        cut(whole, 39)[0],
    ]
    for other in others:
        with pytest.raises(errors.DatasetExistsError):
            await empty.use.datasets.create(POOL, *HEADER, stream(other), never)
    for header in ((("weak", "other"), "about ü"), (("weak", "strong"), "about")):
        with pytest.raises(errors.DatasetExistsError):
            await empty.use.datasets.create(POOL, *header, stream(whole), never)
    assert hidden(empty) == 0


async def test_an_import_that_fails_leaves_nothing(empty: World):
    async def endless() -> AsyncIterator[TaskBlock]:
        for number in itertools.count():
            yield block(number % 5 * 10, 10)

    wrong = TaskBlock([""] * 1000, np.full((1000, 2), 2.0), [()] * 1000)
    for blocks, flaws in (
        (endless(), [("tasks", 50, "id")]),  # while the tasks still come
        (stream(wrong), [("tasks", place, "id") for place in range(20)]),
        (stream(), []),
    ):
        assert await flaws_of(empty.use.datasets.create(POOL, *HEADER, blocks, never)) == flaws
    with pytest.raises(ConnectionError):
        await empty.use.datasets.create(POOL, *HEADER, stream(block(), fail=ConnectionError()), never)
    assert await empty.use.store.datasets.after("", 10) == []
    assert hidden(empty) == 0


async def test_what_is_imported_is_what_is_told_and_opened(empty: World):
    row, _ = await empty.use.datasets.create(POOL, *HEADER, stream(*cut(block(), 7, 30)), never)
    whole = block()
    assert (row.live, row.retired, row.version) == (40, 0, 1)
    assert row.facts.tags == {"even": 20, "odd": 20, "rare": 4}
    known = {tuple(rates) for rates in whole.references.tolist() if not np.isnan(rates).any()}
    assert row.facts.profiles == len(known) + 1
    for world in (empty, empty.beside()):
        opened = (await world.opened()).dataset
        assert list(opened.ids) == whole.ids
        np.testing.assert_array_equal(opened.pool.references[opened.pool.profile_of], whole.references)
        assert opened.pool.tags["rare"].tolist() == [1, 11, 21, 31]


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        (block(3, 1), ("tasks", 40, "id")),
        (block(50, 1, ids=[""]), ("tasks", 40, "id")),
        (block(50, 1, ids=["t" * 257]), ("tasks", 40, "id")),
        (block(50, 1, ids=["t\n"]), ("tasks", 40, "id")),
        (block(50, 1, ids=["\ud800"]), ("tasks", 40, "id")),
        (changed(block(50, 2), 1, rate=1.01), ("tasks", 41, "reference_pass_rates", 0)),
        (changed(block(50, 2), 1, rate=-0.01), ("tasks", 41, "reference_pass_rates", 0)),
        (changed(block(50, 2), 1, rate=np.inf), ("tasks", 41, "reference_pass_rates", 0)),
        (TaskBlock(["x"], np.zeros((1, 3)), [()]), ("tasks", 40, "reference_pass_rates")),
        (changed(block(50, 1), 0, tags=("",)), ("tasks", 40, "tags")),
        (changed(block(50, 1), 0, tags=("x" * 65,)), ("tasks", 40, "tags")),
        (changed(block(50, 1), 0, tags=("x\0",)), ("tasks", 40, "tags")),
        (changed(block(50, 1), 0, tags=tuple(f"tag-{n:02}" for n in range(33))), ("tasks", 40, "tags")),
    ],
)
async def test_tasks_that_can_not_be_true_are_refused(empty: World, wrong, where):
    assert where in await flaws_of(empty.use.datasets.create(POOL, *HEADER, stream(block(), wrong), never))


async def test_the_largest_ids_and_tags_are_taken(empty: World):
    tags = tuple(sorted(f"{n:02}" + "x" * 62 for n in range(32)))
    most = changed(block(0, 1, ids=["ü" * 256]), 0, tags=tags)
    row, _ = await empty.use.datasets.create(POOL, *HEADER, stream(most, block(1, 1)), never)
    assert row.facts.tags == {**dict.fromkeys(tags, 1), "odd": 1, "rare": 1}
    assert (await empty.report(outcome("ü" * 256))).reported == 1


async def test_three_reference_models_are_put_in_the_order_of_their_means(empty: World):
    rates = np.array([[0.9, 0.1, 0.5], [0.8, 0.2, 0.6], [np.nan, 1.0, 1.0]])
    pool = TaskBlock(["a", "b", "c"], rates, [(), (), ()])
    row, _ = await empty.use.datasets.create(POOL, ("x", "y", "z"), "", stream(pool), never)
    assert (row.facts.reference_models, row.facts.reference_order) == (("x", "y", "z"), (1, 2, 0))
    more = TaskBlock(["d"], np.array([[0.0, 1.0, 1.0]]), [()])
    await empty.use.datasets.append(POOL, stream(more, TaskBlock(["e"], np.array([[0.9, 0.1, 0.5]]), [()])), never)
    for world in (empty, empty.beside()):
        pool_now = (await world.opened()).dataset.pool
        np.testing.assert_array_equal(pool_now.references[0], [0.1, 0.5, 0.9])
        np.testing.assert_array_equal(pool_now.references[3], [1.0, 1.0, 0.0])
        assert pool_now.profile_of.tolist() == [0, 1, 2, 3, 0]


def moments(believed: Distributions) -> np.ndarray:
    """Two numbers of each task that tell its distribution, whichever kind it is of."""
    return np.array([believed.mean, believed.rollout_variance])


@pytest.mark.parametrize("belief", sorted(KINDS))
async def test_appending_leaves_beliefs_and_gives_new_profiles_what_the_steps_implied(world: World, belief: str):
    grown = block(40, 3)
    grown.references[:] = [[0.01, 0.99], *block(0, 2).references]
    await world.import_pool("whole", block(), grown)
    for name in (POOL, "whole"):
        await world.put_run("default", name, belief=belief)
    for step in range(5):
        for name in (POOL, "whole"):
            await world.report(*(outcome(f"t{task}", (task * step) % 17) for task in range(6)), dataset=name)
    pool = (await world.opened()).dataset.pool
    everyone = np.arange(40, dtype=np.int32)
    before = moments((await world.state()).belief.distributions(pool, everyone))
    row = await world.use.datasets.append(POOL, stream(*cut(grown, 1)), never)
    assert (row.live, row.version, row.facts.profiles) == (43, 2, pool.profiles + 1)
    after = (await world.opened()).dataset.pool
    np.testing.assert_array_equal(moments((await world.state()).belief.distributions(after, everyone)), before)
    for name in (POOL, "whole"):
        await world.report(outcome("t40"), outcome("t1"), dataset=name)
    everyone = np.arange(43, dtype=np.int32)
    appended, whole = [
        moments((await world.state("default", name)).belief.distributions(after, everyone)) for name in (POOL, "whole")
    ]
    np.testing.assert_allclose(appended, whole, rtol=1e-12)  # as if they had been there all the time
    await world.assert_is_a_replay()
    assert row.facts.digest == (await world.use.store.datasets.get("whole")).facts.digest


async def test_a_new_dataset_chooses_its_offset_tags_and_an_append_keeps_them(empty: World):
    await empty.import_pool(POOL, block(0, 90))
    row = await empty.use.datasets.append(POOL, stream(block(90, 310)), never)
    assert row.facts.tags["rare"] == 40  # enough by now, and too late
    mine, theirs = [(await world.opened()).dataset for world in (empty, empty.beside())]
    assert mine.row.facts.offset_tags == ("even", "odd")
    assert (theirs.row.facts, theirs.pool.offset_tags) == (mine.row.facts, mine.pool.offset_tags)
    np.testing.assert_array_equal(theirs.pool.profile_of, mine.pool.profile_of)  # each process numbers them alike
    np.testing.assert_array_equal(theirs.pool.carried, mine.pool.carried)
    assert mine.pool.carried[mine.pool.profile_of].tolist() == [1, 2] * 200
    await empty.import_pool("whole", block(0, 400))
    assert (await empty.opened(dataset="whole")).dataset.pool.offset_tags == ("even", "odd", "rare")


async def test_appended_ids_must_be_new(world: World):
    for blocks, error in [
        ([block(40, 2), block(12, 1)], errors.TaskExistsError),
        ([block(40, 2), block(41, 1)], errors.InvalidTasksError),
        ([], errors.InvalidTasksError),
    ]:
        before = (await world.opened()).dataset
        with pytest.raises(error):
            await world.use.datasets.append(POOL, stream(*blocks), never)
        assert (await world.opened()).dataset is before  # a refused append costs nobody anything
        assert hidden(world) == 0
    with pytest.raises(errors.UnknownDatasetError):
        await world.use.datasets.append("none", stream(block(40, 1)), never)


async def test_a_dataset_that_changes_while_it_is_loaded_is_loaded_again(world: World):
    cold = world.beside()

    async def appended() -> None:
        await world.use.datasets.append(POOL, stream(block(40, 2)), never)
        cold.use.datasets.invalidate(POOL)

    meanwhile(cold.use.store.datasets, "retired", appended, after=True)
    assert len((await cold.opened()).dataset.ids) == 42


async def test_an_append_that_is_overtaken_while_it_reads_the_dataset_is_refused_as_busy(world: World):
    other = world.beside()
    await other.opened()
    overtake = world.use.datasets.append(POOL, stream(block(40, 2)), never)
    meanwhile(other.use.store.datasets, "get", lambda: overtake, after=True)
    with pytest.raises(errors.BusyError):
        await other.use.datasets.append(POOL, stream(block(40, 2)), never)
    assert hidden(world) == 0
    assert (await other.opened()).dataset.row.live == 42
    row = await other.use.datasets.append(POOL, stream(block(50, 1)), never)
    assert row.live == 43


async def test_changes_at_once_give_one_change_and_refusals(world: World):
    begun, changed, datasets = asyncio.Semaphore(0), asyncio.Event(), world.use.datasets

    async def once_changed(tasks: TaskBlock) -> AsyncIterator[TaskBlock]:
        begun.release()
        await changed.wait()
        yield tasks

    appends = [asyncio.create_task(datasets.append(POOL, once_changed(block(at, 1)), never)) for at in (40, 50)]
    for _ in appends:
        await begun.acquire()
    await world.beside().use.datasets.retire(POOL, ["t3"], None)
    changed.set()
    done = await asyncio.gather(*appends, return_exceptions=True)
    assert [type(one) for one in done] == [errors.BusyError, errors.BusyError]
    assert hidden(world) == 0
    assert (await datasets.append(POOL, stream(block(60, 1)), never)).version == 3


async def test_retired_tasks_are_not_selected_until_they_are_restored_with_what_is_known_of_them(world: World):
    datasets = world.use.datasets
    row = await datasets.retire(POOL, ["t3", "t5", "t3"], None)
    assert (row.live, row.retired) == (38, 2)
    row = await datasets.retire(POOL, ["t5", "t0"], None)
    assert (row.live, row.retired, row.version) == (37, 3, 3)
    assert (await world.report(outcome("t3"))).reported == 1
    for one in (world, world.beside()):
        with pytest.raises(errors.PoolTooSmallError):
            await one.select(38)
        assert not {0, 3, 5} & set((await one.select(37)).tasks.tolist())
    row = await datasets.retire(POOL, ["t5", "t3", "t3", "t1"], None, restore=True)
    assert (row.live, row.retired, row.version) == (39, 1, 4)
    for one in (world.beside(), world.beside()):
        assert set((await one.select(39)).tasks.tolist()) == set(range(40)) - {0}
        assert (await one.state()).attempts.of(np.array([3], np.int32)).visits.tolist() == [1]
    for restore in (False, True):
        assert await flaws_of(datasets.retire(POOL, ["t0", "x"], None, restore=restore)) == [("ids", 1)]
    assert (await world.opened()).dataset.pool.retired.tolist() == [0]


async def test_a_deleted_dataset_is_gone_and_its_name_is_free(world: World):
    await world.report(outcome("t1"))
    before = await world.opened()
    await world.use.datasets.delete(POOL, None)
    for call in (world.describe(), world.select(1), world.report(outcome("t1")), world.use.datasets.delete(POOL, None)):
        with pytest.raises(errors.UnknownDatasetError):
            await call
    await world.import_pool(POOL, block(0, 1))
    with pytest.raises(errors.UnknownRunError):
        await world.use.datasets.current(before)
    with pytest.raises(errors.InvalidOutcomesError):
        await world.report(outcome("t1"))
    assert (await world.state()).seq == 0
    for table in ("journal", "snapshots"):
        assert world.sql(f"SELECT count(*) FROM {table}") == [(0,)]  # noqa: S608 - names of tables


async def test_many_datasets_in_a_tiny_cache_are_still_right(folder):
    whole = World.open(folder("tiny"), snapshot_every=3)
    tiny = whole.settings.model_copy(update={"cache_bytes": 1})  # less than settings may say
    world = World.over(whole.folder, tiny, whole.database)
    for number in range(6):
        await world.import_pool(f"pool-{number}", block(0, 10 + number))

    async def work(caller: int) -> None:
        for turn in range(6):
            number = (caller + turn) % 6
            selection = await world.select(3, dataset=f"pool-{number}")
            assert max(selection.tasks) < 10 + number
            await world.report(outcome(f"t{9 + number}", turn), dataset=f"pool-{number}", selection_id=selection.id)

    await asyncio.gather(*map(work, range(6)))
    kept = [world.use.datasets.known(f"pool-{number}") for number in range(6)]
    assert sum(dataset is not None for dataset in kept) == len(world.runs.states._states) == 1
    for number in range(6):
        assert (await world.assert_is_a_replay("default", f"pool-{number}")).seq == 6
    await world.close()


# --- subsets ---------------------------------------------------------------------------------------------------------


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
    with pytest.raises(errors.PoolTooSmallError, match=f"of subset {name}"):
        await world.select(16, subset=name)
    assert len((await world.select(25)).tasks) == 25, "others select as if it were not there"


async def test_tags_and_first_tasks_count_within_a_subset(world: World):
    name = await made(world, range(10))
    tagged = await world.select(5, subset=name, tags=("even",), key="k")
    assert sorted(tagged.tasks.tolist()) == [0, 2, 4, 6, 8]
    first = await world.select(3, subset=name, first=("t30", "t1"))
    assert first.tasks[0] == 1
    assert set(first.tasks.tolist()) <= set(range(10))
    with pytest.raises(errors.PoolTooSmallError):
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
    with pytest.raises(errors.InvalidTasksError):
        await world.use.datasets.keep_subset(POOL, stream(), never)


async def test_a_subset_with_tasks_that_the_dataset_lacks_is_not_kept(world: World):
    subset = await make(world, [1, 77, 2, 78])
    assert subset == Subset(POOL, None, 2, 0, 38, (1, 3))
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
    await world.use.datasets.retire(POOL, ["t2"], None, restore=True)
    assert sorted((await world.select(3, subset=subset.name)).tasks.tolist()) == [1, 2, 3]
    await world.use.datasets.retire(POOL, ["t1", "t2", "t3"], None)
    for _ in range(2):  # the second time the subset is ready
        with pytest.raises(errors.PoolTooSmallError):
            await world.select(1, subset=subset.name)


async def test_more_subsets_than_are_kept_open_are_selected_in(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bots_service.datasets.SUBSET_TASKS", 3 * 40)
    names = [await made(world, range(first, first + 2)) for first in range(0, 38, 2)]
    for name in [*names, *names]:
        first = 2 * names.index(name)
        assert sorted((await world.select(2, subset=name)).tasks.tolist()) == [first, first + 1]
        await world.report(*(outcome(f"t{number}") for number in (first, first + 1)))
        assert len((await world.opened()).dataset.subsets) <= 3


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


async def test_coverage_says_how_far_the_pass_through_a_subset_is(world: World):
    name = await made(world, range(0, 40, 2))
    reached: list[float] = []
    for _ in range(6):
        selection = await world.select(5, subset=name)
        await world.report(*(outcome(f"t{task}") for task in selection.tasks), selection_id=selection.id)
        shown = (await world.describe()).coverage
        assert shown.passes is not None
        reached.append(shown.passes)
    assert reached == sorted(set(reached))
    assert reached[-1] > 1, "30 of 20 tasks"
