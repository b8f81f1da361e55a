"""Hot stores over a Redis that hangs, dies, forgets, refuses to write, or whose answers get lost."""

import asyncio
import random
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest
from redis.asyncio import ConnectionPool

from bots_service.errors import StorageUnavailableError
from bots_service.records import PublishResult
from bots_service.storage.memory import MemoryLeases, MemoryStates
from bots_service.storage.redis.connection import RedisHealth
from tests.servers import RedisServer, running, wait_until
from tests.storage.contracts.hot import Clock, Hot, found, history, run_row, state_at
from tests.storage.redis_stores import PATIENT_S, RedisClock, Replica, replica
from tests.system.lossy_proxy import LossyProxy

GIVE_UP_S = 60.0
SHORT_S = 0.3


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with running(RedisServer()) as started:
        yield started


@pytest.fixture
async def hot(server: RedisServer) -> AsyncIterator[Replica]:
    async with replica(server.url, timeout_s=SHORT_S) as made:
        yield made


@pytest.fixture
async def other(server: RedisServer) -> AsyncIterator[Replica]:
    async with replica(server.url) as made:
        yield made


def is_away(stores: Replica) -> bool:
    assert stores.connection is not None
    return stores.connection.is_away


async def back(stores: Replica) -> None:
    """Return once the replica works with Redis again."""
    await asyncio.to_thread(wait_until, lambda: not is_away(stores))


class TestAway:
    async def test_while_redis_hangs_a_replica_goes_on_locally_until_it_is_back(
        self, hot: Replica, server: RedisServer
    ):
        await hot.publish(state_at(4))
        await hot.select(1, 2)
        server.hang()
        async with asyncio.timeout(GIVE_UP_S):
            assert await found(hot.states, run_row()) is None
            # 200 waits of SHORT_S would take as long as the whole time.
            for number in range(100):
                assert await hot.publish(state_at(5 + number)) is PublishResult.LOCAL
            ticket = await hot.prepare()
            assert (ticket.degraded, ticket.leased.tolist()) == (True, [1, 2])
            taken = await hot.acquire(ticket, 3, 4, key="k")
            await hot.release(4)
            await hot.release(2)
            assert await hot.leased() == [1, 3]
        assert taken.selection is not None
        assert taken.selection.degraded
        known = hot.states.known(run_row())
        assert known is not None
        assert known.state.seq == 104
        server.resume()
        await back(hot)
        # Others may have acknowledged what never reached Redis, so it is not believed before SQL was asked.
        assert await found(hot.states, run_row()) is None
        assert await hot.publish(state_at(105)) is PublishResult.SHARED
        assert await found(hot.states, run_row()) == (0, 105)
        ticket = await hot.prepare("k")
        assert ticket.previous is not None
        assert ticket.previous[1].tasks.tolist() == [3, 4]
        assert (await hot.prepare()).leased.tolist() == [1, 3]

    async def test_while_redis_hangs_a_replica_tells_of_the_leases_that_it_knows(
        self, hot: Replica, server: RedisServer
    ):
        await hot.publish(state_at(4))
        await hot.select(1, 2, seconds=1000)
        server.hang()
        async with asyncio.timeout(GIVE_UP_S):
            assert await hot.lease_ends() == pytest.approx({1: 1000, 2: 1000}, abs=100)
            assert (await hot.acquire(await hot.prepare(), 2, 3, seconds=5000)).selection is not None
            assert await hot.lease_ends() == pytest.approx({1: 1000, 2: 5000, 3: 5000}, abs=100)
        server.resume()
        await back(hot)
        assert await hot.lease_ends() == pytest.approx({1: 1000, 2: 5000, 3: 5000}, abs=200)

    async def test_after_an_outage_no_run_is_believed_before_it_was_published_again(
        self, hot: Replica, server: RedisServer
    ):
        await hot.publish(state_at(4))
        token = (await hot.states.newest(run_row())).token
        server.hang()
        assert await found(hot.states, run_row(2)) is None
        server.resume()
        await back(hot)
        # Another replica may have been cut off too, acknowledged a report, and not be back yet.
        assert await found(hot.states, run_row()) is None
        assert await hot.states.publish(run_row(), state_at(5), token) is PublishResult.OUTDATED
        assert await found(hot.states, run_row()) is None
        assert await hot.publish(state_at(5)) is PublishResult.SHARED
        assert await found(hot.states, run_row()) == (0, 5)

    async def test_a_selection_under_way_when_redis_goes_away_begins_again_locally(
        self, hot: Replica, server: RedisServer
    ):
        await hot.publish(state_at(4))
        ticket = await hot.prepare()
        server.kill()
        taken = await hot.acquire(ticket, 1)
        assert (taken.selection, taken.stale) == (None, False)
        taken = await hot.select(1)
        assert taken.selection is not None
        assert taken.selection.degraded

    async def test_replicas_that_are_cut_off_draw_with_other_ordinals(
        self, hot: Replica, other: Replica, server: RedisServer
    ):
        server.kill()
        ordinals = [(await stores.prepare()).ordinal for stores in (hot, other)]
        assert ordinals[0] != ordinals[1]

    async def test_what_was_published_locally_is_invalidated_for_all_once_redis_is_back(
        self, other: Replica, server: RedisServer
    ):
        with LossyProxy(server.port, loses=lambda: cut) as proxy:
            cut = False
            async with replica(f"redis://127.0.0.1:{proxy.port}/0", timeout_s=SHORT_S) as hot:
                await hot.publish(state_at(4))
                token = (await other.states.newest(run_row())).token
                cut = True
                assert await hot.publish(state_at(5)) is PublishResult.LOCAL
                cut = False
                await back(hot)
                assert await other.states.publish(run_row(), state_at(4), token) is PublishResult.SUPERSEDED
                assert await found(other.states, run_row()) is None

    @pytest.mark.parametrize(
        ("fault", "mend"),
        [
            (["CONFIG", "SET", "maxmemory", "1"], ["CONFIG", "SET", "maxmemory", "0"]),
            (["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"]),
            (["CONFIG", "SET", "min-replicas-to-write", "1"], ["CONFIG", "SET", "min-replicas-to-write", "0"]),
        ],
    )
    async def test_a_redis_that_refuses_to_write_counts_as_away(
        self, hot: Replica, server: RedisServer, fault: list[str], mend: list[str]
    ):
        await hot.publish(state_at(4))
        token = (await hot.states.newest(run_row())).token
        with server.client() as client:
            client.execute_command(*fault)
            assert await hot.states.publish(run_row(), state_at(5), token) is PublishResult.LOCAL
            assert is_away(hot)
            client.execute_command(*mend)
        await back(hot)
        assert await hot.publish(state_at(5)) is PublishResult.SHARED

    async def test_a_server_that_ends_while_it_is_connected_to_counts_as_away(
        self, hot: Replica, monkeypatch: pytest.MonkeyPatch
    ):
        await hot.publish(state_at(4))

        async def closed(*_: object) -> None:
            """What uvloop raises where asyncio has a ConnectionError; seen when Redis was killed under load."""
            raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")

        monkeypatch.setattr(ConnectionPool, "get_connection", closed)
        assert (await hot.states.newest(run_row())).state is None
        assert is_away(hot)
        monkeypatch.undo()
        await back(hot)

    async def test_a_run_deleted_meanwhile_is_deleted_once_redis_is_back(
        self, hot: Replica, other: Replica, server: RedisServer
    ):
        await hot.publish(state_at(4))
        await hot.select(1, key="k")
        server.hang()
        await hot.states.delete(run_row())
        await hot.leases.clear(run_row())
        server.resume()
        await back(hot)
        assert await found(other.states, run_row()) is None
        assert await other.leased() == []
        await other.publish(state_at(1))
        assert (await other.select(1, 2, key="k")).selection is not None

    async def test_a_replica_starts_while_redis_is_away(self, server: RedisServer):
        server.kill()
        async with replica(server.url, timeout_s=SHORT_S) as hot:
            assert hot.connection is not None
            await hot.connection.open()
            with pytest.raises(StorageUnavailableError):
                await RedisHealth(hot.connection).check()
            assert await hot.publish(state_at(1)) is PublishResult.LOCAL
            server.start()
            await back(hot)
            assert await RedisHealth(hot.connection).check() == {"redis": "ok"}
            assert await hot.publish(state_at(1)) is PublishResult.SHARED


class TestLostAnswers:
    @pytest.mark.parametrize("seed", range(3))
    async def test_an_operation_whose_answer_is_lost_is_done_once(self, server: RedisServer, seed: int):
        lost, rest = random.Random(seed), 0

        def loses() -> bool:
            """Lose an answer now and then, but never that of a second attempt on its fresh connection."""
            nonlocal rest
            rest -= 1
            if rest > 0 or lost.random() > 0.3:
                return False
            rest = 8
            return True

        clock = Clock()
        memory = Hot(MemoryStates(10**6), MemoryLeases(clock=clock), clock)
        with LossyProxy(server.port, loses=loses) as proxy, server.client() as client:
            async with replica(f"redis://127.0.0.1:{proxy.port}/0", RedisClock(client), timeout_s=PATIENT_S) as hot:
                assert await history(hot, seed, conflicts=0.0) == await history(memory, seed, conflicts=0.0)
                assert not is_away(hot)
            assert proxy.lost > 10

    async def test_cancelled_operations_leave_no_answer_to_others(self, server: RedisServer):
        async with replica(server.url, timeout_s=PATIENT_S) as hot:
            for number in range(8):
                await hot.publish(state_at(number + 1), run_row(number))
        rng = random.Random(5)
        async with replica(server.url, timeout_s=PATIENT_S) as hot:
            for number in range(8):
                await hot.follow(run_row(number))
            for _ in range(100):
                asked = {number: asyncio.create_task(found(hot.states, run_row(number))) for number in range(8)}
                for _ in range(rng.randrange(12)):
                    await asyncio.sleep(0)
                for number in rng.sample(range(8), 4):
                    asked[number].cancel()
                for number, answer in asked.items():
                    with_seq = (await asyncio.gather(answer, return_exceptions=True))[0]
                    assert isinstance(with_seq, asyncio.CancelledError) or with_seq == (0, number + 1)
            assert not is_away(hot)


class TestForgetting:
    async def test_an_old_append_only_file_is_not_believed(
        self, hot: Replica, other: Replica, server: RedisServer, tmp_path: Path
    ):
        await hot.publish(state_at(4))
        ticket = await hot.prepare()
        with_four = saved(server, tmp_path)
        await hot.publish(state_at(5))
        restarted(server, with_four)
        assert (await hot.acquire(ticket, 1)).selection is None
        await back(hot)
        assert await found(other.states, run_row()) is None

    @pytest.mark.parametrize("seed", range(4))
    async def test_whatever_redis_forgets_the_newest_state_is_never_an_old_one(
        self, server: RedisServer, tmp_path: Path, seed: int
    ):
        rng, head, floor, delayed = np.random.default_rng(seed), 1, 0, list[tuple[Replica, int, str]]()
        old = saved(server, tmp_path)
        async with replica(server.url) as first, replica(server.url) as second:
            for _ in range(250):
                stores = (first, second)[rng.integers(2)]
                event = rng.choice(
                    ["empty", "save", "restart", "late", "look", "publish"], p=[0.1, 0.03, 0.03, 0.2, 0.3, 0.34]
                )
                if event == "empty":
                    with server.client() as client:
                        client.flushall()
                elif event == "save":
                    old = saved(server, tmp_path)
                elif event == "restart":
                    restarted(server, old)
                elif event == "late" and delayed:
                    stores, seq, token = delayed.pop(rng.integers(len(delayed)))
                    if await stores.states.publish(run_row(), state_at(seq), token) is PublishResult.SHARED:
                        floor = max(floor, seq)
                else:
                    newest = await stores.states.newest(run_row())
                    assert newest.state is None or newest.state.seq >= floor
                    head += int(rng.integers(2))  # others append
                    if event == "look":
                        delayed.append((stores, head, newest.token))
                    elif await stores.states.publish(run_row(), state_at(head), newest.token) is PublishResult.SHARED:
                        floor = head
                if rng.random() < 0.3:
                    async with replica(server.url) as observer:  # it remembers nothing itself
                        state = (await observer.states.newest(run_row())).state
                        assert state is None or state.seq >= floor
        assert floor > 30


def saved(server: RedisServer, folder: Path) -> Path:
    """Return a copy of the server's append-only file as it is on the disk now; from Redis 7 on it is a folder."""
    copy = folder / "saved"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(server.folder, copy, ignore=shutil.ignore_patterns(server.log.name))
    return copy


def restarted(server: RedisServer, files: Path) -> None:
    """Restart the server with an old append-only file."""
    server.kill()
    shutil.copytree(files, server.folder, dirs_exist_ok=True)
    server.start()
