"""kill -9 at random moments: nothing acknowledged is lost or counted twice, trainers go on, half an import is none."""

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import httpx
import pytest

from bots_client import Client, Outcome, ResilientClient, Task, UnreachableError
from tests.servers import wait_until
from tests.serving import ServiceProcess, running_service
from tests.sizes import size
from tests.system.faults.oracle import REPORTERS, Account, create_pool, load

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


ROOT = Path(__file__).parents[2]
WORKERS = 3
REPORTS = 60
OUTAGES = 2
SOON_S = 120.0

# Each report is of a task of its own, so that the belief tells how often it was counted.
WORKER = """
import sys, time
from bots_client import Outcome, ResilientClient
url, spool, worker, reports = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
ids = [f"{worker}-{n}" for n in range(reports)]
bots = ResilientClient(url, spool=spool, select_deadline_s=0.5, report_deadline_s=0.5)
for task in ids:
    begun = time.monotonic()
    bots.select("guru", 1, ids=ids)
    bots.report("guru", [Outcome.counts(task, 1, 1)])
    print(task, f"{time.monotonic() - begun:.3f}", flush=True)
    time.sleep(0.03)
"""


def begin_worker(service, folder, name):
    command = [sys.executable, "-c", WORKER, service.url, str(folder / "spool"), name, str(REPORTS)]
    with (folder / f"{name}.err").open("wb") as errors:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT)


def lines_of(worker, count):
    """Return what a worker tells next: tasks, and the seconds that each took."""
    lines = (worker.stdout.readline().split() for _ in range(count))
    return [line for line in lines if len(line) == 2]


def counted(client):
    return {task.id: round(task.alpha - 1, 9) for task in client.tasks("guru")}


def test_reports_of_several_processes_outlive_kills_of_the_service_and_of_one_of_them(tmp_path):
    service = ServiceProcess(tmp_path / "service")
    service.start()
    names = [f"w{n}" for n in range(WORKERS)]
    with Client(service.url) as bots:
        bots.create_dataset("guru", [Task(f"{name}-{n}") for name in names for n in range(REPORTS)])
        bots.create_run("guru", "default", belief="bots", forgetting=0.0, implicit_weight=0.0)
    workers = [begin_worker(service, tmp_path, name) for name in names]
    try:
        told = lines_of(workers[0], 5)
        for _ in range(OUTAGES):
            told += lines_of(workers[1], 10)
            service.kill()
            told += lines_of(workers[1], 10)
            workers[0].send_signal(signal.SIGKILL)
            service.start()
        for worker in workers:
            told += lines_of(worker, REPORTS)
        assert [worker.wait(timeout=SOON_S) for worker in workers] == [-signal.SIGKILL, 0, 0]

        with ResilientClient(service.url, spool=tmp_path / "spool") as client:
            assert client.flush(SOON_S, runs=[("guru", "default")]) == 0
            counts = counted(client.direct)
            run = client.direct.run("guru")
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
            worker.stdout.close()
        service.stop()

    acknowledged = {line[0] for line in told}
    assert len(acknowledged) > 2 * REPORTS
    assert {task: counts[task] for task in acknowledged} == dict.fromkeys(acknowledged, 1)
    others = {task: count for task, count in counts.items() if task not in acknowledged and count}
    assert list(others.values()) in ([], [1])  # the report during which its process was killed
    assert run.step == len(acknowledged) + len(others)
    assert max(float(line[1]) for line in told) < SOON_S


def test_an_evaluation_and_the_end_of_a_run_outlive_a_kill(tmp_path: Path):
    service = ServiceProcess(tmp_path)
    service.start()
    with Client(service.url) as bots:
        bots.create_dataset("guru", [Task("t1")])
        bots.evaluate("guru", {"heldout/accuracy": 0.25})
        bots.finish("guru")
        service.kill()
        service.start()
        found = bots.summary("guru")
    assert (found.evaluations, found.status) == ({"heldout/accuracy": ((0, 0.25),)}, "finished")
    service.stop()


TASKS = [Task(f"t{number}", (number % 16 / 16, 1.0)) for number in range(500)]


def test_a_service_that_is_killed_within_an_import_shows_nothing_of_it(tmp_path: Path):
    with running_service(tmp_path / "filled") as filled, Client(filled.url) as old:
        old.create_dataset("pool", TASKS, reference_models=["weak", "strong"])
        for number in range(20):
            old.report("pool", [Outcome.counts(f"t{number}", 3, 8)])
        journal = b"".join(old.export_run("pool"))
    service = ServiceProcess(tmp_path / "killed")
    service.start()

    def half() -> Iterator[bytes]:
        yield journal[: len(journal) * 2 // 3]
        service.kill()
        yield journal[len(journal) * 2 // 3 :]

    with Client(service.url, deadline_s=5.0) as new:
        new.create_dataset("pool", TASKS, reference_models=["weak", "strong"])
        with pytest.raises(UnreachableError):
            new.import_run(half, "pool")
        service.start()
        assert new.run("pool").seq == 0
        assert new.import_run(lambda: [journal], "pool").seq == 20
    service.stop()
