"""kill -9 of anything at random moments, on a network that loses, delays and cuts: nothing acknowledged is lost."""

import os
import random
import threading
from collections import Counter
from pathlib import Path

from tests.servers import wait_until
from tests.sizes import size
from tests.system.faults.cluster import Chaos, Cluster, cluster
from tests.system.faults.oracle import Account, assert_settled, create_pool, load

REPORTS = size(50, 10_000)
ROUNDS = size(2, 20)  # of kills and wipes, at the least
SHARE = 0.003  # of all pieces that pass a proxy meet a fault; a report takes about twenty
SEED = int(os.environ.get("BOTS_FAULTS_SEED", "1"))  # of what is killed and when, what is reported, what is lost


def assert_all_settled(made: Cluster, account: Account, folder: Path) -> None:
    """The services hold exactly what the acknowledged reports come to, and Redis knows where the one run stands."""
    state = assert_settled(made.direct, made.database_url, account, folder)
    with made.redis.client() as client:
        wait_until(lambda: client.keys("bots:*:run"))  # wiped, it is told again with the next report or select
        [key] = client.keys("bots:*:run")
        assert list(map(int, client.hmget(key, "epoch", "seq"))) == [state.epoch, state.seq]


def test_nothing_acknowledged_is_lost_and_nothing_counted_twice_whatever_is_killed(tmp_path: Path):
    account, enough, calm = Account(), threading.Event(), threading.Event()
    with cluster(tmp_path, seed=SEED, snapshot_every="40", database_timeout_s="2") as made:
        create_pool(made.direct[0])
        made.disturb(SHARE)
        chaos = Chaos(made, seed=SEED)
        killer = threading.Thread(target=chaos.work, args=(calm,))
        with load(made.urls, SEED, account, reports=REPORTS, enough=enough) as reporters:
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
        assert_all_settled(made, account, tmp_path)
    assert met.total() - met["pass"] > 0


def test_redis_may_be_wiped_at_any_moment(tmp_path: Path):
    account, enough, calm = Account("tracker"), threading.Event(), threading.Event()
    wipes, moments = 0, random.Random(SEED)
    with cluster(tmp_path, seed=2, snapshot_every="40") as made:
        create_pool(made.direct[0], account.belief)
        with load(made.urls, 2, account, reports=REPORTS, enough=enough) as reporters, made.redis.client() as client:
            while any(thread.is_alive() for thread in reporters) and not account.failures:
                client.flushall()
                wipes += 1
                if wipes > 10:
                    enough.set()
                calm.wait(moments.uniform(0.0, 0.2))
        print(f"{wipes} wipes; selects without an answer: {account.missed}")  # noqa: T201 - shown when something fails
        assert_all_settled(made, account, tmp_path)
    assert wipes > 10
    assert len(account.selections) > len(account.missed)
