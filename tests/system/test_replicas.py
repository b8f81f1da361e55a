"""Two replicas on one PostgreSQL and one Redis, over HTTP: what one acknowledged, the other goes by at once."""

import random
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest

from tests.servers import RedisServer, wait_until
from tests.serving import ServiceProcess
from tests.sizes import size
from tests.system.replica import Replica

ROUNDS = size(20, 100)
POOL = 12
WIPES = 20
REVOKED_WITHIN_S = 30.0  # 5 s on a machine with nothing else to do


@pytest.fixture
def replicas(services: list[ServiceProcess]) -> Iterator[tuple[Replica, Replica]]:
    with closing(Replica(services[0].url)) as one, closing(Replica(services[1].url)) as two:
        yield one, two


def tasks_of(first: int, count: int) -> list[dict[str, Any]]:
    return [{"id": f"t{number}", "tags": [f"tag-t{number}"]} for number in range(first, first + count)]


def go_on(replica: Replica, live: list[str], rng: random.Random) -> None:
    """Make some changes; each replica then has the newest state before another one reads it."""
    for _ in range(rng.randrange(3)):
        if rng.random() < 0.5:
            replica.select()
        else:
            replica.report(rng.choice(live))


def assert_knows(replica: Replica, new: str, live: list[str], rng: random.Random) -> None:
    """Check that the first request that needs a new task finds it."""
    look = rng.choice(["exclude", "tags", "report"])
    if look == "exclude":
        assert new not in replica.ids(len(live) - 1, exclude=[new])
    elif look == "tags":
        assert replica.ids(1, tags=[f"tag-{new}"]) == [new]
    else:
        replica.report(new)


def test_replicas_agree_on_the_dataset_at_the_first_request_after_a_change(replicas: tuple[Replica, Replica]):
    rng, live = random.Random(1), [f"t{number}" for number in range(POOL)]
    replicas[0].call("PUT", "/datasets/pool", tasks=tasks_of(0, POOL))
    for round_ in range(ROUNDS):
        here, there = rng.sample(replicas, 2)
        if len(live) > POOL:
            gone = live.pop(rng.randrange(len(live)))
            here.call("DELETE", "/datasets/pool/tasks", ids=[gone])
            go_on(here, live, rng)
            assert sorted(there.ids(len(live))) == sorted(live)
        else:
            [task] = tasks_of(POOL + round_, 1)
            live.append(task["id"])
            here.call("POST", "/datasets/pool/tasks", tasks=[task])
            go_on(here, live, rng)
            assert_knows(there, task["id"], live, rng)


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


def test_selections_say_degraded_no_longer_than_a_lost_lease_would_have_lasted(
    replicas: tuple[Replica, Replica], redis_server: RedisServer
):
    replicas[0].call("PUT", "/datasets/short", tasks=tasks_of(0, 60))
    replicas[0].call("PUT", "/datasets/short/runs/default", lease_seconds=1)

    def is_degraded(replica: Replica) -> bool:
        return replica.call("POST", "/select", dataset="short", count=1)["degraded"]

    assert [is_degraded(replica) for replica in replicas] == [False, False]
    with redis_server.client() as client:
        client.flushall()
    wait_until(lambda: not any(is_degraded(replica) for replica in replicas))


def new_key(replica: Replica) -> tuple[str, dict[str, str]]:
    """Make a key; return its id and the header that it comes in."""
    made = replica.call("POST", "/keys", name="shared", scopes=["read"], datasets=["*"])
    return made["id"], {"Authorization": f"Bearer {made['key']}"}


def test_replicas_share_keys_and_revocations(replicas: tuple[Replica, Replica]):
    one, two = replicas
    key_id, header = new_key(two)
    assert httpx.get(f"{one.url}/datasets", headers=header).status_code == 200  # made elsewhere just now
    two.call("DELETE", f"/keys/{key_id}")
    assert httpx.get(f"{two.url}/datasets", headers=header).status_code == 401
    give_up = time.monotonic() + REVOKED_WITHIN_S
    while httpx.get(f"{one.url}/datasets", headers=header).status_code != 401:
        assert time.monotonic() < give_up
        time.sleep(0.05)
