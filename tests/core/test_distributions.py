"""What distributions say of their success probabilities, against integrals over their densities."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import beta, norm

from bots_service.core.belief.distributions import LogitNormals
from tests.core.pools import betas

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
