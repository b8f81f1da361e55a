"""The outlook of a pool against a look at each of its tasks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import betabinom

from bots_service.core import outlook as outlook_module
from bots_service.core.outlook import BINS, outlook
from tests.core.pools import belief, beliefs, beta_parameters, candidates, pool, pools, tasks


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_it_is_what_a_look_at_each_task_gives(data):
    about = data.draw(pools())
    prior = data.draw(st.sampled_from([(1.0, 1.0), (0.25, 3.0)]))
    believed = data.draw(beliefs(about, prior))
    rollouts = data.draw(st.integers(1, 64))
    found, offered = outlook(believed, about, rollouts), candidates(about)
    if not offered:
        assert found is None
        return
    assert found is not None
    alpha, beta = beta_parameters(believed.distributions(about, tasks(*offered)))
    solved, failed = np.maximum(alpha - prior[0], 0), np.maximum(beta - prior[1], 0)
    likely = betabinom(rollouts, solved + 0.5, failed + 0.5)
    expected = np.mean(1.0 - likely.pmf(0) - likely.pmf(rollouts))
    # Log-gammas of counts of 1e7 are right to 3e-8.
    assert found.effective_task_ratio == pytest.approx(max(expected, 0.0), rel=1e-6, abs=1e-7)
    means = alpha / (alpha + beta)
    counts = [0] * BINS
    for mean in means:
        counts[min(int(mean * BINS), BINS - 1)] += 1
    assert found.distribution == tuple(count / len(offered) for count in counts)
    assert sum(found.distribution) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("alpha", "beta", "place"), [(1e-300, 1.0, 0), (1.0, 19.0, 1), (1.0, 1.0, 10), (19.0, 1.0, 19), (1.0, 1e-300, 19)]
)
def test_a_bin_holds_its_lower_end_and_the_last_one_both(alpha, beta, place):
    found = outlook(belief([alpha], [beta]), pool([0]), 16)
    assert found is not None
    assert found.distribution == tuple(float(bin_ == place) for bin_ in range(BINS))


@pytest.mark.parametrize(
    ("alpha", "beta", "rollouts", "expected"), [(3, 3, 1, 0.0), (1e6, 1e6, 100, 1.0), (1e12, 1.0, 16, 0.0)]
)
def test_one_rollout_is_never_effective_and_many_of_an_even_task_nearly_always(alpha, beta, rollouts, expected):
    found = outlook(belief([alpha], [beta]), pool([0, 0]), rollouts)
    assert found is not None
    assert found.effective_task_ratio == pytest.approx(expected, abs=1e-9)


def test_a_sample_stands_for_a_pool_of_too_many_kinds(monkeypatch: pytest.MonkeyPatch):
    kinds = 5000
    about, rng = pool(np.arange(kinds)), np.random.default_rng(3)
    believed = belief(rng.uniform(1, 9, kinds), rng.uniform(1, 9, kinds))
    whole = outlook(believed, about, 16)
    monkeypatch.setattr(outlook_module, "MOST_ROWS", 1000)
    sampled = outlook(believed, about, 16)
    assert whole is not None
    assert sampled is not None
    assert sampled != whole
    assert sampled.effective_task_ratio == pytest.approx(whole.effective_task_ratio, abs=0.03)  # 4 standard errors
    np.testing.assert_allclose(sampled.distribution, whole.distribution, atol=0.06)
