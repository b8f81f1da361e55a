"""Two writes of one run at once: each is told the truth, and whatever they were, the run goes on."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from bots_service.errors import (
    ConflictError,
    InvalidInputError,
    NotFoundError,
)
from bots_service.outcomes import Outcome
from bots_service.records import LoggedEntry, Selection
from bots_service.runs import ForkFrom
from tests.usecases.moving import exported
from tests.usecases.world import POOL, TASKS, World, block, never, outcome, stream

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
    ids = (await world.opened()).dataset.ids
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
        ("snapshot", lambda world, run: world.runs.take_snapshot(POOL, run, None)),
    ]
    return writes[rng.integers(len(writes))]


async def six_steps(world: World) -> None:
    """Make a run `default` of six steps."""
    await world.import_pool()
    for step in range(6):
        await world.report(*(outcome(f"t{task}", (6, 9)[(task + step) % 2]) for task in range(TASKS)))


async def logged(world: World, run: str) -> list[LoggedEntry]:
    return await world.use.insight.entries(POOL, run, None, 1000, [])


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
    for run in (f"run-{number}" for number in range(20)):
        await services[0].runs.put(POOL, run, {}, ForkFrom("default"), None)
        for turn in range(10):
            (first, one), (second, other) = a_write(rng), a_write(rng)
            told = await asyncio.gather(one(services[0], run), other(services[1], run), return_exceptions=True)
            refused = [each for each in told if isinstance(each, BaseException)]
            known = all(isinstance(each, ConflictError | InvalidInputError | NotFoundError) for each in refused)
            assert known, f"{first} beside {second}: {told}"
            await services[turn % 2].report(outcome("t1", 9), run=run)  # what an entry that does not fold would refuse
        assert [entry for entry in await logged(services[0], run) if entry.skipped is not None] == []
        for world in services:
            await assert_goes_on(world, run)
        await services[0].assert_is_a_replay(run)


async def test_a_rewind_is_checked_again_when_another_came_first(services: tuple[World, World]):
    await six_steps(services[0])
    for turn in range(20):
        await services[0].runs.put(POOL, f"run-{turn}", {}, None, None)
        for task in range(4):
            await services[0].report(outcome(f"t{task}"), run=f"run-{turn}")
        told = await asyncio.gather(
            services[0].rewind(1, f"run-{turn}"), services[1].rewind(3, f"run-{turn}"), return_exceptions=True
        )
        assert not isinstance(told[0], BaseException)
        entries = await logged(services[0], f"run-{turn}")
        rewinds = [entry.to_step for entry in entries if entry.kind == "rewind"]
        assert rewinds == ([1] if isinstance(told[1], NotFoundError) else [1, 3]), told  # the newest first
