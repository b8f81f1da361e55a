"""A run of a study selects what a run over HTTP selects, task by task."""

from typing import Any

import numpy as np
import pytest

from bots_client import Client, Outcome, Task
from studies.environment import batch_of, binomial
from studies.method import Served
from studies.public_pools import recorded_run
from tests.serving import running_service

COUNT, ROLLOUTS, STEPS = 16, 8, 12
RUNS: dict[str, dict[str, Any]] = {
    "bots": {"belief": "bots", "seed": 3},
    "pass": {"belief": "tracker", "seed": 4},
    "tracker": {"belief": "tracker", "strategy": "thompson", "seed": 5},
    "uniform": {"belief": "bots", "strategy": "uniform"},
    "shuffle": {"belief": "bots", "strategy": "shuffle"},
}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    pool = recorded_run()
    with running_service(tmp_path_factory.mktemp("service")) as service, Client(service.url) as connected:
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
