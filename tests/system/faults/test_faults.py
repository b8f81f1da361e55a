"""kill -9 of anything at random moments, on a network that loses, delays and cuts: nothing acknowledged is lost."""

import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import httpx
import numpy as np
import psycopg
import pytest

from bots_client import Client
from bots_service.core.codec import encode_state
from tests.servers import wait_until
from tests.serving import running_service
from tests.sizes import size
from tests.system.faults.cluster import Chaos, Cluster, cluster
from tests.system.faults.oracle import TASKS, Account, Reporter, create_pool

REPORTERS = 8
REPORTS = size(160, 10_000)
ROUNDS = size(3, 20)  # of kills and wipes, at the least
SHARE = 0.003  # of all pieces that pass a proxy meet a fault; a report takes about twenty
SETTLED_S = 120.0
SEED = int(os.environ.get("BOTS_FAULTS_SEED", "1"))  # of what is killed and when, what is reported, what is lost


@contextmanager
def load(made: Cluster, seed: int, account: Account, enough: threading.Event) -> Iterator[list[threading.Thread]]:
    """Start the reporters; end them with the test, also where it failed: their errors would fail a later test."""
    reporters = [Reporter(number, made.urls, account, seed) for number in range(REPORTERS)]
    threads = [threading.Thread(target=one.work, args=(REPORTS // REPORTERS, enough)) for one in reporters]
    for thread in threads:
        thread.start()
    try:
        yield threads
    finally:
        account.over.set()
        for thread in threads:
            thread.join()


def means(url: str) -> dict[str, float]:
    answer = httpx.get(f"{url}/datasets/pool/runs/default/tasks", params={"limit": 1000}, timeout=60)
    return {task["id"]: task["mean"] for task in answer.raise_for_status().json()["tasks"]}


def published(made: Cluster) -> bytes:
    """Return the bytes of the one run's state in Redis."""
    with made.redis.client() as client:
        [key] = client.keys("bots:*:header")
        return client.hget(key, "state") or b""


def assert_settled(made: Cluster, account: Account, folder: Path) -> None:
    """All services, and one that knows nothing but the journal, hold exactly what the acknowledged reports come to."""
    assert account.failures == []
    assert sorted(one.seq for one in account.sent) == list(range(1, len(account.sent) + 1))
    state, pool = account.replayed()
    believed = state.belief.distributions(pool, np.arange(TASKS, dtype=np.int32)).mean.tolist()
    # The state's bytes are compared below; a matrix product may round differently where it has other columns.
    wanted = pytest.approx({str(task): believed[task] for task in range(TASKS)}, rel=1e-12)
    for url in made.direct:
        with Client(url, deadline_s=60) as client:
            wait_until(lambda client=client: client.run("pool").seq == state.seq, SETTLED_S)  # type: ignore[misc]
            run = client.run("pool")
        assert (run.step, run.epoch, run.capability) == (state.step, 0, state.belief.capability)
        assert asdict(run.totals) == asdict(state.totals)
        assert means(url) == wanted
    assert published(made) == encode_state(state)
    with psycopg.connect(made.database_url) as connection:
        connection.execute("DELETE FROM snapshots")
    with running_service(folder / "cold", database_url=made.database_url) as cold:
        assert means(cold.url) == wanted


def test_nothing_acknowledged_is_lost_and_nothing_counted_twice_whatever_is_killed(tmp_path: Path):
    account, enough, calm = Account(), threading.Event(), threading.Event()
    with cluster(tmp_path, seed=SEED, snapshot_every="40", database_timeout_s="2") as made:
        create_pool(made.direct[0])
        made.disturb(SHARE)
        chaos = Chaos(made, seed=SEED)
        killer = threading.Thread(target=chaos.work, args=(calm,))
        with load(made, SEED, account, enough) as reporters:
            killer.start()
            try:
                wait_until(lambda: chaos.rounds >= ROUNDS or bool(account.failures) or chaos.failed is not None, 3600)
                enough.set()
                wait_until(lambda: bool(account.failures) or not any(thread.is_alive() for thread in reporters), 3600)
            finally:
                calm.set()
                killer.join()
        made.disturb(0.0)
        met = sum((proxy.met for proxy in made.proxies), start=Counter[str]())
        print(  # noqa: T201 - shown when something fails
            f"seed {SEED}: {chaos.deeds}, {dict(met)}, {len(account.sent)} reports, "
            f"{len(account.selections)} selections, {len(account.missed)} selects without an answer"
        )
        assert chaos.failed is None
        assert_settled(made, account, tmp_path)
    assert met.total() - met["pass"] > 0


def test_redis_may_be_wiped_at_any_moment(tmp_path: Path):
    account, enough, calm = Account("tracker"), threading.Event(), threading.Event()
    wipes, moments = 0, random.Random(SEED)
    with cluster(tmp_path, seed=2, snapshot_every="40") as made:
        create_pool(made.direct[0], account.belief)
        with load(made, 2, account, enough) as reporters, made.redis.client() as client:
            while any(thread.is_alive() for thread in reporters) and not account.failures:
                client.flushall()
                wipes += 1
                enough.set()
                calm.wait(moments.uniform(0.0, 0.2))
        print(f"{wipes} wipes; selects without an answer: {account.missed}")  # noqa: T201 - shown when something fails
        assert_settled(made, account, tmp_path)
    assert wipes > 10
    assert len(account.selections) > len(account.missed)
