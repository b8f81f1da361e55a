"""Replicas that select at once from one run in Redis, while tasks in flight are wanted again."""

from tests.servers import RedisServer
from tests.storage.contracts.hot import run_row, state_at
from tests.storage.redis_stores import replica


async def test_tasks_wanted_first_do_not_let_a_second_draw_share_what_another_replica_took_meanwhile(
    redis_server: RedisServer,
):
    with redis_server.client() as client:
        client.flushall()
    async with replica(redis_server.url) as here, replica(redis_server.url) as there:
        await here.states.register(run_row())
        await here.publish(state_at(1))
        await there.follow()
        await there.select(9)
        drawn = await here.prepare()
        await there.select(1, 2)
        assert (await here.acquire(drawn, 9, 1, 2, reuse=True)).selection is None
        drawn = await here.prepare()
        assert (await there.select(3, 4)).selection is None  # it learns that an ordinal was reserved
        assert (await there.select(3, 4)).selection is not None
        assert (await here.acquire(drawn, 9, 3, 5, reuse=True)).selection is None
        assert await here.leased() == [1, 2, 3, 4, 9]
        assert (await here.acquire(await here.prepare(), 9, 5, 6, reuse=True)).selection is not None
        assert await here.leased() == [1, 2, 3, 4, 5, 6, 9]
