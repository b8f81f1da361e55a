"""Callers of the live store: in one process's memory, or several over a Redis."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import redis

from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings
from bots_service.core.state import RunState, fresh_state
from bots_service.records import IdempotencyKey, LeaseTtls, RunRow, Selection
from bots_service.storage.live import KeptState, Live, Look, Previous, Version
from bots_service.storage.redis import RedisLive, RedisServer

POOL = Pool(np.full((3, 1), 0.5), np.arange(3, dtype=np.int32))
PATIENT_S = 20.0  # for tests in which Redis is there, on machines with much to do
ENDS_SOONER = """
for _, task in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '(+inf')) do
  redis.call('ZINCRBY', KEYS[1], -ARGV[1], task)
end
"""
FORGOTTEN_SOONER = "redis.call('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[1]) - ARGV[1])"
LOST_SOONER = (
    "if redis.call('HGET', KEYS[1], 'lost_ms') ~= '0' then redis.call('HINCRBY', KEYS[1], 'lost_ms', -ARGV[1]) end"
)


def run_row(number: int = 1) -> RunRow:
    return RunRow(number, f"uid-{number}", 1, f"run-{number}", RunSettings(), 0, 0, 0.0)


def state_at(seq: int, epoch: int = 0) -> RunState:
    """The state of a run with BOTS, whose belief a test can make as large as it wants."""
    return replace(fresh_state(RunSettings(belief="bots", strategy="thompson"), POOL), seq=seq, epoch=epoch)


def selection_of(version: Version, *tasks: int) -> Selection:
    numbers = np.linspace(0.0, 1.0, len(tasks))
    place = ("id", version[0], 0, version[1], False, 0)
    return Selection(*place, np.array(tasks, np.int32), np.full(len(tasks), np.nan), numbers, numbers)


class Clock:
    """Time that passes only when told to, in these Redis servers, too, where leases end that much sooner.

    There it passes besides, so lengths in tests differ by many seconds.
    """

    def __init__(self, *clients: redis.Redis) -> None:
        self.now = 0.0
        self._clients = clients

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for script, keys in (
            (ENDS_SOONER, "bots:*:leases"),
            (FORGOTTEN_SOONER, "bots:*:selection:*"),
            (LOST_SOONER, "bots:*:run"),
        ):
            for client in self._clients:
                for key in client.scan_iter(keys):
                    client.eval(script, 1, key, int(1000 * seconds))


@dataclass
class Caller:
    """What one process does with a run. version: of the state that it draws from. server: its connections to Redis."""

    live: Live
    clock: Clock
    version: Version = (0, 1)
    run: RunRow = field(default_factory=run_row)
    server: RedisServer | None = None

    @property
    def is_away(self) -> bool:
        return self.server is not None and self.server.is_away

    async def moved(
        self, seq: int, epoch: int = 0, *done: int, kept: KeptState | None = None, begins: bool = False
    ) -> bool:
        self.version = epoch, seq
        left = await self.live.moved(self.run, self.version, done=np.array(done, np.int32), kept=kept, begins=begins)
        return left is not None

    async def look(self, key: str | None = None, *, lease_s: float = 1000, selects: int = 1) -> Look:
        return await self.live.look(self.run, self.version, key, lease_s=lease_s, selects=selects)

    async def lease(
        self, look: Look, *tasks: int, lease_s: float = 1000, key: str | None = None, reuse: bool = False
    ) -> Previous | bool:
        chosen = replace(selection_of(self.version, *tasks), reused=int(reuse))
        once = None if key is None else IdempotencyKey(key, "f")
        return await self.live.lease(self.run, chosen, look, once, lease_s=lease_s)

    async def select(
        self, *tasks: int, lease_s: float = 1000, key: str | None = None, reuse: bool = False
    ) -> Previous | bool:
        return await self.lease(await self.look(key), *tasks, lease_s=lease_s, key=key, reuse=reuse)

    async def release(self, *tasks: int) -> None:
        await self.live.moved(self.run, self.version, done=np.array(tasks, np.int32))

    async def leases(self) -> LeaseTtls:
        return await self.live.leases(self.run)

    async def leased(self) -> list[int]:
        """Return the tasks in flight, of which both calls tell the same."""
        tasks: list[int] = (await self.leases()).tasks.tolist()
        assert (await self.look()).leased.tolist() == tasks
        return tasks

    async def ends(self) -> dict[int, float]:
        found = await self.leases()
        return dict(zip(found.tasks.tolist(), found.ttl_s.tolist(), strict=True))


def in_memory() -> Caller:
    clock = Clock()
    return Caller(Live(is_exact=True, clock=clock), clock)


@asynccontextmanager
async def replica(url: str, clock: Clock | None = None, *, timeout_s: float = PATIENT_S) -> AsyncIterator[Caller]:
    clock, server = clock or Clock(), RedisServer(url, timeout_s=timeout_s)
    try:
        yield Caller(RedisLive(server, clock=clock), clock, server=server)
    finally:
        await server.close()


def tasks_under(previous: Previous | bool | None) -> list[int] | None:
    return previous.selection.tasks.tolist() if isinstance(previous, Previous) else None


async def history(caller: Caller, seed: int, *, steps: int = 150) -> list[object]:
    rng, seen, seq = np.random.default_rng(seed), list[object](), 0
    await caller.moved(seq)
    for _ in range(steps):
        kind = rng.choice(["select", "two", "report", "advance"], p=[0.4, 0.2, 0.3, 0.1])
        if kind == "advance":
            caller.clock.advance(1000 * float(rng.integers(1, 6)))
        elif kind == "report":
            seq += 1
            await caller.moved(seq, 0, *rng.integers(0, 60, 5).tolist())
            seen.append((await caller.leases()).tasks.tolist())
        else:
            key = f"k{rng.integers(0, 8)}" if rng.random() < 0.4 else None
            for look in [await caller.look(key) for _ in range(1 if kind == "select" else 2)]:
                tasks = np.unique(rng.integers(0, 60, 4)).tolist()
                lease_s, reuse = 1000 * float(rng.integers(1, 20)) + 500, bool(rng.random() < 0.2)
                leased = await caller.lease(look, *tasks, lease_s=lease_s, key=key, reuse=reuse)
                seen += [look.leased.tolist(), tasks_under(look.previous), tasks_under(leased), leased is True]
    return seen
