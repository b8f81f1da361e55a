"""The outlook of a pool against a look at each of its tasks."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import betabinom

from bots_service.core import summary
from bots_service.core.entries import Entry
from bots_service.core.run_settings import settings_from
from bots_service.core.state import advance, fresh_state
from bots_service.core.summary import BINS, EVERY, UniformEstimate, estimate_after, outlook, outlook_of
from tests.core.journals import pool_of, replay, report_of
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


def test_a_sample_stands_for_a_large_pool(monkeypatch: pytest.MonkeyPatch):
    about, rng = pool(np.arange(5000)), np.random.default_rng(3)
    believed = belief(rng.uniform(1, 9, 5000), rng.uniform(1, 9, 5000))
    sampled, again, other = (outlook(believed, about, 16, seed=seed) for seed in ((1, 2), (1, 2), (1, 3)))
    monkeypatch.setattr(summary, "SAMPLE", 5000)
    whole = outlook(believed, about, 16)
    assert whole is not None
    assert sampled is not None
    assert sampled == again != other
    assert sampled.effective_task_ratio == pytest.approx(whole.effective_task_ratio, abs=0.04)  # 4 standard errors
    np.testing.assert_allclose(sampled.distribution, whole.distribution, atol=0.08)


@pytest.mark.parametrize("kind", ["bots", "tracker"])
def test_what_uniform_sampling_would_have_found_is_added_up_by_the_estimates_of_the_time(kind: str):
    about = pool_of(*((share / 16,) for share in range(17)))
    state, before = fresh_state(settings_from({"belief": kind}), about), UniformEstimate()
    looks, expected, ratio = 0, 0.0, None
    for number in range(70):
        body = report_of((number % 17, 4.0, 12.0), (number * 3 % 17, 9.0, 7.0), close=number % 3 > 0)
        after, receipt = advance(state, Entry(number + 1, 0, about.profiles, body), about)
        found = estimate_after(before, state, receipt, about)
        if receipt.closed:
            if state.step in {0, 1, 2, 4, 8} or (state.step >= EVERY and state.step % EVERY == 0):
                here = outlook_of(state, about)
                assert here is not None
                ratio, looks = here.effective_task_ratio, looks + 1
                assert found.distribution == here.distribution
            assert ratio is not None
            expected += ratio * receipt.reported
            assert found.ratio == ratio
            assert found.expected == pytest.approx(expected)
        else:
            assert (found.ratio, found.expected, found.distribution) == (before.ratio, before.expected, None)
        state, before = after, found
    assert looks == 5 + (state.step - 1) // EVERY


def test_the_first_estimate_stands_for_the_steps_before_it_and_there_is_none_without_tasks():
    about = pool_of((0.25,), (0.5,))
    state = replay(about, [report_of((0, 4.0, 12.0))] * 40, settings_from({}))
    body = Entry(41, 0, about.profiles, report_of((0, 4.0, 12.0), (1, 1.0, 1.0)))
    _, receipt = advance(state, body, about)
    found = estimate_after(UniformEstimate(), state, receipt, about)
    assert found.ratio is not None
    assert found.expected == found.ratio * 42
    nothing = replace(about, retired=np.array([0, 1], np.int32))
    assert estimate_after(UniformEstimate(), state, receipt, nothing) == UniformEstimate()
