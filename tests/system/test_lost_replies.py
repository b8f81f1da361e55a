"""Replies are lost after their request was applied: the client's retries count nothing twice."""

import threading

from bots_client import Client, Outcome, Retries, Task
from tests.serving import running_service
from tests.system.lossy_proxy import LossyProxy, seeded

REPORTERS = 8
REPORTS = 40
TRIALS = 16


def report_all(url: str, number: int) -> None:
    # Many quick attempts: a third of all replies are lost.
    with Client(url, deadline_s=60, retries=Retries(attempts=50, first_wait_s=0.001, longest_wait_s=0.01)) as client:
        for turn in range(REPORTS):
            task = f"t{(number * REPORTS + turn) % 50}"
            client.report("pool", [Outcome.counts(task, successes=turn % (TRIALS + 1), trials=TRIALS)])


def test_every_report_counts_once_although_a_third_of_the_replies_is_lost(tmp_path):
    with (
        running_service(tmp_path) as service,
        LossyProxy(service.port, loses=seeded(3, 1 / 3)) as proxy,
        Client(service.url) as client,
    ):
        client.create_dataset("pool", [Task(f"t{task}") for task in range(50)])
        reporters = [
            threading.Thread(target=report_all, args=(f"http://127.0.0.1:{proxy.port}", number))
            for number in range(REPORTERS)
        ]
        for reporter in reporters:
            reporter.start()
        for reporter in reporters:
            reporter.join()
        run = client.run("pool")

    assert proxy.lost > 20
    assert run.seq == run.step == REPORTERS * REPORTS
    assert run.totals.rollouts == REPORTERS * REPORTS * TRIALS
    assert run.totals.successes == REPORTERS * sum(turn % (TRIALS + 1) for turn in range(REPORTS))
