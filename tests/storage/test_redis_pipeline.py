"""Scripts that are sent to Redis together: each gets its own answer, whatever becomes of the others."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.exceptions import ResponseError

from bots_service.storage.redis.client import client_of
from bots_service.storage.redis.connection import MAX_BATCH, PROBE, RedisPipeline, Script
from tests.servers import RedisServer, running
from tests.storage.redis_stores import PATIENT_S

NEWEST = Script("newest")
NEVER_SEEN = (-1, -1)


class Counting(RedisPipeline):
    """A pipeline that keeps how many commands went together."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.sizes: list[int] = []

    async def _answers(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        self.sizes.append(len(commands))
        return await super()._answers(commands)


@pytest.fixture
async def pipeline(redis_server: RedisServer) -> AsyncIterator[Counting]:
    with redis_server.client() as client:
        client.flushall()
        client.script_flush()
    client = client_of(redis_server.url, PATIENT_S)
    made = Counting(client, timeout_s=PATIENT_S)
    yield made
    await made.close()
    await client.aclose()


async def newest(pipeline: RedisPipeline, run: str) -> Any:
    """Begin a generation named like the run, or find which began."""
    return await pipeline.outcome(NEWEST, [f"{run}:state", f"{run}:leases"], (run, 1, 1, 100, *NEVER_SEEN))


async def test_those_that_come_at_once_share_a_round_trip_and_each_gets_its_own_answer(pipeline: Counting):
    await newest(pipeline, "first")  # from now on the server knows the script
    pipeline.sizes = []
    runs = [f"run-{number}" for number in range(2 * MAX_BATCH + 3)]
    answers = await asyncio.gather(*(newest(pipeline, run) for run in runs))
    assert [answer[1].decode() for answer in answers] == runs
    assert sorted(pipeline.sizes) == [3, MAX_BATCH, MAX_BATCH]


async def test_a_script_that_the_server_has_not_seen_is_sent_whole(pipeline: Counting, redis_server: RedisServer):
    await newest(pipeline, "a")
    with redis_server.client() as client:
        client.script_flush()
    known, unknown = await asyncio.gather(newest(pipeline, "a"), pipeline.outcome(PROBE, ["probe"], (60,)))
    assert known[1] == b"a"
    assert b"redis_version" in unknown


async def test_what_the_server_refuses_is_told_to_its_caller_alone(pipeline: Counting):
    first, refused, last = await asyncio.gather(
        newest(pipeline, "a"), pipeline.outcome(PROBE, ["probe"]), newest(pipeline, "b")
    )
    assert isinstance(refused, ResponseError)
    assert (first[1], last[1]) == (b"a", b"b")


async def test_a_caller_that_gives_up_takes_nothing_from_the_others(pipeline: Counting):
    for turn in range(20):
        calls = [asyncio.create_task(newest(pipeline, f"{turn}-{number}")) for number in range(4)]
        for _ in range(turn % 5):
            await asyncio.sleep(0)
        calls[1].cancel()
        answers: list[Any] = await asyncio.gather(*calls, return_exceptions=True)
        assert [answers[place][1].decode() for place in (0, 2, 3)] == [f"{turn}-{place}" for place in (0, 2, 3)]


async def test_all_that_wait_for_a_server_that_hangs_are_told_in_time():
    with running(RedisServer()) as server:
        client = client_of(server.url, PATIENT_S)
        hasty = RedisPipeline(client, timeout_s=0.3)
        await newest(hasty, "a")
        server.hang()
        async with asyncio.timeout(PATIENT_S):
            outcomes = await asyncio.gather(*(newest(hasty, f"run-{number}") for number in range(3 * MAX_BATCH)))
            await hasty.close()
        assert {type(outcome) for outcome in outcomes} == {TimeoutError}
        await client.aclose()
