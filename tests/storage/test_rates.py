"""Limits of how often a key may call: in one process's memory, and shared in Redis."""

import asyncio
import itertools
import uuid
import weakref
from collections.abc import AsyncIterator

import pytest

from bots_service.ports.keys import Rate
from bots_service.storage.memory import MemoryRateLimits
from bots_service.storage.redis.connection import RedisConnection, RedisRateLimits
from tests.servers import RedisServer, running

HOURLY = Rate(1 / 3600, 3)  # so slow that however long the test takes, nothing comes back
key_ids = (f"{uuid.uuid4().hex[:12]}{number:04x}" for number in itertools.count())


class KeyId(str):
    """One that tells whether it is still remembered, as it can be referred to weakly."""


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def connect(redis_server: RedisServer) -> AsyncIterator[RedisConnection]:
    connection = RedisConnection(redis_server.url, timeout_s=30)
    await connection.open()
    yield connection
    await connection.close()


async def test_a_burst_passes_and_then_one_at_a_time():
    clock = Clock()
    limits, rate = MemoryRateLimits(clock=clock), Rate(4.0, 3)

    assert [await limits.hit("a", rate) for _ in range(5)] == [0, 0, 0, 0.25, 0.25]
    clock.now += 0.125
    assert await limits.hit("a", rate) == 0.125
    clock.now += 0.125
    assert [await limits.hit("a", rate) for _ in range(2)] == [0, 0.25]
    clock.now += 100
    assert [await limits.hit("a", rate) for _ in range(4)] == [0, 0, 0, 0.25]


async def test_a_key_does_not_pay_for_another(connect: RedisConnection):
    for limits in (MemoryRateLimits(), RedisRateLimits(connect, MemoryRateLimits())):
        one, other = next(key_ids), next(key_ids)
        assert [await limits.hit(one, HOURLY) > 0 for _ in range(4)] == [False, False, False, True]
        assert await limits.hit(other, HOURLY) == 0


async def test_keys_that_rested_are_forgotten(monkeypatch):
    monkeypatch.setattr("bots_service.storage.memory.REMEMBERED_KEYS", 4)
    clock = Clock()
    limits = MemoryRateLimits(clock=clock)
    await limits.hit("tired", Rate(0.01, 1))
    remembered = weakref.WeakSet[KeyId]()
    for number in range(10):
        clock.now += 2
        remembered.add(key := KeyId(f"key-{number}"))
        await limits.hit(key, Rate(1.0, 1))
        del key

    assert len(remembered) <= 4
    assert await limits.hit("tired", Rate(0.01, 1)) == 80


async def test_two_processes_count_together_in_one_redis(connect: RedisConnection, redis_server: RedisServer):
    beside = RedisConnection(redis_server.url, timeout_s=30)
    one, other = RedisRateLimits(connect, MemoryRateLimits()), RedisRateLimits(beside, MemoryRateLimits())
    key_id = next(key_ids)

    waits = await asyncio.gather(*(limits.hit(key_id, HOURLY) for limits in (one, other) * 8))

    assert waits.count(0) == 3
    assert all(3500 < wait <= 3600 for wait in waits if wait)
    await beside.close()


async def test_redis_says_when_to_come_back_and_keeps_to_it(connect: RedisConnection, redis_server: RedisServer):
    limits, rate, key_id = RedisRateLimits(connect, MemoryRateLimits()), Rate(5.0, 2), next(key_ids)
    assert [await limits.hit(key_id, rate) for _ in range(2)] == [0, 0]
    wait_s = await limits.hit(key_id, rate)

    assert 0 < wait_s <= 0.2
    await asyncio.sleep(wait_s)
    assert await limits.hit(key_id, rate) == 0
    with redis_server.client() as client:
        assert 0 < client.pttl(f"bots:{{{key_id}}}:rate") <= 400


async def test_while_redis_is_away_each_process_counts_for_itself():
    with running(RedisServer()) as server:
        connection = RedisConnection(server.url, timeout_s=30)
        await connection.open()
        limits, key_id = RedisRateLimits(connection, MemoryRateLimits()), next(key_ids)
        server.kill()
        assert [await limits.hit(key_id, HOURLY) > 0 for _ in range(5)] == [False, False, False, True, True]
        await connection.close()
