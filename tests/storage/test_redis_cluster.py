"""Hot stores over a Redis Cluster."""

import asyncio
from collections.abc import Iterator

import pytest
import redis

from bots_service.errors import StorageUnavailableError
from bots_service.ports.hot import PublishResult
from bots_service.storage.memory import MemoryLeases, MemoryStates
from bots_service.storage.redis.connection import RedisConnection
from tests.servers import RedisClusterNode, RedisServer, running, wait_until
from tests.storage.contracts.hot import Clock, Hot, found, history, run_row, state_at
from tests.storage.redis_stores import PATIENT_S, RedisClock, replica
from tests.versions.redis_groups import redis_cluster


@pytest.fixture
def cluster() -> Iterator[list[RedisClusterNode]]:
    """Two nodes with half of the slots each."""
    first, second = RedisClusterNode(), RedisClusterNode()
    with running(first), running(second):
        for node, slots in ((first, range(8192)), (second, range(8192, 16384))):
            with node.client() as client:
                client.execute_command("CLUSTER", "ADDSLOTS", *slots)
                client.execute_command("CLUSTER", "MEET", "127.0.0.1", first.port)
        wait_until(lambda: all(node.knows(nodes=2) for node in (first, second)))
        yield [first, second]


async def test_the_same_calls_find_the_same_as_in_memory(cluster: list[RedisClusterNode]):
    clock = Clock()
    memory = Hot(MemoryStates(10**6), MemoryLeases(clock=clock), clock)
    with redis.RedisCluster.from_url(cluster[0].url) as client:
        async with replica(f"{cluster[0].url}?cluster=true", RedisClock(client)) as hot:
            assert hot.connection is not None
            await hot.connection.open()
            assert await history(hot, 3) == await history(memory, 3)
            assert not hot.connection.is_away


async def test_runs_are_spread_and_a_node_that_ends_comes_back(cluster: list[RedisClusterNode]):
    numbers = range(20)
    async with replica(f"{cluster[0].url}?cluster=true", timeout_s=2) as hot:
        for number in numbers:
            assert await hot.publish(state_at(number + 1), run_row(number)) is PublishResult.SHARED
        assert [await found(hot.states, run_row(number)) for number in numbers] == [(0, n + 1) for n in numbers]
        here = []
        for node in cluster:
            with node.client() as client:
                here.append({key.decode() for key in client.keys("bots:*:header")})
        assert min(map(len, here)) > 0
        assert here[0] | here[1] == {f"bots:{{uid-{number}}}:header" for number in numbers}

        lost = next(number for number in numbers if f"bots:{{uid-{number}}}:header" in here[1])
        cluster[1].kill()
        assert await hot.publish(state_at(100), run_row(lost)) is PublishResult.LOCAL
        cluster[1].start()
        connection = hot.connection
        await asyncio.to_thread(wait_until, lambda: connection is not None and not connection.is_away)
        assert await found(hot.states, run_row(lost)) is None
        assert await hot.publish(state_at(100), run_row(lost)) is PublishResult.SHARED


async def test_a_follower_that_takes_over_is_found():
    with redis_cluster() as group:
        async with replica(group.url, timeout_s=2) as hot:
            assert await hot.publish(state_at(1)) is PublishResult.SHARED
            group.holder("bots:*:header").kill()
            assert await hot.publish(state_at(2)) is PublishResult.LOCAL
            connection = hot.connection
            await asyncio.to_thread(wait_until, lambda: connection is not None and not connection.is_away)
            assert await found(hot.states, run_row()) is None  # the follower may not have had everything
            assert await hot.publish(state_at(2)) is PublishResult.SHARED


async def test_a_url_that_does_not_say_cluster_is_told_at_the_start(cluster: list[RedisClusterNode]):
    key_is_elsewhere = 0
    for node in cluster:
        connection = RedisConnection(node.url, timeout_s=PATIENT_S)
        try:
            await connection.open()
        except StorageUnavailableError as error:
            assert "add ?cluster=true" in str(error)  # noqa: PT017 - one of the two nodes has the key
            key_is_elsewhere += 1
        await connection.close()
    assert key_is_elsewhere == 1


async def test_a_url_that_names_no_cluster_is_told_at_the_start(redis_server: RedisServer):
    connection = RedisConnection(f"{redis_server.url}?cluster=true", timeout_s=PATIENT_S)
    with pytest.raises(StorageUnavailableError, match="remove cluster=true"):
        await connection.open()
    await connection.close()
