"""The gain over uniform sampling, and the status of a run."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.summary import Sums, is_overdue, measured_gain, nearest, status_of

sums = st.builds(
    lambda reported, share, group: Sums(reported, int(reported * share), float(reported * group)),
    st.integers(0, 10_000),
    st.floats(0, 1),
    st.integers(1, 16),
)


@given(own=sums, uniform=sums, recent=sums)
def test_a_measured_gain_compares_the_shares_of_effective_tasks(own, uniform, recent):
    gain = measured_gain("even", 7, own=own, uniform=uniform, recent=recent)
    assert (gain.source, gain.baseline, gain.steps, gain.rollouts_spent) == ("measured", "even", 7, own.rollouts)
    assert gain.uniform_effective_task_ratio == recent.effective_task_ratio
    assert gain.own_ratio == (own.effective / own.reported if own.reported else None)
    assert gain.uniform_ratio == (uniform.effective / uniform.reported if uniform.reported else None)
    if not (own.reported and uniform.effective):
        assert gain.factor is gain.rollouts_saved is None
        return
    factor = (own.effective / own.reported) / (uniform.effective / uniform.reported)
    assert gain.factor is not None
    assert gain.rollouts_saved is not None
    assert math.isclose(gain.factor, factor)
    # Uniform sampling finds as many effective tasks with `factor` times the rollouts.
    assert math.isclose(gain.rollouts_saved, own.rollouts * factor - own.rollouts, abs_tol=1e-6)


def test_a_run_is_compared_with_the_baseline_created_nearest_in_time_and_the_first_of_several():
    runs = list(zip([10.0, 20.0, 20.0, 31.0], "abcd", strict=True))
    assert [nearest(at, runs) for at in (0.0, 14.9, 15.1, 20.0, 25.4, 25.6, 99.0)] == list("aabbbdd")
    assert nearest(15.0, runs) == "a"
    assert nearest(15.0, []) is None


@pytest.mark.parametrize(
    ("since_s", "usual_gap_s", "status"),
    [
        (None, 0.0, "new"),
        (60.0, 1.0, "running"),
        (60.1, 1.0, "stalled"),
        (90.0, 30.0, "running"),
        (90.1, 30.0, "stalled"),
        (3599.9, 30.0, "stalled"),
        (3600.0, 30.0, "idle"),
        (5999.9, 300.0, "stalled"),
        (6000.0, 300.0, "idle"),
        (-5.0, 1.0, "running"),  # a step of a replica whose clock is ahead
    ],
)
def test_a_run_with_tasks_in_flight_is_stalled_once_three_usual_gaps_passed(since_s, usual_gap_s, status):
    assert status_of(since_s, usual_gap_s, in_flight=True) == status
    assert is_overdue(since_s, usual_gap_s) == (status == "stalled")
    if status == "stalled":
        assert status_of(since_s, usual_gap_s, in_flight=False) == "idle"
