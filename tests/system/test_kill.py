"""kill -9 at random moments under load: nothing acknowledged is lost, nothing is counted twice."""

import random
import threading
import time
from dataclasses import asdict
from pathlib import Path

import httpx

from tests.servers import wait_until
from tests.serving import ServiceProcess
from tests.sizes import size
from tests.system.faults.oracle import Account, create_pool
from tests.system.faults.settled import REPORTERS, load

ROUNDS = size(3, 40)
RUN = "/datasets/pool/runs/default"


def test_after_any_kill_the_state_is_a_replay_of_exactly_the_acknowledged_reports(tmp_path: Path):
    account, enough, moments = Account("tracker"), threading.Event(), random.Random(20)
    service = ServiceProcess(tmp_path, snapshot_every="40", log_level="warning")
    service.start()
    create_pool(service.url, account.belief)
    with load([service.url], 1, account, reports=0, enough=enough) as reporters:
        for _ in range(ROUNDS):
            wanted = len(account.sent) + 2 * REPORTERS
            wait_until(lambda wanted=wanted: len(account.sent) > wanted or bool(account.failures))  # type: ignore[misc]
            time.sleep(moments.uniform(0.05, 0.8))
            service.kill()
            service.start()
        enough.set()
        for reporter in reporters:
            reporter.join()
    assert account.failures == []
    assert sorted(sent.seq for sent in account.sent) == list(range(1, len(account.sent) + 1))
    state, pool = account.replayed()
    with httpx.Client(base_url=service.url, timeout=30) as http:
        told = http.get(RUN).json()
        assert (told["seq"], told["step"], told["epoch"]) == (state.seq, state.step, 0)
        assert told["totals"] == asdict(state.totals)
        history = http.get(f"{RUN}/history", params={"limit": 1000}).json()["history"]
        assert [row["step"] for row in history] == list(range(1, min(state.step, 1000) + 1))
        assert told["estimates"] == state.belief.estimates(pool)  # to the last bit, and so all that it was taught
    service.stop()
