"""Logit-normal distributions against dense quadrature, and as one and the same distribution in all that is drawn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import kstest, norm

from bots_service.core.belief.distributions import FOCUS, LogitNormals
from tests.core.pools import LEVEL, normals

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


NORMAL = st.builds(normals, st.lists(st.floats(-8, 8), min_size=1, max_size=1), st.just([0.3]) | st.just([40.0]))


@given(NORMAL, st.floats(0.01, 0.99))
def test_a_quantile_is_where_so_much_lies_below(one: LogitNormals, level: float):
    (value,) = one.quantile(np.array([level]))
    if 1e-12 < value < 1 - 1e-9:  # nearer to 1 doubles are too coarse
        assert one.below(value)[0] == pytest.approx(level, abs=1e-6)


@given(NORMAL, st.floats(0.05, 0.95))
def test_the_density_is_how_fast_the_share_below_grows(one: LogitNormals, value: float):
    step = 1e-6
    grown = (one.below(value + step)[0] - one.below(value - step)[0]) / (2 * step)
    assert np.exp(one.log_density(value)[0]) == pytest.approx(grown, rel=1e-3, abs=1e-6)


def test_nothing_lies_at_the_ends():
    assert np.isneginf(GRID.log_density(0.0)).all()
    assert np.isneginf(GRID.log_density(1.0)).all()
    assert GRID.below(0.0).tolist() == [0.0] * len(GRID)
    assert GRID.below(1.0).tolist() == [1.0] * len(GRID)


@pytest.mark.parametrize(("location", "variance"), [(-1.0, 0.5), (0.0, 9.0), (3.0, 0.01)])
def test_draws_come_from_the_narrower_distribution(location: float, variance: float):
    many = normals([location] * 20_000, [variance] * 20_000)
    drawn = many.sample(np.random.default_rng(7))
    logits = np.log(drawn) - np.log1p(-drawn)
    assert kstest(logits, norm(location, FOCUS * np.sqrt(variance)).cdf).pvalue > LEVEL
    one = normals([location], [variance])
    assert kstest([one.below(value)[0] for value in drawn.tolist()], "uniform").pvalue > LEVEL


def test_the_mirror_image_is_of_failing():
    mirrored = GRID.mirrored()
    np.testing.assert_allclose(mirrored.mean, 1 - GRID.mean, atol=1e-12)
    np.testing.assert_allclose(mirrored.below(0.3), 1 - GRID.below(0.7), atol=1e-12)


def test_places_and_masks_take():
    some, mask = np.array([3, 0]), np.zeros(len(GRID), bool)
    mask[[0, 3]] = True
    assert GRID.at(some).location.tolist() == GRID.location[some].tolist()
    assert GRID.at(mask).variance.tolist() == GRID.variance[mask].tolist()
