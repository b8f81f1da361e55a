"""A run of a study selects what a run over HTTP selects, task by task."""

from typing import Any

import numpy as np
import pytest

from benchmarks.running import running_service
from bots_client import Client, Outcome, Task
from bots_service.core.draw.selection import SelectRequest
from studies.budget import SHARED, SharingOut
from studies.environment import batch_of, binomial
from studies.method import Served
from studies.public_pools import Replayed, recorded_run

COUNT, ROLLOUTS, STEPS = 16, 8, 12
RUNS: dict[str, dict[str, Any]] = {
    "bots": {"belief": "bots", "seed": 3},
    "pass": {"belief": "tracker", "seed": 4},
    "tracker": {"belief": "tracker", "strategy": "thompson", "seed": 5},
    "uniform": {"belief": "bots", "strategy": "uniform"},
    "shuffle": {"belief": "bots", "strategy": "shuffle"},
}


@pytest.fixture(scope="module")
def client():
    pool = recorded_run()
    with running_service() as service, Client(service.url) as connected:
        tasks = [Task(str(task), rates) for task, rates in enumerate(pool.references.tolist())]
        connected.create_dataset("pool", tasks, pool.reference_models)
        yield connected


@pytest.mark.parametrize("run", list(RUNS))
def test_a_served_run_selects_and_predicts_what_the_service_does(client, run):
    pool, rng = recorded_run(), np.random.default_rng(1)
    client.create_run("pool", run, **RUNS[run])
    served = Served(pool.references, **RUNS[run])
    for success in pool.success[:STEPS]:
        selection, tasks = client.select("pool", COUNT, run=run), served.select(COUNT)
        assert [int(task) for task in selection.ids] == tasks.tolist()
        assert [task.mean for task in selection.tasks] == pytest.approx(served.means()[tasks], abs=1e-12)
        tasks = np.sort(tasks)
        batch = batch_of(tasks, *binomial(success[tasks], ROLLOUTS, rng))
        served.report(batch)
        outcomes = map(Outcome.counts, map(str, tasks), batch.successes.tolist(), [ROLLOUTS] * COUNT)
        client.report("pool", outcomes, run=run, selection=selection)


def test_a_served_run_selects_as_many_tasks_for_effective_groups_as_the_service_does(client):
    pool, rng = recorded_run(), np.random.default_rng(2)
    client.create_run("pool", "wishes", belief="tracker", seed=6)
    served = Served(pool.references, belief="tracker", seed=6)
    for success in pool.success[:STEPS]:
        selection = client.select("pool", want_effective=9, run="wishes")
        tasks = served.ask(SelectRequest("study", want_effective=9))
        assert [int(task) for task in selection.ids] == tasks.tolist()
        tasks = np.sort(tasks)
        batch = batch_of(tasks, *binomial(success[tasks], ROLLOUTS, rng))
        served.report(batch)
        outcomes = map(Outcome.counts, map(str, tasks), batch.successes.tolist(), [ROLLOUTS] * len(tasks))
        client.report("pool", outcomes, run="wishes", selection=selection)


def test_a_budget_is_shared_out_as_the_service_does(client):
    pool = recorded_run()
    client.create_run("pool", "budget", belief="tracker", seed=7)
    served = Served(pool.references, belief="tracker", seed=7)
    method = SharingOut(Replayed(pool), served, SHARED, ROLLOUTS)
    selection, tasks = (
        client.select("pool", COUNT, run="budget", rollouts_budget=COUNT * ROLLOUTS),
        method.select(COUNT),
    )
    assert {int(task.id): task.rollouts for task in selection.tasks} == dict(
        zip(tasks.tolist(), method.rollouts.tolist(), strict=True)
    )
