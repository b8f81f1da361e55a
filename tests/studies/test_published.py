"""A run of a study selects what a run over HTTP selects; published methods do what their papers say."""

from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from bots_client import Client, Outcome, Task
from bots_service.core.arrays import Floats
from studies.environment import batch_of, binomial
from studies.learners import SharedAbility
from studies.method import Served
from studies.public_pools import recorded_run
from studies.published import KalmanFilter, MoPPS, PassOracle
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


def batch(tasks: list[int], successes: list[float], rollouts: float = 16.0):
    solved = np.array(successes)
    return batch_of(np.array(tasks, np.int32), solved, rollouts - solved, (solved > 0) & (solved < rollouts))


def test_mopps_discounts_chosen_tasks_alone():
    method = MoPPS(3, seed=0, kept=0.5)
    method.report(batch([0, 2], [4, 16]))
    method.report(batch([0], [8]))
    alpha, beta_ = 1.0, 1.0
    for solved in (4, 8):
        alpha, beta_ = 0.5 * alpha + 0.5 + solved, 0.5 * beta_ + 0.5 + 16 - solved
    assert method.alpha.tolist() == [alpha, 1, 17]
    assert method.beta.tolist() == [beta_, 1, 1]
    assert method.means() == pytest.approx([alpha / (alpha + beta_), 1 / 2, 17 / 18])


def posterior_moments(prior_mean: float, prior_variance: float, shown: float, noise: float) -> tuple[float, float]:
    """Mean and variance of a Gaussian after a Gaussian observation, by integration."""

    def density(angle: float) -> float:
        return norm.pdf(angle, prior_mean, prior_variance**0.5) * norm.pdf(shown, angle, noise**0.5)

    mass, first, second = (
        quad(lambda x, power=power: x**power * density(x), -4, 6, points=[shown], limit=200)[0] for power in range(3)
    )
    return first / mass, second / mass - (first / mass) ** 2


@pytest.mark.parametrize(
    ("solved", "shown", "noise"),
    [(4, np.arcsin(np.sqrt(4.375 / 16.75)), 1 / 66), (0, 0, 1 / 32), (16, np.pi / 2, 1 / 32)],
)
def test_kalman_filter_is_the_posterior_of_a_gaussian(solved: int, shown: float, noise: float):
    method = KalmanFilter(2, seed=0, drift=0.01)
    method.report(batch([1], [solved]))
    mean, variance = posterior_moments(np.pi / 4, np.pi**2 / 48, shown, noise)
    assert method.angle == pytest.approx([np.pi / 4, mean], abs=1e-7)
    assert method.spread == pytest.approx([np.pi**2 / 48 + 0.01, variance + 0.01], abs=1e-7)


def test_pass_oracle_visits_tasks_in_proportion_to_what_they_teach():
    environment = SharedAbility(100, tasks=200)
    success: Floats = environment.success()
    effective = 1 - success**8 - (1 - success) ** 8
    method, visits = PassOracle(environment, 0, rollouts=8), np.zeros(200)
    for _ in range(3000):
        chosen = method.select(10)
        assert len(set(chosen.tolist())) == 10
        visits[chosen] += 1
    expected = 30_000 * effective / effective.sum()
    assert np.abs(visits - expected).max() < 5 * np.sqrt(expected.max())
