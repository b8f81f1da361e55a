"""Callers that stop at any await, and writes at once: what was appended counts once, and the run goes on."""

import asyncio
import contextlib
import random
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any

import numpy as np
import pytest

from bots_service import errors
from bots_service.core.codec import encode_state
from bots_service.outcomes import Outcome
from bots_service.records import IdempotencyKey, OpenDataset, Selection
from bots_service.runs import ForkFrom
from tests.sizes import size
from tests.usecases.world import HEADER, POOL, TASKS, World, block, exported, never, outcome, outcomes_of, stream


def cancelled_at(waiting: asyncio.Future[Any]) -> Generator[Any, Any, None]:
    """Wait as the call does, and let the wait be cancelled, as the caller's own task is when its client leaves."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        yield waiting
    task.uncancel()


@types.coroutine
def stopped_at(call: Coroutine[Any, Any, Any], place: int, error: type[BaseException]) -> Generator[Any, Any, bool]:
    """Run the call and raise an error at the place where it waits for the n-th time; say whether it got that far."""
    waits = 0
    try:
        waiting = call.send(None)
        while True:
            waits += 1
            if waits == place:
                yield from cancelled_at(waiting)
                waiting = call.throw(error())
            else:
                yield waiting
                waiting = call.send(None)
    except StopIteration:
        pass
    except (asyncio.CancelledError, RuntimeError):
        return True
    return waits >= place


async def settle(world: World) -> None:
    """Let everything in line be committed, and everything that was shielded come to its end."""
    for _ in range(3):
        await world.database.write(lambda _: None)
        await asyncio.sleep(0.001)


@pytest.mark.no_cover
@pytest.mark.parametrize("error", [asyncio.CancelledError, RuntimeError])
async def test_a_report_stopped_at_any_wait_counts_once_or_never(world: World, error: type[BaseException]):
    standing, place, stopped = world, 0, True
    while stopped:
        place += 1
        standing = await standing.reopened()
        stopped = await stopped_at(standing.report(outcome("t1", place), key=f"key-{place}"), place, error)
        if place % 2:
            standing = await standing.reopened()
        else:
            await settle(standing)
        [(kept,)] = standing.sql("SELECT count(*) FROM journal WHERE key = ?", f"key-{place}")
        assert kept <= 1
        receipt = await standing.report(outcome("t1", place), key=f"key-{place}")
        assert receipt.seq == (await standing.assert_is_a_replay()).seq == place
        assert receipt == (await standing.replay())[1][-1]
    assert place > 6  # a cold report waits for the dataset, its blocks, the run, the head, a stored state, the journal
    await standing.close()


@pytest.mark.parametrize("seed", range(size(4, 12)))
async def test_callers_cancelled_at_random_lose_and_double_nothing(world: World, seed: int):
    chance = random.Random(seed)

    async def one(turn: int) -> None:
        kind = chance.random()
        if kind < 0.15:
            await world.runs.change_settings(POOL, "default", {"seed": turn}, IdempotencyKey(f"key-{turn}", ""))
        elif kind < 0.3:
            await world.rewind(chance.randint(0, 3))
        else:
            selection = await world.select(2)
            await world.report(*outcomes_of(selection, turn % 17), selection_id=selection.id, key=f"key-{turn}")

    tasks = [asyncio.create_task(one(turn)) for turn in range(30)]
    for task in chance.sample(tasks, 15):
        await asyncio.sleep(chance.random() * 0.004)
        task.cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    odd = [one for one in done if one is not None and not isinstance(one, errors.BotsError | asyncio.CancelledError)]
    assert odd == []
    await settle(world)
    await world.report(outcome("t1"))
    state = await world.assert_is_a_replay()
    again = await world.reopened()
    assert encode_state(await again.assert_is_a_replay()) == encode_state(state)
    keys = [key for (key,) in again.sql("SELECT key FROM journal WHERE key IS NOT NULL")]
    assert len(keys) == len(set(keys))
    await again.close()


Call = Callable[[World, int], Coroutine[Any, Any, Any]]

CHANGES: dict[str, Call] = {
    "import": lambda world, n: world.use.datasets.create(f"new-{n}", *HEADER, stream(block(0, 3), block(3, 3)), never),
    "append": lambda world, n: world.use.datasets.append(f"pool-{n}", stream(block(4, 2), block(6, 2)), never),
    "retire": lambda world, n: world.use.datasets.retire(POOL, [f"t{n}"], None),
    "restore": lambda world, n: world.use.datasets.retire(POOL, [f"t{39 - n % 10}"], None, restore=True),
    "put": lambda world, n: world.runs.put(POOL, f"fresh-{n}", {"seed": n}, None, None),
    "fork": lambda world, n: world.runs.put(POOL, f"fork-{n}", {"seed": n}, ForkFrom("default", 2), None),
    "patch": lambda world, n: world.runs.change_settings(POOL, "default", {"seed": n}, None),
    "rewind": lambda world, _: world.runs.rewind(POOL, "default", 2, None),
    "delete run": lambda world, _: world.runs.delete(POOL, "default", None),
    "delete": lambda world, _: world.use.datasets.delete(POOL, None),
}


def facts_of(dataset: OpenDataset) -> tuple[Any, ...]:
    return dataset.row, list(dataset.ids), dataset.pool.retired.tolist(), dataset.pool.profile_of.tolist()


async def what_stands(world: World) -> dict[str, Any]:
    """Return all that a service says of its datasets and runs, from wherever it has it."""
    found: dict[str, Any] = {}
    for row in await world.use.store.datasets.after("", 1000):
        found[row.name] = facts_of((await world.opened(dataset=row.name)).dataset)
        for run in await world.use.store.runs.all(row.id):
            await world.report(outcome("t0"), run=run.name, dataset=row.name)  # nobody is stuck
            state = await world.assert_is_a_replay(run.name, row.name)
            uid = (await world.row(run.name, row.name)).uid
            found[f"{row.name}/{run.name}"] = (uid, encode_state(state))
    return found


async def assert_memory_and_sql_are_at_one(world: World) -> None:
    """Compare what a service knows, after it went on a little, with what one that starts now reads."""
    known, cold = await what_stands(world), world.beside()
    for name, told in known.items():
        dataset, _, run = name.partition("/")
        if run:
            assert told == ((await cold.row(run, dataset)).uid, encode_state(await cold.state(run, dataset)))
        else:
            assert told == facts_of((await cold.opened(dataset=dataset)).dataset)


async def delete_what_was_made(world: World, place: int) -> None:
    """Delete the datasets and runs of one place: the next check would look at them again."""
    for dataset in (f"new-{place}", f"pool-{place}"):
        with contextlib.suppress(errors.UnknownDatasetError):
            await world.use.datasets.delete(dataset, None)
    for run in (f"fresh-{place}", f"fork-{place}"):
        with contextlib.suppress(errors.UnknownDatasetError, errors.UnknownRunError):
            await world.runs.delete(POOL, run, None)


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_stopped_at_any_wait_leaves_memory_and_sql_at_one(world: World, name: str):
    for step in range(3):
        await world.report(outcome(f"t{step}"))
    await world.use.datasets.retire(POOL, [f"t{task}" for task in range(30, 40)], None)
    warm, place, stopped = world, 0, True
    while stopped and world.sql("SELECT id FROM datasets WHERE name = ?", POOL):
        place += 1
        warm = world.beside()
        if name == "put":
            await warm.put_run(f"fresh-{place}")
        if name == "append":
            await warm.import_pool(f"pool-{place}", block(0, 4))
        await warm.select(1)
        stopped = await stopped_at(CHANGES[name](warm, place), place, asyncio.CancelledError)
        await settle(warm)
        await assert_memory_and_sql_are_at_one(warm)
        # The one stage whose number its caller did not wait for is dropped a day later.
        assert len(world.sql("SELECT id FROM datasets WHERE name IS NULL")) <= 1
        await delete_what_was_made(warm, place)
    assert place > 1
    if name == "delete":
        with pytest.raises(errors.UnknownDatasetError):
            await warm.opened()


# --- two writes at once ----------------------------------------------------------------------------------------------


Write = Callable[[World, str], Awaitable[object]]

VALUES: dict[str, list[Any]] = {
    "mix": [{}, {"even": 1.0}, {"even": 1.0, "odd": 2.0}, {"even": 1.0, "odd": 1.0, "rare": 1.0}],
    "strategy": ["pass", "thompson", "uniform"],
    "tasks_per_step": [None, 2, 5],
    "reward_range": [(0.0, 1.0), (-1.0, 1.0)],
    "seed": [0, 1, 2],
    "prior": [(1.0, 1.0), (2.0, 1.0)],
}


async def rows_of(world: World, selection: Selection, successes: float = 4.0) -> list[Outcome]:
    ids = (await world.opened()).dataset.ids  # tasks are appended here in any order
    return [outcome(ids[task], successes) for task in selection.tasks.tolist()]


def a_write(rng: np.random.Generator) -> tuple[str, Write]:
    """Return any write of a run with what it does in words."""

    async def select_and_report(world: World, run: str) -> None:
        selection = await world.select(3, run)
        await world.report(*await rows_of(world, selection, successes), run=run, selection_id=selection.id)

    async def fork(world: World, run: str) -> None:
        await world.runs.put(POOL, f"{run}-fork", {}, ForkFrom(run), None)
        await world.runs.delete(POOL, f"{run}-fork", None)

    name = str(rng.choice(["mix", *VALUES]))
    values = {name: VALUES[name][rng.integers(len(VALUES[name]))]}
    step, task, successes = int(rng.integers(6, 10)), int(rng.integers(TASKS)), float(rng.integers(3) * 8)
    rows = [outcome(f"t{one}", successes) for one in rng.integers(TASKS, size=4)]
    writes: list[tuple[str, Write]] = [
        (f"settings {values}", lambda world, run: world.runs.change_settings(POOL, run, values, None)),
        (f"settings {values}", lambda world, run: world.runs.change_settings(POOL, run, values, None)),
        ("report", lambda world, run: world.report(*rows, run=run)),
        ("select and report", select_and_report),
        (f"rewind to {step}", lambda world, run: world.rewind(step, run)),
        ("fork", fork),
        ("tasks", lambda world, _: world.use.datasets.append(POOL, stream(block(40 + task, 1)), never)),
        ("retire", lambda world, _: world.use.datasets.retire(POOL, [f"t{task}"], None)),
    ]
    return writes[rng.integers(len(writes))]


async def six_steps(world: World) -> None:
    """Make a run `default` of six steps."""
    await world.import_pool()
    for step in range(6):
        await world.report(*(outcome(f"t{task}", (6, 9)[(task + step) % 2]) for task in range(TASKS)))


async def assert_goes_on(world: World, run: str) -> None:
    """Select, report, change, rewind, export, replay."""
    step = (await world.describe(run)).step
    await world.runs.change_settings(POOL, run, {"target": 0.4, "tasks_per_step": None}, None)
    selection = await world.select(2, run)
    rows = await rows_of(world, selection)
    assert (await world.report(*rows, run=run, selection_id=selection.id)).step == step + 1
    assert (await world.rewind(step, run)).step == step
    assert await exported(world, run)


async def test_any_two_writes_at_once_leave_a_run_that_goes_on(services: tuple[World, World]):
    rng = np.random.default_rng(5)
    await six_steps(services[0])
    for run in (f"run-{number}" for number in range(size(6, 20))):
        await services[0].runs.put(POOL, run, {}, ForkFrom("default"), None)
        for turn in range(10):
            (first, one), (second, other) = a_write(rng), a_write(rng)
            told = await asyncio.gather(one(services[0], run), other(services[1], run), return_exceptions=True)
            refused = [each for each in told if isinstance(each, BaseException)]
            known = all(
                isinstance(each, errors.ConflictError | errors.InvalidInputError | errors.NotFoundError)
                for each in refused
            )
            assert known, f"{first} beside {second}: {told}"
            await services[turn % 2].report(outcome("t1", 9), run=run)  # what an entry that does not fold would refuse
        for world in services:
            await assert_goes_on(world, run)
        await services[0].assert_is_a_replay(run)
