"""One stream of groups, reported whole and rollout by rollout: as fast as they come, and spread over minutes."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bots_client import Client, Outcome, ResilientClient, Selector, Task
from bots_client.integrations.rewards import flush, reports_rollouts
from tests.sizes import size

TASKS, COUNT, ROLLOUTS = 640, 16, 8
IN_FLIGHT = 6  # selections whose rollouts are under way at once
SPREAD_S = size(12.0, 150.0)


def rewards_of(task: str) -> list[float]:
    """A third of the tasks is never solved, a third always, the others sometimes; a rollout in 50 breaks."""
    chance = np.random.default_rng(int(task.removeprefix("t")))
    rate = [0.0, 1.0, 0.5][int(task.removeprefix("t")) % 3]
    return [float("nan") if chance.random() < 0.02 else float(chance.random() < rate) for _ in range(ROLLOUTS)]


@pytest.fixture
def clients(service, tmp_path):
    with Client(service.url) as direct, ResilientClient(service.url, spool=tmp_path) as client:
        direct.create_dataset("spread", [Task(f"t{number}") for number in range(TASKS)])
        yield direct, client
        direct.delete_dataset("spread")


def selections(direct, client, run):
    """Make a run and select all its tasks, in the same order in each run."""
    direct.create_run("spread", run, strategy="shuffle", tasks_per_step=COUNT, seed=3)
    selector = Selector(client, "spread", run, ids=[f"t{number}" for number in range(TASKS)], rank=0)
    return [selector.next(COUNT) for _ in range(TASKS // COUNT)]


def report_whole(direct, client, run):
    for selection in selections(direct, client, run):
        outcomes = [Outcome.rewards(task, rewards_of(task)) for task in selection.ids]
        client.report("spread", outcomes, run=run, selection=selection)


def report_by_rollout(direct, client, run, *, spread_s):
    """Report each rollout as it ends, from many threads, as the reward workers of a trainer do."""

    @reports_rollouts(client, "spread", run=run, group_size=ROLLOUTS)
    def score(reward, **_):
        return reward

    def roll_out(begin, at, task, selection, reward):
        time.sleep(max(begin + at - time.monotonic(), 0.0))
        score(reward, task_id=task, selection_id=selection.selection_id)

    chance, made, begin = np.random.default_rng(1), selections(direct, client, run), time.monotonic()
    window = spread_s * IN_FLIGHT / (len(made) + IN_FLIGHT - 1)
    ends = [
        (place * window / IN_FLIGHT + float(chance.random()) * window, task, selection, reward)
        for place, selection in enumerate(made)
        for task in selection.ids
        for reward in rewards_of(task)
    ]
    with ThreadPoolExecutor(8) as workers:
        for done in [workers.submit(roll_out, begin, *one) for one in sorted(ends, key=lambda one: one[0])]:
            done.result()
    assert flush()


def test_steps_ratio_and_visits_are_the_same_however_the_rollouts_come(clients):
    direct, client = clients
    report_whole(direct, client, "whole")
    report_by_rollout(direct, client, "at-once", spread_s=0.0)
    report_by_rollout(direct, client, "spread", spread_s=SPREAD_S)
    whole, *others = (direct.run("spread", run) for run in ("whole", "at-once", "spread"))
    assert (whole.step, whole.totals.reported) == (TASKS // COUNT, TASKS)
    for other in others:
        assert (other.step, other.totals.reported, other.unfinished_groups) == (whole.step, TASKS, 0)
        assert (other.totals.effective, other.totals.rollouts) == (whole.totals.effective, whole.totals.rollouts)
        assert other.coverage == whole.coverage
        assert other.leased == 0
