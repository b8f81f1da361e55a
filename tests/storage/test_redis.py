"""What only Redis does: what replicas owe each other, what it forgets, how it fails, and who may use it."""

import asyncio
import random
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import redis
from redis.asyncio import ConnectionPool
from redis.exceptions import MovedError, ResponseError

from bots_service.core.arrays import frozen
from bots_service.core.codec import encode_state
from bots_service.errors import StorageUnavailableError
from bots_service.runs import ForkFrom
from bots_service.settings import Settings
from bots_service.storage import redis as redis_store
from bots_service.storage.live import KeptState, Look
from bots_service.storage.redis import refusal
from bots_service.storage.sqlite import SqliteDatabase
from tests.core.pools import bots_belief, with_belief
from tests.servers import RedisServer, running, wait_until
from tests.sqlite_files import migrated_file
from tests.storage.live import (
    PATIENT_S,
    Caller,
    Clock,
    history,
    in_memory,
    replica,
    run_row,
    selection_of,
    state_at,
    tasks_under,
)
from tests.system.faults.faulty_proxy import Fault, FaultyProxy
from tests.usecases.world import POOL, World, outcome

GIVE_UP_S = 60.0
SHORT_S = 0.3
HEADER, LEASES = "bots:uid-1:run", "bots:uid-1:leases"


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[redis.Redis]:
    with redis_server.client() as client:
        client.flushall()
        yield client


@pytest.fixture
async def one(redis_server: RedisServer, client: redis.Redis) -> AsyncIterator[Caller]:
    async with replica(redis_server.url, Clock(client)) as made:
        await made.moved(0, begins=True)
        await made.moved(1)
        yield made


@pytest.fixture
async def other(redis_server: RedisServer, one: Caller) -> AsyncIterator[Caller]:
    async with replica(redis_server.url, one.clock) as made:
        yield made


async def test_a_replica_sees_what_others_did(one: Caller, other: Caller):
    assert await one.moved(4)
    assert await one.select(1, 2, key="k") is True
    look = await other.look("k")
    assert (look.head, look.leased.tolist(), tasks_under(look.previous)) == ((0, 4), [1, 2], [1, 2])
    assert (look.degraded, look.local, look.ordinal) == (False, False, 1)
    await other.moved(5, 0, 1)
    await one.moved(3)  # late, and older
    look = await one.look()
    assert (look.head, look.leased.tolist()) == ((0, 5), [2])
    await other.live.delete(other.run)
    look = await one.look()
    assert (look.head, look.leased.tolist(), await one.lease(look, 1)) == (None, [], False)


async def test_what_was_drawn_from_an_older_state_is_refused(one: Caller, other: Caller):
    look = await one.look()
    await other.moved(2)
    assert await one.lease(look, 1) is False
    assert await other.leased() == []


async def test_a_large_selection_is_leased_and_kept(one: Caller, other: Caller):
    tasks = np.random.default_rng(1).permutation(10**6)[:20_000].tolist()
    await one.select(*tasks, key="k")
    look = await other.look("k")
    assert (tasks_under(look.previous), look.leased.tolist()) == (tasks, sorted(tasks))
    await other.release(*tasks[:15_000])
    assert await one.leased() == sorted(tasks[15_000:])


async def test_the_latest_version_of_a_dataset_is_kept(one: Caller, other: Caller):
    assert (await one.look()).dataset_version is None
    for version in (7, 9, 8):
        await one.live.dataset_changed(one.run.dataset_id, version)
    assert (await other.look()).dataset_version == 9
    assert (await replace(other, run=replace(run_row(), dataset_id=2)).look()).dataset_version is None


async def test_every_key_ends_at_some_time(one: Caller, client: redis.Redis):
    await one.moved(2, kept=KeptState(state_at(2), 0.0))
    await one.select(1, key="k")
    await one.select(2)
    await one.live.dataset_changed(1, 3)
    assert one.server is not None
    await one.server.info()
    keys = {key.decode(): client.ttl(key) for key in client.scan_iter("*")}
    assert {HEADER, LEASES, "bots:dataset:1", redis_store.PROBE_KEY} <= keys.keys()
    assert len(keys) == 6
    assert all(seconds > 0 for seconds in keys.values())


async def test_a_state_comes_back_whole_and_an_older_one_does_not_replace_it(one: Caller, other: Caller):
    assert await other.live.state(other.run) is None
    implied = frozen(np.random.default_rng(1).random((2, 100_000)))
    state = with_belief(state_at(4), implied=implied)
    await one.moved(5, kept=KeptState(state, 12.5))
    await one.moved(6, kept=KeptState(state_at(3), 11.0))
    found = await other.live.state(other.run)
    assert found is not None
    assert (encode_state(found.state), found.at) == (encode_state(state), 12.5)
    np.testing.assert_array_equal(bots_belief(found.state).implied, implied)


async def test_one_that_is_damaged_or_of_another_server_is_none(one: Caller, client: redis.Redis):
    await one.moved(4, kept=KeptState(state_at(4), 1.0))
    client.hset(HEADER, "state", b"8 bytes BOTS no state")
    assert await one.live.state(one.run) is None
    await one.moved(5, kept=KeptState(state_at(5), 1.0))
    client.hset(HEADER, "server", "0" * 40)
    assert await one.live.state(one.run) is None


async def test_selections_are_degraded_until_leases_that_were_lost_would_have_ended(
    one: Caller, other: Caller, client: redis.Redis
):
    assert not (await one.look()).degraded
    client.flushall()
    look = await other.look()
    assert (look.head, await other.lease(look, 1)) == (None, False)
    await other.moved(1)
    for caller in (one, other):
        look = await caller.look()
        assert (look.degraded, look.local) == (True, False)
    new = replace(one, run=run_row(2))
    await new.moved(0, begins=True)
    assert not (await new.look()).degraded  # it begins, so it has lost nothing
    one.clock.advance(900)
    assert (await one.look()).degraded
    one.clock.advance(200)
    assert not (await one.look()).degraded


async def test_leases_that_redis_evicted_were_lost(one: Caller, client: redis.Redis):
    await one.select(1)
    client.delete(LEASES)
    assert [(await one.look()).degraded for _ in range(2)] == [True, True]
    one.clock.advance(1100)
    assert not (await one.look()).degraded


async def test_a_run_that_begins_with_a_report_or_as_a_fork_has_lost_nothing(one: Caller, tmp_path: Path):
    settings = Settings(data_dir=migrated_file(tmp_path).parent)
    world = World.over(tmp_path, settings, SqliteDatabase(settings.sql_url), one.live)
    await world.import_pool()
    await world.report(outcome("t1"))
    await world.runs.put(POOL, "fork", {}, ForkFrom("default"), None)
    selections = [await world.select(4, run) for run in ("default", "fork")]
    await world.close()
    assert [selection.degraded for selection in selections] == [False, False]


async def test_draws_after_a_loss_are_counted_from_a_random_ordinal(one: Caller, client: redis.Redis):
    first = [(await one.look()).ordinal]
    for _ in range(2):
        client.flushall()
        await one.moved(1)
        first.append((await one.look()).ordinal)
    assert first[0] == 0
    assert len(set(first)) == 3
    await one.moved(2)
    assert (await one.look()).ordinal == 0  # nobody drew from it before


async def test_a_look_for_several_selects_gives_each_an_ordinal_and_the_tasks_of_those_before(
    one: Caller, other: Caller
):
    await one.moved(1)
    other.version = one.version
    first = await one.look(selects=3)
    looks = [first]
    for tasks in ((5, 2), (9,)):
        assert await one.lease(looks[-1], *tasks)
        left = looks[-1].after(selection_of(one.version, *tasks))
        assert left is not None
        looks.append(left)
    assert [look.ordinal for look in looks] == [0, 1, 2]
    assert [look.leased.tolist() for look in looks] == [[], [2, 5], [2, 5, 9]]
    assert looks[-1].after(selection_of(one.version, 1)) is None
    assert (await other.look()).ordinal == 3


async def test_leases_that_are_evicted_between_a_look_and_its_lease_are_noticed(one: Caller, client: redis.Redis):
    await one.moved(1, begins=True)
    look = await one.look()
    [leases] = client.scan_iter("bots:*:leases")
    client.delete(leases)
    assert await one.lease(look, 1) is False
    assert (await one.look()).degraded


async def test_a_selection_that_can_not_be_read_counts_for_nothing(one: Caller, client: redis.Redis):
    look = await one.look("k")
    await one.select(1, key="k")
    [key] = client.scan_iter("bots:*:selection:*")
    client.hset(key, "bytes", b"\xc1\xc1")
    assert (await one.look("k")).previous is None
    assert await one.lease(look, 2, key="k") is True
    assert await one.leased() == [1, 2]


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """One that a test may kill."""
    with running(RedisServer()) as started:
        yield started


@pytest.fixture
async def hasty(server: RedisServer) -> AsyncIterator[Caller]:
    """A replica that soon takes the server for one that is away."""
    async with replica(server.url, timeout_s=SHORT_S) as made:
        await made.moved(1)
        yield made


async def back(caller: Caller) -> None:
    await asyncio.to_thread(wait_until, lambda: not caller.is_away)


async def test_while_redis_hangs_tasks_are_leased_in_the_process_and_stay_so(hasty: Caller, server: RedisServer):
    await hasty.select(1, 2)
    server.hang()
    async with asyncio.timeout(GIVE_UP_S):
        for seq in range(2, 200):  # that many waits of SHORT_S would take as long as the whole time
            assert not await hasty.moved(seq)
        look = await hasty.look()
        assert (look.head, look.degraded, look.local) == (None, True, True)
        assert await hasty.lease(look, 3, 4, 5, key="k") is True
        await hasty.release(4)
        assert await hasty.ends() == pytest.approx({3: 1000, 5: 1000}, abs=100)
        assert await hasty.live.state(hasty.run) is None
        await hasty.live.dataset_changed(1, 2)
    server.resume()
    await back(hasty)
    look = await hasty.look("k")
    assert (look.local, tasks_under(look.previous)) == (True, [3, 4, 5])
    look = await hasty.look()
    assert look.head in ((0, 1), (0, 2))  # it may have done what it was sent while it hung
    assert (look.local, look.leased.tolist()) == (False, [1, 2, 3, 5])
    assert await hasty.moved(200)
    assert (await hasty.look()).head == (0, 200)
    assert await hasty.select(2, lease_s=5000, reuse=True) is True
    assert await hasty.ends() == pytest.approx({1: 1000, 2: 5000, 3: 1000, 5: 1000}, abs=200)


async def test_a_selection_under_way_when_redis_goes_away_begins_again(hasty: Caller, server: RedisServer):
    look = await hasty.look()
    server.kill()
    assert await hasty.lease(look, 1) is False
    assert await hasty.select(1) is True


async def test_replicas_that_are_cut_off_draw_with_other_ordinals(hasty: Caller, server: RedisServer):
    server.kill()
    async with replica(server.url, timeout_s=SHORT_S) as other:
        assert (await hasty.look()).ordinal != (await other.look()).ordinal


@pytest.mark.parametrize(
    ("fault", "mend"),
    [
        (["CONFIG", "SET", "maxmemory", "1"], ["CONFIG", "SET", "maxmemory", "0"]),
        (["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"]),
        (["CONFIG", "SET", "min-replicas-to-write", "1"], ["CONFIG", "SET", "min-replicas-to-write", "0"]),
    ],
)
async def test_a_redis_that_refuses_to_write_counts_as_away(
    hasty: Caller, server: RedisServer, fault: list[str], mend: list[str]
):
    with server.client() as client:
        client.execute_command(*fault)
        assert not await hasty.moved(2)
        assert hasty.is_away
        client.execute_command(*mend)
    await back(hasty)
    assert await hasty.moved(2)


async def test_a_server_that_ends_while_it_is_connected_to_counts_as_away(
    hasty: Caller, monkeypatch: pytest.MonkeyPatch
):
    async def closed(*_: object) -> None:
        """What uvloop raises where asyncio has a ConnectionError; seen when Redis was killed under load."""
        raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")

    monkeypatch.setattr(ConnectionPool, "get_connection", closed)
    assert (await hasty.look()).local
    assert hasty.is_away
    monkeypatch.undo()
    await back(hasty)


async def test_a_replica_starts_while_redis_is_away(server: RedisServer):
    server.kill()
    async with replica(server.url, timeout_s=SHORT_S) as caller:
        assert caller.server is not None
        await caller.server.open()
        with pytest.raises(StorageUnavailableError):
            await caller.live.check()
        assert not await caller.moved(1)
        server.start()
        await back(caller)
        await caller.live.check()
        assert await caller.moved(1)


async def test_what_a_server_wrote_before_it_started_anew_counts_for_nothing(
    hasty: Caller, server: RedisServer, tmp_path: Path
):
    """It may have lost its last seconds, as its old file has here; one that was promoted may never have had them."""
    await hasty.select(1)
    look, copy = await hasty.look(), tmp_path / "saved"
    shutil.copytree(server.folder, copy, ignore=shutil.ignore_patterns(server.log.name))
    await hasty.moved(5)
    server.kill()
    shutil.copytree(copy, server.folder, dirs_exist_ok=True)
    server.start()
    assert await hasty.lease(look, 2) is False
    await back(hasty)
    assert (await hasty.look()).head is None
    await hasty.moved(5)
    look = await hasty.look()
    assert (look.head, look.degraded, look.leased.tolist()) == ((0, 5), True, [1])


@pytest.mark.parametrize("seed", range(3))
async def test_a_call_whose_answer_is_lost_is_done_once(server: RedisServer, seed: int):
    lost, rest = random.Random(seed), 0

    def loses(_: bytes) -> bool:
        """Lose an answer now and then, but never that of a second attempt on its fresh connection."""
        nonlocal rest
        rest -= 1
        if rest > 0 or lost.random() > 0.3:
            return False
        rest = 8
        return True

    with closing(FaultyProxy(server.port, cuts=loses)) as proxy, server.client() as client:
        async with replica(f"redis://127.0.0.1:{proxy.port}/0", Clock(client)) as caller:
            assert await history(caller, seed) == await history(in_memory(), seed)
            assert not caller.is_away
        assert proxy.met[Fault.CUT.value] > 10


async def test_cancelled_calls_leave_no_answer_to_others(server: RedisServer):
    rng = random.Random(5)
    async with replica(server.url) as patient:
        callers = [replace(patient, run=run_row(number)) for number in range(8)]
        for number, caller in enumerate(callers):
            await caller.moved(number + 10)
        for _ in range(100):
            asked = [asyncio.create_task(caller.look()) for caller in callers]
            for _ in range(rng.randrange(12)):
                await asyncio.sleep(0)
            for number in rng.sample(range(8), 4):
                asked[number].cancel()
            for number, look in enumerate(await asyncio.gather(*asked, return_exceptions=True)):
                assert isinstance(look, asyncio.CancelledError | Look)
                assert isinstance(look, asyncio.CancelledError) or look.head == (0, number + 10)
        assert not patient.is_away


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("rediss://:secret@one/0?ssl_ca_certs=/no/such/file", "ssl_ca_certs .* names no file: /no/such/file"),
        ("redis://:secret@one:port/0", "BOTS_REDIS_URL is not a Redis URL"),
        ("redis://:sec/secret@one:1", "BOTS_REDIS_URL is not a Redis URL"),
        ("http://:secret@one/0", "BOTS_REDIS_URL is not a Redis URL"),
        ("one:6379", "BOTS_REDIS_URL is not a Redis URL"),
    ],
)
def test_a_url_that_can_not_be_is_refused_without_its_password(url: str, said: str):
    with pytest.raises(StorageUnavailableError, match=said) as refused:
        redis_store.RedisServer(url, timeout_s=1.0)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("user", "options", "said"),
    [
        (":hunter2", "", "rejects the user and password in BOTS_REDIS_URL"),
        ("little:secret", "", "needs more rights"),
        ("", "?sokcet_timeout=3", "BOTS_REDIS_URL has an unknown option"),
    ],
)
async def test_what_redis_refuses_is_told_at_the_start(
    redis_server: RedisServer, client: redis.Redis, user: str, options: str, said: str
):
    client.execute_command("ACL", "SETUSER", "little", "on", ">secret", "~bots:*", "+@all", "-info")
    url = redis_server.url.replace("//", f"//{user}@") if user else redis_server.url
    connections = redis_store.RedisServer(url + options, timeout_s=PATIENT_S)
    with pytest.raises(StorageUnavailableError, match=said) as refused:
        await connections.open()
    assert "hunter2" not in str(refused.value)
    await connections.close()


async def test_a_redis_that_is_too_old_is_told_at_the_start(one: Caller, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bots_service.storage.redis.MIN_VERSION", (99, 0))
    assert one.server is not None
    with pytest.raises(StorageUnavailableError, match=r"is version .*; at least"):
        await one.server.open()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ResponseError("The user can't run this command"), "needs more rights"),
        (ResponseError("ACL failure in script: no permissions"), "needs more rights"),
        (ResponseError("unknown command 'EVALSHA', with args"), "no cluster, no Sentinel"),
        (MovedError("1 127.0.0.1:6381"), "no cluster, no Sentinel"),
        (OSError("certificate verify failed"), "ssl_ca_certs=FILE"),
    ],
)
def test_what_the_operator_has_to_mend_is_said(error: Exception, said: str):
    assert said in str(refusal(error))


async def test_a_user_needs_these_rights_and_no_more(redis_server: RedisServer, client: redis.Redis):
    rights = "+evalsha +script|load +hmget +hget +hset +hincrby +expire +pexpire +get +set +del +exists +info +time"
    rights += " +zadd +zcard +zrem +zrangebyscore +zmscore +zremrangebyscore"
    client.execute_command("ACL", "SETUSER", "bots", "on", ">secret", "~bots:*", *rights.split())
    client.script_flush()
    async with replica(redis_server.url.replace("//", "//bots:secret@"), Clock(client)) as caller:
        assert caller.server is not None
        await caller.server.open()
        await history(caller, 3)
        await caller.moved(200, kept=KeptState(state_at(200), 0.0))
        assert await caller.live.state(caller.run) is not None
        client.delete("bots:uid-1:leases")
        await caller.look()
        await caller.live.delete(caller.run)
        await caller.live.dataset_changed(1, 2)
        assert not caller.is_away
