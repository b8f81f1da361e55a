"""How often replicas ask Redis."""

import redis

from tests.servers import RedisServer
from tests.usecases.world import outcome


async def test_a_run_that_stays_with_one_replica_asks_redis_three_times_a_step(
    replicas: tuple[World, World], redis_server: RedisServer
):
    async def step(replica: World) -> None:
        selection = await replica.select(3)
        ids = (await replica.opened()).dataset.ids
        told = [outcome(ids[task]) for task in selection.tasks]
        await replica.report(*told, selection_id=selection.id)

    await step(replicas[0])
    with redis_server.client() as client:
        for _ in range(5):
            await step(replicas[0])
        before = scripts(client)
        for _ in range(10):
            await step(replicas[0])
        # One to lease; one to publish, and in its wake one to end the leases.
        assert scripts(client) - before == 30
        before = scripts(client)
        for turn in range(10):
            await step(replicas[turn % 2])
        # Refused what it drew from an older state, the other fetches state and leases, then leases.
        assert scripts(client) - before <= 60
    await replicas[1].assert_is_a_replay()


def scripts(client: redis.Redis) -> int:
    """Return how many scripts Redis ran so far."""
    stats = client.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha"))
