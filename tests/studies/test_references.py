"""What references save is what the curves say, and each case has the references that it names."""

from math import inf

import numpy as np
import pytest

from bots_service.demo.recording import recorded_run as read_recording
from studies.public_pools import reasoning_rates, recorded_run
from studies.reference_pools import FEW, NONE, RIGHT, case_names, reference_case
from studies.references import groups_by_step, paid_after, saved_steps, shown_payment, shown_savings

STEPS = np.arange(101.0)
POOLS = {"recorded run": 678, "reasoning gym": 4490}


def test_groups_are_linear_between_the_points_that_are_kept():
    groups = groups_by_step({"steps": 50, "effective_groups": [0, 100, 400, 500]})
    assert groups[[0, 10, 20, 30, 40, 45, 50]].tolist() == [0, 50, 100, 250, 400, 450, 500]


def test_steps_are_saved_where_the_same_groups_come_earlier():
    fast, slow = 30 * STEPS, 20 * STEPS
    assert saved_steps(fast, slow) == pytest.approx(100 - 2000 / 30)
    assert saved_steps(slow, fast) == pytest.approx(2000 / 30 - 100)
    assert saved_steps(slow, slow) == pytest.approx(0)


def test_references_are_paid_once_the_run_is_ahead_by_their_cost():
    fast, slow = 30 * STEPS, 20 * STEPS  # by step t it is t / 2 steps ahead
    assert paid_after(fast, slow, 20) == 40
    assert paid_after(fast, slow, 33) == 66
    assert paid_after(fast, slow, 34) == inf  # the slow one would have to go on
    assert paid_after(slow, fast, 1) == inf
    assert paid_after(slow, fast, 0) == 0


def measured(a_step: float, cost: float = 0.0) -> dict:
    at = [*range(0, 100, 20), 100]
    return {"steps": 100, "effective_groups": [a_step * step for step in at], "extra": {"reference_rollouts": cost}}


def test_savings_are_shown_in_rollouts_and_payment_as_a_median():
    pairs = [(measured(rate, cost=10 * 512), measured(20)) for rate in (25, 40, 40)]
    saved = np.array([100 - 2000 / 25, 50, 50]) * 512
    assert shown_savings(pairs).split(" ± ")[0] == f"{saved.mean():.0f}"
    assert shown_payment(pairs) == "10"  # by step t it is t steps ahead
    assert shown_payment([(measured(20, cost=1), measured(20))]) == "not in the run"


@pytest.mark.parametrize("pool", list(POOLS))
def test_each_case_has_its_references_weakest_first_and_their_cost(pool):
    for name in case_names(pool):
        case = reference_case(pool, name)
        assert case.pool.references.shape == (POOLS[pool], len(case.pool.reference_models))
        means = case.pool.references.mean(axis=0)
        if name != "inverted":
            assert np.all(np.diff(means) >= 0), name
        assert case.rollouts % POOLS[pool] == 0
        assert (case.rollouts == 0) == (name == NONE)


def test_costs_are_attempts_of_all_tasks():
    assert reference_case("recorded run", RIGHT).rollouts == 678 * (16 + 128)
    assert reference_case("recorded run", FEW).rollouts == 678 * 8
    assert reference_case("recorded run", "four models").rollouts == 678 * (16 + 128 + 16 + 16)
    assert reference_case("reasoning gym", RIGHT).rollouts == 4490 * 32
    assert reference_case("reasoning gym", FEW).rollouts == 4490 * 8
    assert reference_case("reasoning gym", "inverted").rollouts == 4490 * 32


def test_the_right_references_are_those_of_the_pool():
    case = reference_case("recorded run", RIGHT).pool
    assert case.references.tolist() == recorded_run().references.tolist()


def test_references_of_the_model_itself_are_two_of_its_visits():
    recording = read_recording().with_both_references()
    rates = np.diff(recording.solved, axis=1) / recording.rollouts_per_visit
    late = reference_case("recorded run", "the model itself, after training").pool.references[:, 0]
    middle = reference_case("recorded run", "the model itself, half-way").pool.references[:, 0]
    for task in (0, 99, 677):
        visits = int(recording.visits[task])
        assert late[task] == pytest.approx(rates[task, visits - 2 : visits].mean())
        assert middle[task] == pytest.approx(rates[task, visits // 2 : visits // 2 + 2].mean())


def test_drawn_references_scatter_around_the_rates():
    rates = reasoning_rates()["o3-mini"]
    drawn = reference_case("reasoning gym", "two strong models").pool.references[:, 1]
    assert drawn * 16 == pytest.approx(np.rint(drawn * 16))
    assert np.all(drawn[(rates == 0) | (rates == 1)] == rates[(rates == 0) | (rates == 1)])
    between = (rates > 0) & (rates < 1)
    variance = np.mean((drawn[between] - rates[between]) ** 2)
    assert variance == pytest.approx(np.mean(rates[between] * (1 - rates[between])) / 16, rel=0.15)
