"""Two services on servers of the test's choice, trainers at work, and what a failure costs them."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

from bots_client import BotsClientError, Client, Outcome, Retries, Task
from tests.servers import wait_until
from tests.serving import ServiceProcess
from tests.sizes import size
from tests.system.faults.oracle import TRIALS, Account, create_pool, load

REPORTS = size(160, 2_000)  # at least, over the whole test
MORE = size(40, 400)  # reports are acknowledged before a failure, and again after it
TASKS_OF_A_REPORT = 8
GIVE_UP_S = 120.0
ONCE = Retries(attempts=1)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a failure cost.

    acknowledged: reports. lost: of these, those that are not in the journal. twice: reports counted once too often.
    recovered_s: from the failure until each service again selected and reported, and shared what it reported.
    """

    acknowledged: int
    lost: int
    twice: int
    recovered_s: float


@dataclass(frozen=True, slots=True)
class Deployment:
    """Two services. database_url: by which tests look into the database."""

    services: tuple[ServiceProcess, ServiceProcess]
    database_url: str

    @property
    def urls(self) -> list[str]:
        return [service.url for service in self.services]

    def start(self) -> None:
        with ThreadPoolExecutor() as pool:
            list(pool.map(ServiceProcess.start, self.services))

    def stop(self) -> None:
        for service in self.services:
            if service.is_running:
                service.stop()


@contextmanager
def deployed(
    folder: Path, *, database_url: str, redis_url: str, look_at: str | None = None, **settings: str
) -> Iterator[Deployment]:
    settings = {"database_timeout_s": "2", "log_level": "warning", "snapshot_every": "40", **settings}
    first, second = (
        ServiceProcess(folder / name, database_url=database_url, redis_url=redis_url, **settings) for name in "ab"
    )
    made = Deployment((first, second), look_at or database_url)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def under_load(
    made: Deployment, fail: Callable[[], None], mend: Callable[[], None] | None = None
) -> tuple[Account, Cost]:
    """Let trainers work while something fails; return what they were told, and what the failure cost."""
    account, enough = Account(), threading.Event()
    create_pools(made.urls[0])
    with load(made.urls, 1, account, reports=REPORTS, enough=enough) as reporters:
        wait_for_more(account)
        fail()
        recovered_s = seconds_to_recover(made)
        if mend is not None:
            mend()
        wait_for_more(account)
        enough.set()
        wait_until(lambda: bool(account.failures) or not any(one.is_alive() for one in reporters), 3600)
    assert account.failures == []
    return account, cost_of(made, account, recovered_s)


def create_pools(url: str) -> None:
    create_pool(url)
    with Client(url) as client:
        client.create_dataset("probe", [Task(f"t{number}") for number in range(4)])


def wait_for_more(account: Account) -> None:
    wanted = len(account.sent) + MORE
    wait_until(lambda: len(account.sent) >= wanted or bool(account.failures), GIVE_UP_S)


def seconds_to_recover(made: Deployment) -> float:
    began = time.monotonic()
    wait_until(lambda: all(is_whole(url) for url in made.urls), GIVE_UP_S)
    return time.monotonic() - began


def is_whole(url: str) -> bool:
    with Client(url, deadline_s=5, retries=ONCE) as client:
        try:
            client.select("probe", 1)
            is_shared = not client.report("probe", [Outcome.counts("t1", 1, 2)]).degraded
            return is_shared and not client.run("pool").degraded
        except BotsClientError:
            return False


def cost_of(made: Deployment, account: Account, recovered_s: float) -> Cost:
    """Compare what was acknowledged with what is in the journal, and that with what was counted."""
    query = "SELECT journal.key FROM journal JOIN runs ON runs.id = run_id JOIN datasets ON datasets.id = dataset_id"
    with psycopg.connect(made.database_url) as connection:
        kept = {key for (key,) in connection.execute(f"{query} WHERE datasets.name = 'pool'")}
    acknowledged = {one.key for one in account.sent}
    state, _ = replace(account, sent=[one for one in account.sent if one.key in kept], selections=[]).replayed()
    with Client(made.urls[0], deadline_s=60) as client:
        wait_until(lambda: client.run("pool").seq == len(kept))
        rollouts = client.run("pool").totals.rollouts - state.totals.rollouts
    return Cost(
        len(acknowledged), len(acknowledged - kept), round(rollouts / (TASKS_OF_A_REPORT * TRIALS)), recovered_s
    )
