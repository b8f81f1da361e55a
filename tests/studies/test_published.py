import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import beta, norm

from bots_service.core.arrays import Floats
from studies.environment import batch_of
from studies.learners import SharedAbility
from studies.method import Served
from studies.published import DenseBOTS, KalmanFilter, MoPPS, NearestOracle, PassOracle, nearest


def batch(tasks: list[int], successes: list[float], rollouts: float = 16.0):
    solved = np.array(successes)
    return batch_of(np.array(tasks, np.int32), solved, rollouts - solved, (solved > 0) & (solved < rollouts))


def test_nearest_takes_what_a_sort_takes():
    values = np.random.default_rng(0).random(50)
    by_distance = sorted(range(50), key=lambda place: abs(values[place] - 0.3))
    assert sorted(nearest(values, 0.3, 7)) == sorted(by_distance[:7])


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


def test_mopps_chooses_among_random_candidates():
    method = MoPPS(1000, seed=0, candidates=2)
    method.alpha[:500] = method.beta[:500] = 1e6  # all nearly at one half: any candidate of these is as good
    method.alpha[500:] = 1e6  # nearly always solved
    chosen = method.select(10)
    assert len(set(chosen.tolist())) == 10
    seen = [task for _ in range(100) for task in method.select(10).tolist()]
    # Twenty candidates, half of them good: in most selections some of those that are solved must be taken.
    good = np.mean(np.array(seen) < 500)
    expected = np.mean([min(one, 10) / 10 for one in np.random.default_rng(1).hypergeometric(500, 500, 20, 100_000)])
    assert good == pytest.approx(expected, abs=0.05)


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
    [
        (4, np.arcsin(np.sqrt(4.375 / 16.75)), 1 / 66),
        (0, 0, 1 / 32),
        (16, np.pi / 2, 1 / 32),
    ],
)
def test_kalman_filter_is_the_posterior_of_a_gaussian(solved: int, shown: float, noise: float):
    method = KalmanFilter(2, seed=0, drift=0.01)
    method.report(batch([1], [solved]))
    mean, variance = posterior_moments(np.pi / 4, np.pi**2 / 48, shown, noise)
    assert method.angle == pytest.approx([np.pi / 4, mean], abs=1e-7)
    assert method.spread == pytest.approx([np.pi**2 / 48 + 0.01, variance + 0.01], abs=1e-7)


def test_kalman_filter_predicts_the_mean_of_the_sine_squared():
    method = KalmanFilter(2, seed=0)
    method.report(batch([1], [3]))
    angles = method.angle + np.sqrt(method.spread) * np.random.default_rng(0).standard_normal((400_000, 2))
    assert method.means() == pytest.approx((np.sin(angles) ** 2).mean(axis=0), abs=2e-3)


def test_kalman_filter_begins_with_an_even_spread_of_angles():
    angles = np.linspace(0, np.pi / 2, 200_001)
    assert (angles.mean(), angles.var()) == pytest.approx((KalmanFilter.start, KalmanFilter.variance), abs=1e-4)


def test_kalman_filter_takes_draws_near_the_target():
    method = KalmanFilter(100, seed=0)
    method.spread[:] = 1e-9
    method.angle[:] = np.arcsin(np.sqrt(np.linspace(0, 1, 100)))
    assert sorted(method.select(4).tolist()) == [48, 49, 50, 51]


def test_nearest_oracle_knows_the_model():
    environment = SharedAbility(100, tasks=200)
    success = environment.success()
    chosen = NearestOracle(environment).select(20)
    rest = np.setdiff1d(np.arange(200), chosen)
    assert np.abs(success[chosen] - 0.5).max() <= np.abs(success[rest] - 0.5).min()


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


def test_pass_oracle_fills_up_where_hardly_any_task_is_effective():
    environment = SharedAbility(100, tasks=50)
    environment.start[:] = -30.0
    environment.start[7] = 0.0
    chosen = PassOracle(environment, 0, rollouts=16).select(50)
    assert sorted(chosen.tolist()) == list(range(50))


def test_dense_bots_is_what_the_service_folds():
    environment = SharedAbility(100, tasks=300)
    rng = np.random.default_rng(0)
    dense = DenseBOTS(environment.references, 0)
    served = Served(environment.references, belief="bots", capability="paper", rollouts_per_task=16)
    for _ in range(30):
        tasks = np.sort(served.select(8))
        shown = batch(tasks.tolist(), rng.binomial(16, environment.success()[tasks]).astype(float).tolist())
        for method in (dense, served):
            method.report(shown)
    assert dense.means() == pytest.approx(served.means(), rel=1e-9)


def test_dense_bots_draws_from_its_distributions():
    method = DenseBOTS(np.full((2, 2), 0.5), 0, target=0.5)
    method.alpha[:], method.beta[:] = [2, 9], [5, 3]
    first = np.mean([method.select(1)[0] == 0 for _ in range(20_000)])

    def nearer(x: float) -> float:
        """Density of the first draw times the chance that the second is farther from one half."""
        reach = abs(x - 0.5)
        return beta.pdf(x, 2, 5) * (1 - beta.cdf(0.5 + reach, 9, 3) + beta.cdf(0.5 - reach, 9, 3))

    assert first == pytest.approx(quad(nearer, 0, 1, points=[0.5])[0], abs=0.015)
