"""Two replicas on one PostgreSQL, over HTTP, whose Redis is wiped again and again."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.servers import RedisServer
from tests.serving import ServiceProcess
from tests.system.replica import Replica

WIPES = 20


@pytest.fixture
def replicas(services: list[ServiceProcess]) -> Iterator[tuple[Replica, Replica]]:
    with closing(Replica(services[0].url)) as one, closing(Replica(services[1].url)) as two:
        yield one, two


def tasks_of(first: int, count: int) -> list[dict[str, Any]]:
    return [{"id": f"t{number}", "tags": [f"tag-t{number}"]} for number in range(first, first + count)]


@pytest.mark.parametrize("strategy", ["pass", "thompson"])
def test_no_selection_is_made_twice_across_wipes_of_redis_and_those_after_one_say_degraded(
    replicas: tuple[Replica, Replica], redis_server: RedisServer, strategy: str
):
    dataset = f"wiped-{strategy}"
    replicas[0].call("PUT", f"/datasets/{dataset}", tasks=tasks_of(0, 60))
    replicas[1].call("PUT", f"/datasets/{dataset}/runs/default", strategy=strategy)
    made: list[tuple[str, tuple[str, ...]]] = []
    told: list[list[bool]] = []

    def select(replica: Replica) -> bool:
        chosen = replica.call("POST", "/select", dataset=dataset, count=8)
        made.append((chosen["selection_id"], tuple(task["id"] for task in chosen["tasks"])))
        return chosen["degraded"]

    with redis_server.client() as client:
        for round_ in range(WIPES):
            told.append([select(replica) for replica in (*replicas, *replicas)])
            if round_ % 5 == 4:  # so that most wipes leave the run at the same entry, where its draws could come again
                report = replicas[round_ % 2].call(
                    "POST", "/report", dataset=dataset, outcomes=[{"task": "t1", "successes": 1, "trials": 4}]
                )
                assert not report["degraded"]  # it is in SQL, and published anew
            client.flushall()
    assert told == [[False] * 4] + [[True] * 4] * (WIPES - 1)
    ids, tasks = zip(*made, strict=True)
    assert len(set(ids)) == len(ids)
    if strategy == "thompson":  # a pass goes on from what was reported, and meets the same tasks again
        assert len(set(tasks)) == len(tasks)
