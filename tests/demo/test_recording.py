"""The recorded run: what its rollouts would have shown."""

from importlib.resources import files

import numpy as np
import pytest

from bots_service.demo.replay import STEPS, VISITS_POOLED, VISITS_WEAK, recorded_run
from studies.public_pools import with_both_references

RECORDING = recorded_run()
ROLLOUTS = 16


def raw():
    with (files("bots_service.demo") / "data/rlvr_run.npz").open("rb") as file:
        return dict(np.load(file))


def slow_success_probability(successes, step):
    """The mean of the five visits nearest to the middle of the step; those at the ends of the run stand in."""
    visits = [int(solved) for solved in successes if solved >= 0]
    centre = min(range(len(visits)), key=lambda visit: abs(STEPS * (visit + 0.5) / len(visits) - (step + 0.5)))
    first = min(max(centre - VISITS_POOLED // 2, 0), len(visits) - VISITS_POOLED)
    return sum(visits[first : first + VISITS_POOLED]) / (8 * VISITS_POOLED)


@pytest.mark.parametrize("step", [0, 1, 137, 250, 498, 499])
def test_success_probabilities_are_means_of_the_visits_around_a_step(step):
    expected = [slow_success_probability(row, step) for row in raw()["successes"]]
    found = RECORDING.success_probabilities(step)
    # Where a step's middle lies exactly between two visits, either is nearest.
    between = (2 * step + 1) * RECORDING.visits % (2 * STEPS) == 0
    assert np.array_equal(found[~between], np.array(expected)[~between])
    assert between.mean() < 0.2


def test_references_are_the_first_two_visits_and_the_7b_model_where_known():
    arrays = raw()
    for place, task in enumerate(RECORDING.tasks()):
        weak, strong = task.reference_pass_rates
        assert task.id == arrays["task_id"][place]
        assert weak == arrays["successes"][place, :VISITS_WEAK].sum() / ROLLOUTS
        known = not np.isnan(arrays["reference_qwen25_math_7b"][place])
        assert (strong is not None) is known
        if known:
            assert strong == arrays["reference_qwen25_math_7b"][place]


def test_problems_with_both_references_keep_their_success_probabilities():
    both = with_both_references(RECORDING)
    place_of = {name: place for place, name in enumerate(RECORDING.ids)}
    places = [place_of[name] for name in both.ids]
    assert len(both) == int((~np.isnan(raw()["reference_qwen25_math_7b"])).sum())
    assert not np.isnan(both.strong).any()
    assert np.array_equal(both.success_probabilities(321), RECORDING.success_probabilities(321)[places])


def test_rollouts_depend_on_step_and_seed_alone():
    first = RECORDING.roll_out(42, rollouts=ROLLOUTS, seed=1)
    assert np.array_equal(first, RECORDING.roll_out(42, rollouts=ROLLOUTS, seed=1))
    assert not np.array_equal(first, RECORDING.roll_out(43, rollouts=ROLLOUTS, seed=1))
    assert not np.array_equal(first, RECORDING.roll_out(42, rollouts=ROLLOUTS, seed=2))


def test_the_source_and_the_licence_travel_with_the_data():
    source = (files("bots_service.demo") / "data/SOURCE.md").read_text("utf-8")
    assert "Apache-2.0" in source
    assert "21ed529ec90002597c92aee957af1dd8166bb66c" in source
