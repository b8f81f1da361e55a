"""What every live store owes: heads, leases and selections by key; in one process's memory, and in Redis."""

from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import pytest

from bots_service.retention import SELECTIONS_S
from tests.servers import RedisServer
from tests.storage.live import Caller, Clock, history, in_memory, replica, run_row, tasks_under


@pytest.fixture(params=["memory", "redis"])
async def live(request: pytest.FixtureRequest) -> AsyncIterator[Caller]:
    if request.param == "memory":
        yield in_memory()
        return
    server: RedisServer = request.getfixturevalue("redis_server")
    with server.client() as client:
        client.flushall()
        async with replica(server.url, Clock(client)) as caller:
            yield caller


@pytest.fixture
async def caller(live: Caller) -> Caller:
    await live.moved(0, begins=True)
    await live.moved(1)
    return live


@pytest.mark.parametrize("seed", range(6))
async def test_the_same_calls_find_the_same_everywhere(live: Caller, seed: int):
    found = await history(live, seed)
    assert len(found) > 200
    assert found == await history(in_memory(), seed)


async def test_draws_from_one_state_are_counted(caller: Caller):
    ordinals = []
    for seq, epoch in ((5, 0), (5, 0), (6, 0), (6, 0), (6, 0), (7, 1)):
        await caller.moved(seq, epoch)
        ordinals.append((await caller.look()).ordinal)
    assert ordinals == [0, 1, 0, 1, 2, 0]


async def test_a_move_tells_how_many_tasks_stay_in_flight(caller: Caller):
    await caller.select(7, 2, 9)
    assert await caller.live.moved(caller.run, (0, 2), done=np.array([2, 4], np.int32)) == 2
    assert await caller.live.moved(caller.run, (1, 3)) == 0  # a rewind


async def test_a_lease_lasts_until_it_is_reported_or_ends(caller: Caller):
    assert await caller.ends() == {}
    assert await caller.select(7, 2, 9) is True
    assert await caller.leased() == [2, 7, 9]
    caller.clock.advance(400)
    assert await caller.select(5, lease_s=2000) is True
    ends = await caller.ends()
    assert ends == pytest.approx({2: 600, 5: 2000, 7: 600, 9: 600}, abs=60)
    assert ends[2] == ends[7]  # leased together
    await caller.moved(2, 0, 9, 4)
    assert await caller.leased() == [2, 5, 7]
    caller.clock.advance(700)
    assert await caller.leased() == [5]
    assert await caller.select(2) is True


async def test_a_selection_leases_all_of_its_tasks_or_none(caller: Caller):
    first, second = await caller.look(), await caller.look()
    assert await caller.lease(first, 1, 2) is True
    assert await caller.lease(second, 2, 3) is False
    assert await caller.leased() == [1, 2]
    assert await caller.lease(second, 3, 4) is True  # nobody has these


async def test_leased_tasks_are_leased_anew_where_that_is_allowed_if_the_draw_knew_of_them(caller: Caller):
    await caller.select(1, 2)
    caller.clock.advance(800)
    assert await caller.select(2, 3) is False
    before = replace(await caller.look(), leased=np.array([1], np.int32))  # as it stood before another leased 2
    assert await caller.lease(before, 1, 2, reuse=True) is False
    assert await caller.select(2, 3, reuse=True) is True
    caller.clock.advance(400)
    assert await caller.leased() == [2, 3]


async def test_a_selection_is_kept_under_its_key_for_its_run(caller: Caller):
    assert (await caller.look("k")).previous is None
    assert await caller.select(1, 2, key="k") is True
    previous = (await caller.look("k")).previous
    assert previous is not None
    kept = previous.selection
    assert (previous.fingerprint, kept.tasks.tolist(), kept.means.tolist()) == ("f", [1, 2], [0.0, 1.0])
    assert np.isnan(kept.draws).all()
    assert (await caller.look("other")).previous is None
    assert (await replace(caller, run=run_row(2)).look("k")).previous is None
    caller.clock.advance(0.7 * SELECTIONS_S)
    assert tasks_under((await caller.look("k")).previous) == [1, 2]
    caller.clock.advance(0.6 * SELECTIONS_S)
    assert (await caller.look("k")).previous is None
    assert await caller.select(3, key="k") is True


async def test_of_two_selections_under_one_key_the_first_is_told(caller: Caller):
    first, second = await caller.look("k"), await caller.look("k")
    await caller.lease(first, 1, key="k")
    assert tasks_under(await caller.lease(second, 2, key="k")) == [1]
    assert await caller.leased() == [1]


async def test_a_selection_that_was_refused_is_not_kept(caller: Caller):
    await caller.select(1)
    assert await caller.select(1, 2, key="k") is False
    assert (await caller.look("k")).previous is None
    assert await caller.select(3, key="k") is True


async def test_a_rewind_ends_leases_and_hides_selections(caller: Caller):
    await caller.select(1, key="k")
    await caller.moved(2, 1)
    assert await caller.leased() == []
    look = await caller.look("k")
    assert (look.previous, look.degraded) == (None, False)
    assert await caller.lease(look, 1, 2, key="k") is True
    assert tasks_under((await caller.look("k")).previous) == [1, 2]


async def test_runs_share_nothing(caller: Caller):
    await caller.select(1)
    for other in (run_row(2), replace(run_row(1), uid="made anew")):
        theirs = replace(caller, run=other)
        await theirs.moved(1)
        assert (await theirs.look()).leased.tolist() == []
        assert await theirs.select(1) is True
        await theirs.live.delete(other)
        await theirs.live.delete(other)
        assert (await theirs.leases()).tasks.tolist() == []
    assert await caller.leased() == [1]


async def test_nobody_can_change_the_leased_tasks(caller: Caller):
    await caller.select(1)
    for tasks in ((await caller.look()).leased, (await caller.leases()).tasks):
        with pytest.raises(ValueError, match="read-only"):
            tasks[0] = 3
