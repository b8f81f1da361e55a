"""The service is killed again and again while several processes train, one of which is killed too.

Every report that returned is in the journal, once; nothing was raised, and nobody waited long.
"""

import signal
import subprocess
import sys
from pathlib import Path

from bots_client import Client, ResilientClient, Task
from tests.serving import ServiceProcess

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
    """Return how often the report of each task was counted: with no forgetting, alpha is 1 more."""
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
