"""Random datasets with random journals, and what two services that hold the same must agree in."""

from collections.abc import AsyncIterator
from typing import Any

import numpy as np

from bots_service.core.codec import encode_state
from bots_service.ports.backup import Imported
from bots_service.ports.records import IdempotencyKey, StoredReceipt
from bots_service.usecases.backup_format import Part, read_parts
from bots_service.usecases.begin_run import ForkFrom, ReplayOf, RunOrigin, WarmStartFrom
from bots_service.usecases.report_outcomes import Outcome, ReportRequest
from tests.usecases.world import POOL, World, block, never, stream

TASKS = 60


async def live(world: World, seed: int, actions: int = 40) -> None:
    """Make a dataset and let its runs live: reports with and without keys, partial steps, rewinds, forks, ..."""
    rng = np.random.default_rng(seed)
    cut = int(rng.integers(1, 39))
    await world.import_pool(POOL, block(0, cut), block(cut, 40 - cut))
    await world.put_run("by-three", tasks_per_step=3, belief="bots", prior=(2.0, 1.5))
    await world.put_run("bots", belief="bots")
    runs, tasks = ["default", "by-three", "bots"], 40
    for number in range(actions):
        run = runs[int(rng.integers(len(runs)))]
        kind = rng.choice(["report"] * 12 + ["rewind", "settings", "fork", "snapshot", "retire", "append"])
        if kind == "report":
            await report(world, rng, run, number, tasks)
        elif kind == "rewind":
            step = (await world.state(run)).step
            row = await world.row(run)
            first = row.origin_step
            await world.rewind(int(rng.integers(first, step + 1)), run)
        elif kind == "settings":
            name = "forgetting" if (await world.row(run)).settings.belief == "bots" else "target"
            await world.use.change_settings(POOL, run, {name: float(rng.random())}, None)
        elif kind == "fork":
            name = f"fork-{number}"
            is_whole = (await world.row(run)).parent is None
            origins: list[RunOrigin] = [
                ForkFrom(run),
                WarmStartFrom(run, 0.25),
                ReplayOf(run) if is_whole else ForkFrom(run),
            ]
            await world.use.put_run(POOL, name, {}, origins[int(rng.integers(3))], None)
            runs.append(name)
        elif kind == "snapshot":
            await world.use.take_snapshot(POOL, run, None)
        elif kind == "retire":
            await world.use.retire_tasks(POOL, [f"t{rng.integers(tasks)}"], None)
        elif tasks < TASKS:
            await world.use.append_tasks(POOL, stream(block(tasks, 10)), never)
            tasks += 10


async def report(world: World, rng: np.random.Generator, run: str, number: int, tasks: int) -> None:
    chosen = rng.choice(tasks, 4, replace=False)
    outcomes = [Outcome(f"t{task}", successes=float(rng.integers(0, 33)) / 2, trials=16.0) for task in chosen]
    close = False if rng.random() < 0.2 else None
    once = None if rng.random() < 0.3 else IdempotencyKey(f"key-{run}-{number}", f"fingerprint {number}")
    await world.use.report_outcomes(ReportRequest(POOL, outcomes, run, close_step=close), once)


async def exported(world: World, run: str | None = None, dataset: str = POOL) -> bytes:
    return b"".join([piece async for piece in await world.use.export_backup(dataset, run)])


async def in_chunks(backup: bytes, size: int = 5000) -> AsyncIterator[bytes]:
    for start in range(0, len(backup), size):
        yield backup[start : start + size]


async def imported(world: World, backup: bytes, **names: str) -> Imported:
    return await world.use.import_backup(in_chunks(backup), never, **names)


async def parts_of(backup: bytes) -> list[Part]:
    return [part async for part in read_parts(in_chunks(backup))]


async def truth(world: World, dataset: str = POOL, *, uids: bool = True) -> dict[str, Any]:
    """All that SQL holds of a dataset, but for numbers that a database gives out."""
    await histories(world, dataset)  # makes receipts that are still on their way
    exports = world.parts.exports
    cut = await exports.cut(dataset)
    found: dict[str, Any] = {
        "dataset": (cut.dataset.version, cut.dataset.retired, cut.dataset.created_at, cut.dataset.facts),
        "retired": cut.retired.tolist(),
        "tasks": [
            (block.ids, block.references.tobytes(), block.tags)
            async for block in world.parts.datasets.blocks(cut.dataset.id)
        ],
    }
    for row, saved in cut.runs:
        found[row.name] = (
            saved if uids else (saved.settings, saved.head, saved.epoch, saved.created_at, saved.parent),
            await exports.entries(row, 0, row.head),
            await exports.receipts(row, 0, row.head),
        )
    return found


async def states(world: World, run: str, dataset: str = POOL) -> list[bytes]:
    """The state after every entry that can still be reached, by the service's own ways."""
    opened = await world.opened(run, dataset)
    catch_up = world.parts.catch_up
    first = await catch_up.journal.begins(opened.row)
    head = (await catch_up.journal.head(opened.row)).seq
    return [encode_state(await catch_up.replay.state_at(opened, seq)) for seq in range(first, head + 1)]


async def histories(world: World, dataset: str = POOL) -> dict[str, list[StoredReceipt]]:
    cut = await world.parts.exports.cut(dataset)
    return {row.name: await world.use.read_history(dataset, row.name, 0, 1000) for row, _ in cut.runs}


async def assert_same(one: World, other: World, dataset: str = POOL) -> None:
    assert await histories(one) == await histories(other, dataset)
    assert await truth(one) == await truth(other, dataset)
    for row, _ in (await one.parts.exports.cut(POOL)).runs:
        assert await states(one, row.name) == await states(other, row.name, dataset)
        newest = encode_state(await one.state(row.name))
        assert encode_state(await other.state(row.name, dataset)) == newest
