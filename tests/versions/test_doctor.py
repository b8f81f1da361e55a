"""What the doctor finds at servers that take over from each other."""

import asyncio

import pytest

from bots_service.doctor import examine
from bots_service.doctor.finding import Finding, Grade
from bots_service.errors import StorageUnavailableError
from bots_service.settings import Settings
from bots_service.storage.redis.connection import RedisConnection
from tests.storage.redis_stores import PATIENT_S
from tests.versions.postgres_pairs import pair
from tests.versions.redis_groups import PRIMARY, redis_cluster, watched

OK, WARNING, PROBLEM = Grade.OK, Grade.WARNING, Grade.PROBLEM


def looked_at(**urls: str) -> dict[str, Finding]:
    return {each.about: each for each in examine(Settings(**urls))}  # type: ignore[arg-type]


def of_redis(url: str) -> dict[str, Finding]:
    return {about: each for about, each in looked_at(redis_url=url).items() if about.startswith("redis")}


async def opened(url: str) -> None:
    connection = RedisConnection(url, timeout_s=PATIENT_S)
    try:
        await connection.open()
    finally:
        await connection.close()


def test_sentinels_and_their_primary():
    with watched() as group:
        found = of_redis(group.url)
        assert {each.grade for each in found.values()} == {OK}
        assert found["redis sentinels"].said == (
            f"3 of 3 answer and know {PRIMARY}; 3 watch it, 2 must agree, 1 followers"
        )
        assert f"127.0.0.1:{group.primary.port}" in found["redis"].said
        wrong = of_redis(group.url.replace(PRIMARY, "another"))
        assert {about: each.grade for about, each in wrong.items() if each.grade is not OK} == {
            "redis sentinels": PROBLEM,
            "redis": PROBLEM,
        }
        sentinel = f"redis://127.0.0.1:{group.sentinels[0].port}/0"
        assert "?sentinel=NAME" in of_redis(sentinel)["redis role"].advice
        with pytest.raises(StorageUnavailableError):
            asyncio.run(opened(sentinel))
        group.sentinels[0].kill()
        assert of_redis(group.url)["redis sentinels"].grade is WARNING
        group.follower.kill()
        assert of_redis(group.follower.url)["redis"].grade is PROBLEM


def test_a_cluster_with_followers():
    with redis_cluster() as group:
        found = of_redis(group.url)
        assert {each.grade for each in found.values()} == {OK}
        assert found["redis cluster"].said == "3 primaries serve 16384 of 16384 slots, 0 without a follower"


def test_a_pair_of_which_the_standby_is_asynchronous_and_synchronous():
    for synchronous, grade in ((False, WARNING), (True, OK)):
        with pair(synchronous=synchronous) as postgres:
            found = looked_at(database_url=postgres.url)
            assert found["standbys"].grade is grade
            assert found["database role"].said == "primary"
            assert f"127.0.0.1:{postgres.standby.port}" in found["database"].said
            role = looked_at(database_url=postgres.standby_url)["database role"]
            assert (role.grade, "target_session_attrs=read-write" in role.advice) == (PROBLEM, True)


def test_who_waits_for_a_standby_that_is_not_there_is_found():
    with pair(synchronous=True) as postgres:
        postgres.standby.kill()
        found = looked_at(database_url=postgres.url)["standbys"]
        assert (found.grade, "every commit waits" in found.said) == (PROBLEM, True)
