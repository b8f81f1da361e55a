"""Servers that take over from others: what is lost under load, how long it takes, and what the doctor says of them."""

import threading
import time
from pathlib import Path

import pytest

from bots_service.doctor import Finding, examine
from bots_service.settings import Settings
from tests.servers import RedisServer, wait_until
from tests.system.faults.oracle import REPORTERS, Account, assert_settled, load
from tests.versions.conftest import Note
from tests.versions.deployment import (
    cost_of,
    create_pools,
    deployed,
    is_whole,
    seconds_to_recover,
    under_load,
    wait_for_more,
)
from tests.versions.servers import pair


@pytest.mark.parametrize("standby", ["in step", "cut off before"])
def test_a_promoted_standby_has_all_that_a_synchronous_commit_acknowledged(
    redis_server: RedisServer, note: Note, tmp_path: Path, standby: str
):
    redis_server.client().flushall()
    with pair(synchronous=True) as postgres:
        look_at = postgres.standby_url
        with deployed(tmp_path, database_url=postgres.url, redis_url=redis_server.url, look_at=look_at) as made:

            def fail() -> None:
                if standby != "in step":
                    postgres.standby.cut_off()
                    wait_until(lambda: not any(map(is_whole, made.urls)))  # commits wait, and trainers send again
                postgres.fail_over()

            account, cost = under_load(made, fail)
            note(f"PostgreSQL's primary killed, its synchronous standby, {standby}, promoted", cost)
            assert (cost.lost, cost.twice) == (0, 0)
            assert_settled(made.urls, made.database_url, account, tmp_path)


def test_without_a_synchronous_standby_a_failover_loses_what_it_lacks_and_a_restart_makes_the_rest_whole(
    redis_server: RedisServer, note: Note, tmp_path: Path
):
    redis_server.client().flushall()
    account, enough = Account(), threading.Event()
    with pair(synchronous=False) as postgres:
        look_at = postgres.standby_url
        with deployed(tmp_path, database_url=postgres.url, redis_url=redis_server.url, look_at=look_at) as made:
            create_pools(made.urls[0])
            with load(made.urls, 1, account, reports=0, enough=enough):
                wait_for_more(account)
                postgres.standby.cut_off()
                known = len(account.sent)
                wait_for_more(account)
                enough.set()
            assert account.failures == []
            began = time.monotonic()
            postgres.fail_over()
            # What operations.md asks for: the processes remember entries that no longer exist.
            made.stop()
            redis_server.client().flushall()
            made.start()
            cost = cost_of(made, account, time.monotonic() - began + seconds_to_recover(made))
            note("PostgreSQL's primary killed, its asynchronous standby, cut off before, promoted", cost)
            assert 0 < cost.lost <= len(account.sent) - known + REPORTERS
            assert cost.twice == 0
            account.sent = sorted(account.sent, key=lambda one: one.seq)[: -cost.lost]
            account.selections = []
            assert_settled(made.urls, made.database_url, account, tmp_path)


def looked_at(**urls: str) -> dict[str, Finding]:
    return {each.about: each for each in examine(Settings(**urls))}  # type: ignore[arg-type]


def test_a_pair_of_which_the_standby_is_asynchronous_and_synchronous():
    for synchronous in (False, True):
        with pair(synchronous=synchronous) as postgres:
            found = looked_at(database_url=postgres.url)
            assert ("standbys" in found) is not synchronous
            assert found["database role"].said == "primary"
            assert f"127.0.0.1:{postgres.standby.port}" in found["database"].said
            role = looked_at(database_url=postgres.standby_url)["database role"]
            assert (role.grade, "target_session_attrs=read-write" in role.advice) == ("problem", True)
