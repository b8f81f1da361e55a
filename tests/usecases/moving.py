"""Random journals, and how they move to another service."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from bots_service.core.codec import encode_state
from bots_service.outcomes import Outcome, ReportRequest
from bots_service.records import IdempotencyKey, RunRow, StoredReceipt
from bots_service.runs import ForkFrom
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
        kind = rng.choice(["report"] * 12 + ["rewind", "settings", "fork", "retire", "append"])
        if kind == "report":
            await report(world, rng, run, number, tasks)
        elif kind == "rewind":
            step = (await world.state(run)).step
            row = await world.row(run)
            first = row.origin_step
            await world.rewind(int(rng.integers(first, step + 1)), run)
        elif kind == "settings":
            name = "forgetting" if (await world.row(run)).settings.belief == "bots" else "target"
            await world.runs.change_settings(POOL, run, {name: float(rng.random())}, None)
        elif kind == "fork":
            name = f"fork-{number}"
            await world.runs.put(POOL, name, {}, ForkFrom(run), None)
            runs.append(name)
        elif kind == "retire":
            await world.use.datasets.retire(POOL, [f"t{rng.integers(tasks)}"], None)
        elif tasks < TASKS:
            await world.use.datasets.append(POOL, stream(block(tasks, 10)), never)
            tasks += 10


async def report(world: World, rng: np.random.Generator, run: str, number: int, tasks: int) -> None:
    chosen = rng.choice(tasks, 4, replace=False)
    outcomes = [Outcome(f"t{task}", successes=float(rng.integers(0, 33)) / 2, trials=16.0) for task in chosen]
    close = False if rng.random() < 0.2 else None
    once = None if rng.random() < 0.3 else IdempotencyKey(f"key-{run}-{number}", f"fingerprint {number}")
    await world.runs.report(ReportRequest(POOL, outcomes, run, close_step=close), once)


async def exported(world: World, run: str = "default", dataset: str = POOL) -> bytes:
    return b"".join([piece async for piece in await world.use.moves.export(dataset, run)])


async def in_batches(journal: bytes, size: int = 7) -> AsyncIterator[list[bytes]]:
    lines = journal.splitlines()
    for start in range(0, len(lines), size):
        yield lines[start : start + size]


async def imported(world: World, journal: bytes, run: str = "default", dataset: str = POOL) -> RunRow:
    return (await world.use.moves.import_lines(dataset, run, in_batches(journal), never)).run


async def states(world: World, run: str, dataset: str = POOL) -> list[bytes]:
    """The state after every entry that can still be reached, by the service's own ways."""
    opened = await world.opened(run, dataset)
    head = await world.use.store.journal.head(opened.row)
    seqs = range(head.pruned, head.seq + 1)
    return [encode_state(await world.use.replay.state_at(opened, seq)) for seq in seqs]


async def rows(world: World) -> list[RunRow]:
    return [row async for row in world.use.store.runs.all((await world.row()).dataset_id)]


async def histories(world: World) -> dict[str, list[StoredReceipt]]:
    steps = {row.name: await world.use.insight.steps(POOL, row.name, 0, 1000) for row in await rows(world)}
    return {run: [replace(one, created_at=0.0) for one in found] for run, found in steps.items()}


def copied(world: World, folder: Path) -> World:
    """A service over a copy of the database, made as docs/backups.md says."""
    with sqlite3.connect(world.folder / "bots.db") as source, sqlite3.connect(folder / "bots.db") as target:
        source.backup(target)
    for connection in (source, target):
        connection.close()
    return World.open(folder, snapshot_every=world.settings.snapshot_every)
