"""Rewards from processes that have no Selector, as verl's reward workers report them."""

import subprocess
import sys
import threading

import pytest

from bots_client import Client, Task
from bots_client.integrations.reward_reports import Origin, RewardReports
from tests.serving import running_service

WORKER = """
import sys
from bots_client.integrations.reward_reports import Origin, RewardReports

url, selection, *tasks = sys.argv[1:]
reports = RewardReports()
for task in tasks:
    reports.add(Origin(url, "guru", "default", selection), task, 1.0)
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with running_service(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture
def bots(service, tmp_path, monkeypatch):
    monkeypatch.setenv("BOTS_SPOOL", str(tmp_path / "spool"))
    with Client(service.url) as client:
        client.create_dataset("guru", [Task(str(number)) for number in range(64)])
        yield client
        client.delete_dataset("guru")


@pytest.fixture
def reports(bots):
    """Rewards that wait until they are sent for."""
    reports = RewardReports(gather_s=60)
    yield reports
    reports.client(bots.url).close()


def from_selection(bots, count):
    selection = bots.select("guru", count)
    return selection.ids, Origin(bots.url, "guru", "default", selection.selection_id)


def test_rewards_of_many_threads_become_one_report_for_each_selection(bots, reports):
    (some, first), (others, second) = from_selection(bots, 8), from_selection(bots, 8)

    def roll_out():
        for task in some:
            reports.add(first, task, 1.0)
        for task in others:
            reports.add(second, task, 0.0)

    threads = [threading.Thread(target=roll_out) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reports.flush()
    run = bots.run("guru")
    assert (run.seq, run.pending, run.leased, run.step) == (2, 16, 0, 0)
    totals = bots.report("guru", [], close_step=True)
    assert totals.reported == 16
    assert (bots.run("guru").totals.rollouts, bots.run("guru").totals.successes) == (2 * 8 * 16, 8 * 16)


def test_a_process_that_ends_reports_first_what_it_gathered(bots):
    tasks, origin = from_selection(bots, 8)
    subprocess.run([sys.executable, "-c", WORKER, bots.url, origin.selection_id, *tasks], check=True)
    assert bots.run("guru").pending == 8


def test_a_reward_that_is_no_number_is_left_out_and_the_others_count(bots, reports, caplog):
    tasks, origin = from_selection(bots, 2)
    reports.add(origin, tasks[0], float("nan"))
    reports.add(origin, tasks[0], None)
    reports.add(origin, tasks[1], 0.5)
    reports.flush()
    assert (bots.run("guru").pending, bots.run("guru").leased) == (1, 1)
    assert "nan is not a finite number" in caplog.text


def test_rewards_wait_on_disk_while_the_service_is_away(bots, service, reports):
    tasks, origin = from_selection(bots, 4)
    service.kill()
    for task in tasks:
        reports.add(origin, task, 1.0)
    reports.flush()
    service.start()
    while reports.client(origin.url).flush(deadline_s=5):
        pass
    assert bots.run("guru").pending == 4
