"""Whether services hold exactly what the acknowledged reports come to."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import httpx
import numpy as np
import psycopg
import pytest

from bots_client import Client
from bots_service.core.state import RunState
from tests.servers import wait_until
from tests.serving import running_service
from tests.system.faults.oracle import TASKS, Account, Reporter

REPORTERS = 8
SETTLED_S = 120.0


@contextmanager
def load(
    urls: list[str], seed: int, account: Account, *, reports: int, enough: threading.Event
) -> Iterator[list[threading.Thread]]:
    """Start the reporters; end them with the test, also where it failed: their errors would fail a later test."""
    reporters = [Reporter(number, urls, account, seed) for number in range(REPORTERS)]
    threads = [threading.Thread(target=one.work, args=(reports // REPORTERS, enough)) for one in reporters]
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


def assert_settled(urls: list[str], database_url: str, account: Account, folder: Path) -> RunState:
    """All services, and one that knows nothing but the journal, hold exactly what the reports come to: return that."""
    assert account.failures == [], account.failures
    assert sorted(one.seq for one in account.sent) == list(range(1, len(account.sent) + 1))
    state, pool = account.replayed()
    believed = state.belief.distributions(pool, np.arange(TASKS, dtype=np.int32)).mean.tolist()
    # The state's bytes are compared by some tests; a matrix product may round differently where it has other columns.
    wanted = pytest.approx({str(task): believed[task] for task in range(TASKS)}, rel=1e-12)
    for url in urls:
        with Client(url, deadline_s=60) as client:
            wait_until(lambda client=client: client.run("pool").seq == state.seq, SETTLED_S)  # type: ignore[misc]
            run = client.run("pool")
        assert (run.step, run.epoch, run.capability) == (state.step, 0, state.belief.capability)
        assert asdict(run.totals) == asdict(state.totals)
        assert means(url) == wanted
    with psycopg.connect(database_url) as connection:
        connection.execute("DELETE FROM snapshots")
    with running_service(folder / "cold", database_url=database_url) as cold:
        assert means(cold.url) == wanted
    return state
