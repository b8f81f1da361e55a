"""What distributions say of their success probabilities, against integrals over their densities."""

import functools
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit
from scipy.stats import beta, kstest, norm

from bots_service.core.belief.distributions import FOCUS, LogitNormals
from bots_service.core.portable_math import exp, inverse, log, sigmoid, summed, summed_rows
from tests.core.pools import LEVEL, betas, normals

SIZES = st.floats(1e-3, 1e6)


def is_effective(p, rollouts):
    """The probability that of independent rollouts some succeed and some fail."""
    return 1 - p**rollouts - (1 - p) ** rollouts


def effective_at(logit, rollouts):
    return is_effective(expit(logit), rollouts)


@pytest.mark.parametrize("rollouts", [2, 8, 15.5, 64])
@pytest.mark.parametrize("prior", [(1.0, 1.0), (0.5, 2.5)])
@pytest.mark.parametrize(("solved", "failed"), [(0, 0), (3, 0.5), (0, 40), (12.25, 12), (300, 200)])
def test_betas_are_effective_as_their_evidence_on_top_of_jeffreys_prior_says(solved, failed, prior, rollouts):
    law = beta(solved + 0.5, failed + 0.5)
    found = betas([prior[0] + solved], [prior[1] + failed], prior).effective(rollouts)
    assert found[0] == pytest.approx(law.expect(lambda p: is_effective(p, rollouts)), abs=1e-6)


@pytest.mark.parametrize(("alpha", "other"), [(1, 1), (4, 1.5), (0.5, 2.5), (300, 200)])
def test_the_rollout_variance_of_betas_is_that_of_their_density(alpha, other):
    expected = beta(alpha, other).expect(lambda p: p * (1 - p))
    assert betas([alpha], [other]).rollout_variance[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.no_cover
@pytest.mark.parametrize("location", [-6.0, -1.5, 0.0, 0.75, 9.0])
@pytest.mark.parametrize(("variance", "tolerance"), [(1e-4, 1e-9), (0.25, 1e-8), (1.0, 1e-5), (4.0, 2e-3)])
def test_logit_normals_are_effective_and_vary_as_their_density_says(location, variance, tolerance):
    found = LogitNormals(np.array([location]), np.array([variance]))
    law = norm(location, np.sqrt(variance))
    for rollouts in (2, 8, 16):
        expected = law.expect(partial(effective_at, rollouts=rollouts))
        assert found.effective(rollouts)[0] == pytest.approx(expected, abs=tolerance)
    expected = law.expect(lambda logit: expit(logit) * expit(-logit))
    assert found.rollout_variance[0] == pytest.approx(expected, abs=tolerance)


@given(SIZES, SIZES, st.floats(-40, 40), st.floats(1e-6, 100), st.floats(0.01, 1e4))
def test_both_kinds_stay_within_what_is_possible(alpha, other, location, variance, rollouts):
    for one in (betas([alpha], [other]), LogitNormals(np.array([location]), np.array([variance]))):
        assert 0 <= one.effective(rollouts)[0] <= 1
        assert 0 <= one.rollout_variance[0] <= 0.25
        assert one.effective(1.0)[0] == pytest.approx(0, abs=1e-6)
        assert (one.effective(0.5) == 0).all()


@pytest.mark.parametrize("size", [3, 7, 1001, 16_385])
def test_equal_distributions_say_the_same_wherever_they_stand(size):
    normals = LogitNormals(np.full(size, 0.7), np.full(size, 1.3))
    for one in (betas([4.5] * size, [1.5] * size), normals):
        for values in (one.mean, one.effective(16.0), one.rollout_variance, *one.interval()):
            assert len(set(values.tolist())) == 1


# --- logit-normal distributions against dense quadrature -------------------------------------------------------------

GRID = normals(*(column.ravel() for column in np.meshgrid([-6.0, -2.0, 0.0, 0.7, 3.0], [1e-3, 0.25, 1.0, 4.0, 16.0])))
LEVELS = (np.arange(20_000) + 0.5) / 20_000


def shares() -> np.ndarray:
    """[20,000, n] equally likely success probabilities of each."""
    return expit(GRID.location + np.sqrt(GRID.variance) * norm.ppf(LEVELS)[:, None])


def test_the_mean_is_that_of_dense_quadrature_to_two_hundredths():
    np.testing.assert_allclose(GRID.mean, shares().mean(axis=0), atol=0.02)


def test_the_interval_holds_nine_tenths():
    low, high = GRID.interval()
    np.testing.assert_allclose(((shares() > low) & (shares() < high)).mean(axis=0), 0.9, atol=1e-3)


@pytest.mark.parametrize(("location", "variance"), [(-1.0, 0.5), (0.0, 9.0), (3.0, 0.01)])
def test_draws_come_from_the_narrower_distribution(location: float, variance: float):
    many = normals([location] * 20_000, [variance] * 20_000)
    drawn = many.sample(np.random.default_rng(7))
    logits = np.log(drawn) - np.log1p(-drawn)
    assert kstest(logits, norm(location, FOCUS * np.sqrt(variance)).cdf).pvalue > LEVEL


def law_of(one):
    """The law that one distribution draws from, in p for Betas and in logit(p) for logit-normals."""
    if isinstance(one, LogitNormals):
        return norm(one.location[0], FOCUS * np.sqrt(one.variance[0]))
    return beta(one.alpha[0], one.beta[0])


def cut(one, value):
    return logit(value) if isinstance(one, LogitNormals) else value


COUNTS = st.lists(st.floats(0.05, 1e3), min_size=1, max_size=1)
ANY = st.builds(betas, COUNTS, COUNTS) | st.builds(
    normals, st.lists(st.floats(-8, 8), min_size=1, max_size=1), st.just([0.3]) | st.just([40.0])
)


@given(ANY, st.floats(0, 0.99), st.floats(1e-9, 1))
def test_a_bound_is_never_below_the_share_within(one, low: float, width: float):
    high, law = min(low + width, 1.0), law_of(one)
    share = law.cdf(cut(one, high)) - law.cdf(cut(one, low))
    assert one.bound_within(low, high)[0] >= share * (1 - 1e-6) - 1e-12


@pytest.mark.parametrize("one", [betas([8.0], [3.0]), betas([0.5], [2.5]), betas([0.5], [0.5]), normals([0.7], [4.0])])
def test_a_narrow_window_holds_what_its_bound_says(one):
    law, (low, high) = law_of(one), (0.4995, 0.5005)
    share = law.cdf(cut(one, high)) - law.cdf(cut(one, low))
    assert one.bound_within(low, high)[0] == pytest.approx(share, rel=1e-4)


@pytest.mark.parametrize("window", [(0.3, 0.7), (0.05, 0.1), (0.9, 0.99), (0.49999, 0.50001)])
@pytest.mark.parametrize(
    "one", [betas([8.0], [3.0]), betas([1.0], [1.0]), betas([0.5], [3.0]), betas([2.0], [0.5]), normals([0.7], [4.0])]
)
def test_what_is_drawn_within_a_window_is_what_falls_there(one, window: tuple[float, float]):
    law, (low, high) = law_of(one), window
    proposed = one.at(np.zeros(40_000, int)).sample_within(low, high, np.random.default_rng(5))
    stayed = proposed[~np.isnan(proposed)]
    assert ((low <= stayed) & (stayed <= high)).all()
    first, last = law.cdf(cut(one, low)), law.cdf(cut(one, high))
    share = min((last - first) / one.bound_within(low, high)[0], 1.0)
    assert abs(len(stayed) - share * len(proposed)) <= 5 * np.sqrt(share * (1 - share) * len(proposed)) + 1
    assert kstest((law.cdf(cut(one, stayed)) - first) / (last - first), "uniform").pvalue > LEVEL


def test_the_mirror_image_is_of_failing():
    mirrored = GRID.mirrored()
    np.testing.assert_allclose(mirrored.mean, 1 - GRID.mean, atol=1e-12)
    np.testing.assert_allclose(mirrored.bound_within(0.2, 0.3), GRID.bound_within(0.7, 0.8), atol=1e-12)


def test_places_and_masks_take():
    some, mask = np.array([3, 0]), np.zeros(len(GRID), bool)
    mask[[0, 3]] = True
    assert GRID.at(some).location.tolist() == GRID.location[some].tolist()
    assert GRID.at(mask).variance.tolist() == GRID.variance[mask].tolist()


# --- the portable arithmetic is right; that it gives the same bits everywhere is tested with whole folds -------------

MANY = np.random.default_rng(0)


@pytest.mark.parametrize(
    "x", [MANY.normal(0, 50, 50_000), MANY.normal(0, 1e-8, 1000), MANY.uniform(-700, 700, 50_000), np.array([0.0])]
)
def test_exp_is_right_to_1e_15_relative(x):
    np.testing.assert_allclose(exp(x), np.exp(x), rtol=1e-15, atol=0)
    np.testing.assert_allclose(sigmoid(x), 1 / (1 + np.exp(-x)), rtol=2e-15, atol=0)


@pytest.mark.parametrize("x", [-1e300, -701.0, 701.0, 1e300])
def test_beyond_700_exp_stays_a_number(x):
    assert exp(np.array([x]))[0] == pytest.approx(math.exp(math.copysign(700, x)), rel=1e-15)


@pytest.mark.parametrize(
    "x", [np.exp(MANY.normal(0, 20, 50_000)), MANY.uniform(0.5, 2, 50_000), np.array([1.0, 2.2250738585072014e-308])]
)
def test_log_is_right_to_1e_15_of_the_larger_of_it_and_1(x):
    error = np.abs(log(x) - np.log(x))
    assert (error <= 1e-15 * np.maximum(np.abs(np.log(x)), 1.0)).all()


@given(st.integers(1, 20), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_inverses_and_determinants_are_those_of_linear_algebra(size: int, count: int, seed: int):
    root = np.random.default_rng(seed).normal(size=(count, size, size))
    matrices = root @ root.transpose(0, 2, 1) + 0.1 * np.eye(size)
    inverses, pivots = inverse(np.moveaxis(matrices, 0, -1))
    inverses, log_determinants = np.moveaxis(inverses, -1, 0), np.log(pivots).sum(axis=0)
    np.testing.assert_allclose(inverses @ matrices, np.broadcast_to(np.eye(size), matrices.shape), atol=1e-10)
    np.testing.assert_array_equal(inverses, inverses.transpose(0, 2, 1))
    np.testing.assert_allclose(log_determinants, np.linalg.slogdet(matrices)[1], atol=1e-10)


@pytest.mark.parametrize("columns", [1, 32, 500])
def test_sums_are_added_one_after_the_other_however_many(columns: int):
    numbers = np.random.default_rng(3).normal(size=(15, columns))
    wanted = [functools.reduce(float.__add__, column) for column in numbers.T.tolist()]
    assert summed(numbers).tolist() == wanted
    assert summed_rows(numbers.T).tolist() == wanted


def test_nothing_summed_is_zero():
    assert summed(np.empty((0, 3))).tolist() == [0.0] * 3
