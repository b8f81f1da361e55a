"""The contracts of hot stores, on a real Redis; and what two replicas owe each other."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import msgspec
import numpy as np
import pytest
import redis

from bots_service.core.arrays import frozen
from bots_service.errors import DamagedStateError, StorageUnavailableError
from bots_service.records import KnownState, PublishResult
from bots_service.storage.memory import MemoryLeases, MemoryStates
from bots_service.storage.redis.cache import keys
from bots_service.storage.redis.client import refusal
from bots_service.storage.redis.connection import RedisConnection
from bots_service.storage.redis.leases import MAX_BYTES, decode_selection, encode_selection
from bots_service.storage.redis.states import INVALIDATE
from tests.core.pools import bots_belief, with_belief
from tests.servers import RedisServer
from tests.storage.contracts.hot import (
    Clock,
    Hot,
    LeasesContract,
    StatesContract,
    found,
    history,
    run_row,
    selection_of,
    state_at,
)
from tests.storage.redis_stores import PATIENT_S, RedisClock, Replica, replica


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[redis.Redis]:
    with redis_server.client() as client:
        client.flushall()
        yield client


@pytest.fixture
async def hot(redis_server: RedisServer, client: redis.Redis) -> AsyncIterator[Replica]:
    async with replica(redis_server.url, RedisClock(client)) as made:
        await made.states.register(run_row())
        yield made


@pytest.fixture
async def other(redis_server: RedisServer, hot: Replica) -> AsyncIterator[Replica]:
    async with replica(redis_server.url, hot.clock) as made:
        yield made


def commands(client: redis.Redis) -> int:
    """Return how many scripts ran so far."""
    stats = client.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha"))


class TestRedisStates(StatesContract):
    async def test_replicas_see_what_was_published_and_nothing_older_replaces_it(self, hot: Replica, other: Replica):
        assert await hot.publish(state_at(4)) is PublishResult.SHARED
        assert await other.follow() == (0, 4)
        assert await other.publish(state_at(6)) is PublishResult.SHARED
        assert await hot.publish(state_at(5)) is PublishResult.SHARED
        assert await found(hot.states, run_row()) == (0, 6)
        known = hot.states.known(run_row())
        assert known is not None
        assert known.state.seq == 6

    async def test_a_large_state_comes_back_whole(self, hot: Replica, other: Replica):
        state = state_at(4)
        implied = frozen(np.random.default_rng(1).random((2, 100_000)))
        await hot.publish(with_belief(state, implied=implied))
        await other.follow()
        newest = (await other.states.newest(run_row())).state
        assert newest is not None
        np.testing.assert_array_equal(bots_belief(newest).implied, implied)

    async def test_a_delayed_publish_does_not_land_in_a_store_that_was_emptied_since(
        self, hot: Replica, other: Replica, client: redis.Redis
    ):
        token = (await hot.states.newest(run_row())).token
        client.flushall()
        assert await hot.states.publish(run_row(), state_at(4), token) is PublishResult.SUPERSEDED
        known = hot.states.known(run_row())
        assert known is not None
        assert (known.state.seq, known.degraded) == (4, True)
        assert await found(other.states, run_row()) is None
        assert await hot.states.publish(run_row(), state_at(4), token) is PublishResult.SUPERSEDED
        assert await found(other.states, run_row()) is None
        assert await hot.publish(state_at(4)) is PublishResult.SHARED

    async def test_what_another_server_wrote_is_not_believed(self, hot: Replica, other: Replica, client: redis.Redis):
        await hot.publish(state_at(4))
        await hot.select(1, 2)
        client.hset("bots:{uid-1}:header", "server", "0" * 40)
        assert (await hot.select(3)).stale
        newest = await other.states.newest(run_row())
        assert newest.state is None
        assert await other.states.publish(run_row(), state_at(3), newest.token) is PublishResult.SHARED
        # This replica's own state is newer than Redis's: only SQL can say what is right.
        assert await found(hot.states, run_row()) is None
        assert await hot.publish(state_at(4)) is PublishResult.SHARED
        assert await found(other.states, run_row()) == (0, 4)
        assert await other.leased() == [1, 2]

    async def test_an_invalidated_state_is_published_by_none_before_sql_was_read(self, hot: Replica, other: Replica):
        await hot.publish(state_at(4))
        token = (await other.states.newest(run_row())).token
        await hot.states.invalidate(run_row())
        assert await found(other.states, run_row()) is None
        assert await other.states.publish(run_row(), state_at(5), token) is PublishResult.SUPERSEDED
        assert hot.states.known(run_row()) is not None

    async def test_an_invalidation_ends_for_each_replica_once_it_has_read_sql(self, hot: Replica, other: Replica):
        await hot.publish(state_at(4))
        await other.follow()
        assert (await other.select(1)).selection is not None
        await hot.states.invalidate(run_row())
        assert await hot.publish(state_at(4)) is PublishResult.SHARED
        assert (await hot.select(2)).selection is not None
        assert (await other.select(3)).stale
        assert await found(other.states, run_row()) is None
        assert await other.follow() == (0, 4)
        assert (await other.select(3)).selection is not None

    async def test_a_late_second_invalidation_brings_no_generation_back(self, hot: Replica, other: Replica):
        await hot.publish(state_at(4))
        late = ("the first change", 1, 1)
        assert hot.connection is not None
        await hot.connection.run(INVALIDATE, keys(run_row()), *late)
        await other.follow()  # so it knows of that change, and not of the next one
        await hot.states.invalidate(run_row())
        await hot.connection.run(INVALIDATE, keys(run_row()), *late)
        assert (await other.select(3)).stale

    async def test_the_first_state_in_a_generation_without_one_is_counted_from_a_random_ordinal(
        self, hot: Replica, client: redis.Redis
    ):
        first = []
        for _ in range(3):
            await hot.publish(state_at(4))
            first.append((await hot.prepare()).ordinal)
            client.flushall()
            assert (await hot.acquire(await hot.prepare(), 1)).stale
        await hot.publish(state_at(4))
        await hot.publish(state_at(5))
        assert (await hot.prepare()).ordinal == 0  # nobody selected from it before
        assert first[0] == 0
        assert len(set(first)) == 3

    async def test_a_damaged_state_is_deleted(self, hot: Replica, other: Replica, client: redis.Redis):
        await hot.publish(state_at(4))
        token = (await hot.states.newest(run_row())).token
        client.hset("bots:{uid-1}:header", "state", b"BOTS no state")
        newest = await other.states.newest(run_row())
        assert newest.state is None
        assert await hot.states.publish(run_row(), state_at(5), token) is PublishResult.SUPERSEDED
        assert await other.states.publish(run_row(), state_at(4), newest.token) is PublishResult.SHARED
        assert await hot.follow() == (0, 5)  # it knew that one

    async def test_every_key_ends_at_some_time(self, hot: Replica, client: redis.Redis):
        await hot.publish(state_at(4))
        await hot.select(1, key="k")
        await hot.select(2)
        await hot.leases.clear(run_row(2))
        await hot.states.newest(run_row(3))
        found_keys = list(client.scan_iter("*"))
        assert len(found_keys) == 6
        assert all(client.ttl(key) > 0 for key in found_keys)


class TestRedisLeases(LeasesContract):
    async def test_selections_are_degraded_until_the_leases_that_redis_lost_would_have_ended(
        self, hot: Replica, other: Replica, client: redis.Redis
    ):
        await hot.publish(state_at(1))
        assert not (await hot.prepare()).degraded
        client.flushall()
        assert await other.publish(state_at(1)) is PublishResult.SHARED
        await hot.follow()
        seconds = state_at(1).settings.lease_seconds
        for stores in (hot, other):
            ticket = await stores.prepare()
            assert (ticket.degraded, ticket.local) == (True, False)
        hot.clock.advance(seconds - 100)
        assert (await hot.prepare()).degraded
        hot.clock.advance(200)
        assert not (await hot.prepare()).degraded
        await hot.states.invalidate(run_row())
        await other.follow()
        assert not (await other.prepare()).degraded

    async def test_leases_of_a_redis_that_restarted_may_be_lost(self, hot: Replica, client: redis.Redis):
        await hot.publish(state_at(1))
        client.hset("bots:{uid-1}:header", "server", "0" * 40)
        await hot.publish(state_at(1))
        assert (await hot.prepare()).degraded

    async def test_a_new_run_has_lost_nothing_whichever_replica_asked_for_it_first(self, hot: Replica, other: Replica):
        await other.publish(state_at(1), run_row(2))
        assert (await other.prepare(run=run_row(2))).degraded
        await hot.states.register(run_row(2))
        refused = await other.leases.acquire(
            run_row(2),
            selection_of(state_at(1), 1),
            await other.prepare(run=run_row(2)),
            seconds=10,
            key=None,
            fingerprint="f",
            reuse=False,
        )
        assert refused.selection is None
        assert not (await other.prepare(run=run_row(2))).degraded

    async def test_a_rewind_lets_no_selection_be_made_twice(self, hot: Replica):
        await hot.publish(state_at(1, epoch=1))
        await hot.select(1)
        await hot.leases.clear(run_row())
        assert (await hot.prepare()).ordinal == 1

    @pytest.mark.parametrize("seed", range(6))
    async def test_the_same_calls_find_the_same_as_in_memory(self, hot: Replica, seed: int):
        clock = Clock()
        memory = Hot(MemoryStates(10**6), MemoryLeases(clock=clock), clock)
        assert await history(hot, seed) == await history(memory, seed)

    async def test_a_selection_takes_one_round_trip_while_nobody_else_changes_the_leases(
        self, hot: Replica, client: redis.Redis
    ):
        await hot.publish(state_at(1))
        await hot.select(1)
        before = commands(client)
        for number in range(2, 12):
            assert (await hot.select(number, key=f"k{number}")).selection is not None
        assert commands(client) - before == 10

    async def test_selecting_after_an_own_report_takes_one_round_trip_too(self, hot: Replica, client: redis.Redis):
        await hot.publish(state_at(1))
        await hot.select(1)
        for seq in range(2, 6):
            known = hot.states.known(run_row())
            assert known is not None
            hot.known = KnownState(state_at(seq), known.token)
            await hot.states.publish(run_row(), hot.known.state, known.token)
            await hot.release(seq - 1)
            before = commands(client)
            assert (await hot.select(seq)).selection is not None
            assert commands(client) - before == 1

    async def test_what_was_drawn_from_an_older_state_is_stale(self, hot: Replica, other: Replica):
        await hot.publish(state_at(1))
        ticket = await hot.prepare()
        await other.publish(state_at(2))
        assert (await hot.acquire(ticket, 1)).stale
        assert await other.leased() == []

    async def test_a_replica_learns_what_others_leased_released_and_remembered(self, hot: Replica, other: Replica):
        await hot.publish(state_at(1))
        await hot.select(1, 2, key="k")
        await other.follow()
        ticket = await other.prepare("k")
        assert ticket.previous is not None
        assert ticket.previous[1].tasks.tolist() == [1, 2]
        await other.release(1)
        assert (await hot.select(3)).selection is None
        ticket = await hot.prepare()
        assert (ticket.ordinal, ticket.leased.tolist()) == (1, [2])

    async def test_redis_says_when_leases_end_whatever_clock_a_replica_has(
        self, hot: Replica, redis_server: RedisServer
    ):
        await hot.publish(state_at(1))
        await hot.select(1, 2, seconds=1000)
        clock = Clock()
        clock.advance(123_456)
        async with replica(redis_server.url, clock) as other:
            assert await other.lease_ends() == pytest.approx({1: 1000, 2: 1000}, abs=60)

    @pytest.mark.parametrize("seed", range(3))
    async def test_replicas_that_select_at_once_share_no_task(self, hot: Replica, other: Replica, seed: int):
        await hot.publish(state_at(1))
        await other.follow()
        rng, taken, ordinals = np.random.default_rng(seed), list[int](), list[int]()

        async def trainer(stores: Replica) -> None:
            for _ in range(10):
                while True:
                    ticket = await stores.prepare()
                    free = np.setdiff1d(np.arange(400), ticket.leased)
                    tasks = rng.choice(free, 5, replace=False).tolist()
                    await asyncio.sleep(float(rng.random()) / 1000)
                    if (await stores.acquire(ticket, *tasks, seconds=1000)).selection is not None:
                        break
                taken.extend(tasks)
                ordinals.append(ticket.ordinal)

        await asyncio.gather(*(trainer(stores) for stores in (hot, other, hot, other)))
        assert len(taken) == 4 * 10 * 5
        assert len(set(taken)) == len(taken)
        assert len(set(ordinals)) == len(ordinals)

    async def test_a_selection_that_can_not_be_read_is_forgotten(self, hot: Replica, client: redis.Redis):
        await hot.publish(state_at(1))
        await hot.select(1, key="k")
        (key,) = client.scan_iter("bots:*:selection:*")
        client.setrange(key, 32, b"\xc1\xc1")
        taken = await hot.select(2, key="k")
        assert (taken.selection, taken.previous) == (None, None)
        assert (await hot.select(2, key="k")).selection is not None

    async def test_a_large_selection_is_leased_and_remembered(self, hot: Replica, other: Replica):
        tasks = np.random.default_rng(1).permutation(10**6)[:20_000].tolist()
        await hot.publish(state_at(1))
        await hot.select(*tasks, key="k")
        await other.follow()
        ticket = await other.prepare("k")
        assert ticket.previous is not None
        assert ticket.previous[1].tasks.tolist() == tasks
        assert ticket.leased.tolist() == sorted(tasks)
        await other.release(*tasks[:15_000])
        assert await hot.leased() == sorted(tasks[15_000:])


class TestSelectionsAsBytes:
    def test_they_come_back(self):
        chosen = replace(selection_of(state_at(3, epoch=2), 5, 1, 9), reused=2, step=8)
        fingerprint, again = decode_selection(encode_selection(chosen, "f"))
        assert (fingerprint, again.id, again.epoch, again.step, again.seq) == ("f", "id", 2, 8, 3)
        assert (again.degraded, again.reused, again.tasks.tolist()) == (False, 2, [5, 1, 9])
        assert again.effective.tolist() == [0.0, 0.5, 1.0]
        assert again.expected_effective == 1.5

    @pytest.mark.parametrize("damage", ["cut", "format", "length", "large", "text"])
    def test_damage_is_refused(self, damage: str):
        whole = encode_selection(selection_of(state_at(3), 5, 1), "f")
        fields = msgspec.msgpack.decode(whole)
        blob = {
            "cut": whole[:-1],
            "format": msgspec.msgpack.encode([2, *fields[1:]]),
            "length": msgspec.msgpack.encode([*fields[:-2], b"12345678", *fields[-1:]]),
            "large": whole + bytes(MAX_BYTES),
            "text": b"selection",
        }[damage]
        with pytest.raises(DamagedStateError):
            decode_selection(blob)


class TestConnection:
    async def test_a_wrong_password_is_told_at_the_start_and_not_shown(self, redis_server: RedisServer):
        connection = RedisConnection(redis_server.url.replace("//", "//:hunter2@"), timeout_s=PATIENT_S)
        with pytest.raises(StorageUnavailableError, match="BOTS_REDIS_URL") as refused:
            await connection.open()
        assert "hunter2" not in str(refused.value)
        await connection.close()

    @pytest.mark.parametrize(
        "url",
        ["localhost:6379", "http://localhost", "redis://:hunter2@localhost:port", "redis://:hun/ter2@localhost:1"],
    )
    def test_what_is_no_url_of_a_redis_is_told_and_not_shown(self, url: str):
        with pytest.raises(StorageUnavailableError, match="BOTS_REDIS_URL") as refused:
            RedisConnection(url, timeout_s=PATIENT_S)
        assert "hun" not in str(refused.value)

    async def test_an_unknown_option_is_told_at_the_start(self, redis_server: RedisServer):
        connection = RedisConnection(f"{redis_server.url}?sokcet_timeout=3", timeout_s=PATIENT_S)
        with pytest.raises(StorageUnavailableError):
            await connection.open()
        await connection.close()

    async def test_a_user_who_may_run_too_little_is_told_at_the_start(
        self, redis_server: RedisServer, client: redis.Redis
    ):
        client.execute_command("ACL", "SETUSER", "little", "on", ">secret", "~bots:*", "+@all", "-info")
        connection = RedisConnection(redis_server.url.replace("//", "//little:secret@"), timeout_s=PATIENT_S)
        with pytest.raises(StorageUnavailableError, match="needs more rights"):
            await connection.open()
        await connection.close()

    @pytest.mark.parametrize("answer", ["The user can't run this command", "ACL failure in script: no permissions"])
    def test_each_redis_says_in_its_own_words_that_a_script_may_not_run_a_command(self, answer: str):
        assert "needs more rights" in str(refusal(redis.ResponseError(answer)))

    async def test_a_user_needs_these_rights_and_no_more(self, redis_server: RedisServer, client: redis.Redis):
        rights = "+eval +evalsha +hmget +hget +hset +hdel +hincrby +expire +get +set +del +info +time +zadd +zrem"
        rights += " +zrange +zmscore +zremrangebyscore"
        client.execute_command("ACL", "SETUSER", "bots", "on", ">secret", "~bots:*", *rights.split())
        async with replica(redis_server.url.replace("//", "//bots:secret@"), RedisClock(client)) as hot:
            assert hot.connection is not None
            await hot.connection.open()
            assert len(await history(hot, 3)) > 100
            assert not hot.connection.is_away
