"""The use cases over a real database, and what they must come to: a replay of the journal, written plainly."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from msgspec.structs import asdict
from prometheus_client import CollectorRegistry

from bots_service.core.codec import encode_state
from bots_service.core.draw import SelectRequest
from bots_service.core.entries import Entry, Rewind
from bots_service.core.receipt import Receipt
from bots_service.core.state import RunState, advance, fresh_state
from bots_service.datasets import OpenRun
from bots_service.errors import InvalidInputError, StorageUnavailableError
from bots_service.metrics import Metrics
from bots_service.outcomes import Outcome, ReportRequest
from bots_service.records import IdempotencyKey, RunRow, Selection, TaskBlock
from bots_service.runs import ForkFrom, Run, Runs
from bots_service.services import Services
from bots_service.settings import Settings
from bots_service.storage.live import Live
from bots_service.storage.sql.database import Database
from bots_service.storage.sqlite import SqliteDatabase
from bots_service.wiring import build_services

POOL = "pool"
HEADER = ("weak", "strong"), "about ü"  # the reference models, and what is said of the tasks
TASKS = 40


def block(first: int = 0, count: int = TASKS, *, ids: list[str] | None = None) -> TaskBlock:
    """Tasks `t<number>`: a few profiles, every ninth unknown, tags by number."""
    numbers = np.arange(first, first + count)
    rates = np.sort(np.stack([numbers * 7 % 17 / 16, numbers * 5 % 13 / 16], axis=1), axis=1)
    rates[numbers % 9 == 8] = np.nan
    tags: list[tuple[str, ...]] = [
        ("even",) if number % 2 == 0 else ("odd", "rare") if number % 10 == 1 else ("odd",) for number in numbers
    ]
    return TaskBlock(ids or [f"t{number}" for number in numbers], rates, tags)


def new_profiles(count: int = 2) -> TaskBlock:
    """Tasks to append, each with pass rates that no other task has."""
    tasks = block(TASKS, count)
    tasks.references[:] = [[(number + 1) / 100, 0.99] for number in range(count)]
    return tasks


async def stream(*blocks: TaskBlock, fail: Exception | None = None) -> AsyncIterator[TaskBlock]:
    for one in blocks:
        yield one
    if fail is not None:
        raise fail


def never() -> None:
    """Keep no answer."""


async def until(happened: Callable[[], Awaitable[bool]]) -> None:
    """Look again and again until something has happened in SQL, which tells nobody."""
    while not await happened():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.001)


async def away(*_: object, **__: object) -> None:
    raise StorageUnavailableError("the database did not answer")


@contextmanager
def outage(store: object, *calls: str) -> Iterator[None]:
    """Let calls of a store fail until the block ends."""
    with pytest.MonkeyPatch.context() as patched:
        for call in calls:
            patched.setattr(store, call, away)
        yield


def meanwhile(store: object, call: str, act: Callable[[], Awaitable[object]], *, after: bool = False) -> None:
    """Do something just before a store is called the next time, or just after it answered."""
    real = getattr(store, call)

    async def overtaken(*arguments: Any, **named: Any) -> Any:
        setattr(store, call, real)
        if not after:
            await act()
        answer = await real(*arguments, **named)
        if after:
            await act()
        return answer

    setattr(store, call, overtaken)


def evidence_bytes(state: RunState) -> bytes:
    """All that a rewind brings back: everything but epoch and seq."""
    return encode_state(replace(state, epoch=0, seq=0))


def outcome(task: str, successes: float = 4.0, trials: float = 16.0) -> Outcome:
    return Outcome(task, successes=successes, trials=trials)


def outcomes_of(selection: Selection, successes: float = 4.0) -> list[Outcome]:
    return [outcome(f"t{task}", successes) for task in selection.tasks.tolist()]


async def flaws_of(call: Awaitable[object]) -> list[tuple[str | int, ...]]:
    """Return where the flaws are for which a call is refused."""
    with pytest.raises(InvalidInputError) as refused:
        await call
    return [flaw.where for flaw in refused.value.flaws]


async def reports(world: "World", count: int, *, first: int = 0, run: str = "default") -> None:
    for number in range(first, first + count):
        await world.report(outcome(f"t{number % TASKS}", number % 17), run=run, key=f"key-{number}")


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class World:
    """One process over the database in a folder."""

    folder: Path
    settings: Settings
    database: Database
    metrics: Metrics
    use: Services

    @classmethod
    def open(cls, folder: Path, **values: Any) -> Self:
        settings = Settings(data_dir=folder, **values)
        return cls.over(folder, settings, SqliteDatabase(settings.sql_url))

    @classmethod
    def over(cls, folder: Path, settings: Settings, database: Database, live: Live | None = None) -> Self:
        """Return a new process's memory over a database."""
        metrics = Metrics()
        live = live or Live(is_exact=isinstance(database, SqliteDatabase))
        return cls(folder, settings, database, metrics, build_services(settings, database, live, metrics.training))

    def beside(self, live: Live | None = None) -> Self:
        """Another process's memory over the same database, where none is the only one."""
        return self.over(self.folder, self.settings, self.database, live or Live(is_exact=False))

    @property
    def runs(self) -> Runs:
        return self.use.runs

    @property
    def registry(self) -> CollectorRegistry:
        return self.metrics.registry

    async def settled(self) -> None:
        """Wait until what was committed is stored as a state too, where that is due."""
        for work in list(self.runs._work.values()):
            if work.writer is not None:
                await asyncio.wait([work.writer])

    async def close(self) -> None:
        await self.settled()
        await self.database.close()

    async def reopened(self, **values: Any) -> Self:
        await self.close()
        return self.open(self.folder, **{"snapshot_every": self.settings.snapshot_every, **values})

    def shown(self, name: str, **labels: str) -> float | None:
        """Return the value of a series of the run `default`, None if there is none."""
        return self.registry.get_sample_value(f"bots_{name}", {"dataset": POOL, "run": "default", **labels})

    # --- the calls ---------------------------------------------------------------------------------------------------

    async def import_pool(self, name: str = POOL, *blocks: TaskBlock) -> None:
        await self.use.datasets.create(name, *HEADER, stream(*(blocks or (block(),))), never)

    async def put_run(self, run: str, dataset: str = POOL, **values: Any) -> Run:
        return (await self.runs.put(dataset, run, values, None, None))[0]

    async def select(self, count: int, run: str = "default", *, key: str | None = None, **request: Any) -> Selection:
        wanted = SelectRequest(request.pop("dataset", POOL), count, run, **request)
        return (await self.runs.select(wanted, None if key is None else IdempotencyKey(key, repr(wanted))))[0]

    async def report(
        self, *outcomes: Outcome, run: str = "default", key: str | None = None, dataset: str = POOL, **news: Any
    ) -> Receipt:
        told = ReportRequest(dataset, list(outcomes), run, **news)
        return (await self.runs.report(told, None if key is None else IdempotencyKey(key, repr(told)))).receipt

    async def rewind(self, step: int, run: str = "default") -> Run:
        return (await self.runs.rewind(POOL, run, step, None))[0]

    async def describe(self, run: str = "default", dataset: str = POOL) -> Run:
        return await self.runs.describe(dataset, run)

    async def state(self, run: str = "default", dataset: str = POOL) -> RunState:
        return (await self.runs.using(dataset, run, self.runs.newest_or_known))[0]

    async def opened(self, run: str = "default", dataset: str = POOL) -> OpenRun:
        return await self.runs.open(dataset, run)

    async def row(self, run: str = "default", dataset: str = POOL) -> RunRow:
        return (await self.opened(run, dataset)).row

    # --- the truth, read past the service ----------------------------------------------------------------------------

    def sql(self, statement: str, *values: Any) -> list[Any]:
        with sqlite3.connect(self.folder / "bots.db", timeout=10) as connection:
            rows = connection.execute(statement, values).fetchall()
        connection.close()
        return rows

    async def replay(self, run: str = "default", dataset: str = POOL) -> tuple[list[RunState], list[Receipt]]:
        """Return the state after each entry (the first: before any), and what each did, by the journal alone."""
        beside = self.beside()
        opened = await beside.opened(run, dataset)
        states, receipts = [fresh_state(opened.row.settings, opened.dataset.pool)], []
        for entry in await beside.use.store.journal.between(opened.row, 0, 2**62, 100_000):
            base = states[entry.body.to_seq] if isinstance(entry.body, Rewind) else None
            state, receipt = advance(states[-1], entry, opened.dataset.pool, base=base)
            states.append(state)
            receipts.append(receipt)
        return states, receipts

    async def assert_is_a_replay(self, run: str = "default", dataset: str = POOL) -> RunState:
        states, receipts = await self.replay(run, dataset)
        state = await self.state(run, dataset)
        assert encode_state(state) == encode_state(states[-1])
        present = {receipt.step: receipt for receipt in receipts if receipt.closed}  # a later one hides an earlier one
        history = await self.use.insight.steps(dataset, run, 0, 10_000)
        for step, told in zip(range(1, state.step + 1), history, strict=True):
            assert asdict(told) == asdict(present[step]) | {"created_at": told.created_at}
        return state


# --- random lives, and how runs move ------------------------------------------------------------------------------

MOST_TASKS = 60


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
        kind = rng.choice(["report"] * 12 + ["rewind", "settings", "fork", "retire", "append", "probe"])
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
        elif kind == "probe" and (await world.row(run)).settings.belief == "tracker":
            values = {f"t{task}": rng.normal() for task in rng.choice(tasks, 12, replace=False)}
            await world.runs.put_probe(POOL, run, values, None)
        elif kind == "fork":
            name = f"fork-{number}"
            await world.runs.put(POOL, name, {}, ForkFrom(run), None)
            runs.append(name)
        elif kind == "retire":
            await world.use.datasets.retire(POOL, [f"t{rng.integers(tasks)}"], None)
        elif kind == "append" and tasks < MOST_TASKS:
            await world.use.datasets.append(POOL, stream(block(tasks, 10)), never)
            tasks += 10


async def report(world: World, rng: np.random.Generator, run: str, number: int, tasks: int) -> None:
    chosen = rng.choice(tasks, 4, replace=False)
    outcomes = [Outcome(f"t{task}", successes=float(rng.integers(0, 33)) / 2, trials=16.0) for task in chosen]
    close = False if rng.random() < 0.2 else None
    once = None if rng.random() < 0.3 else IdempotencyKey(f"key-{run}-{number}", f"fingerprint {number}")
    await world.runs.report(ReportRequest(POOL, outcomes, run, close_step=close), once)


async def exported(world: World, run: str = "default", dataset: str = POOL) -> bytes:
    return b"".join([piece async for piece in world.use.moves.export(dataset, run)])


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
    seqs = range(head.seq + 1)
    return [encode_state(await world.use.replay.state_at(opened, seq)) for seq in seqs]


async def rows(world: World) -> list[RunRow]:
    return await world.use.store.runs.all((await world.row()).dataset_id)


def copied(world: World, folder: Path) -> World:
    """A service over a copy of the database, made as docs/backups.md says."""
    with sqlite3.connect(world.folder / "bots.db") as source, sqlite3.connect(folder / "bots.db") as target:
        source.backup(target)
    for connection in (source, target):
        connection.close()
    return World.open(folder, snapshot_every=world.settings.snapshot_every)


def reads_of(world: World, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return a list that gets the first and last seq of each part of a journal that is read."""
    journal, reads = world.use.store.journal, list[tuple[int, int]]()
    between = journal.between

    async def watched(run: Any, after: int, up_to: int, limit: int = 1000) -> list[Entry]:
        reads.append((after, up_to))
        return await between(run, after, up_to, limit)

    monkeypatch.setattr(journal, "between", watched)
    return reads
