"""Laws of the fold that hold for the belief of BOTS alone: late evidence, the prior, forgetting."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.entries import Entry, Report, SettingsChange
from bots_service.core.evidence import MAX_TRIALS
from bots_service.core.run_settings import settings_from
from bots_service.core.state import advance, fresh_state
from tests.core.journals import bots_settings, pieces, pool_of, pools, replay, report_of, shares
from tests.core.pools import beta_parameters, bots_belief, with_belief

POOL = pool_of((0.25, 0.75), (0.5, 0.875), (0.25, 0.75), (math.nan, math.nan), (0.0, 1.0))
HELD = {"capability": "paper", "capability_momentum": 1.0, "rollouts_per_task": 16}
ALL = np.arange(len(POOL), dtype=np.int32)


@given(
    st.fixed_dictionaries({"forgetting": shares, "implicit_weight": shares}),
    st.booleans(),
    st.lists(pieces(len(POOL)), min_size=2, max_size=6),
    pieces(len(POOL)),
    pieces(len(POOL)),
    st.data(),
)
def test_late_evidence_equals_evidence_on_time_while_capability_and_rollouts_per_task_are_held(
    values, is_held, steps, in_time, late, data
):
    # Held by the paper's rule with a momentum of 1; or of no effect, because nothing implied is booked.
    held = (
        {"capability": "paper", "capability_momentum": 1.0}
        if is_held
        else {"capability_momentum": 0.5, "implicit_weight": 0.0}
    )
    chosen = settings_from({"belief": "bots", "rollouts_per_task": 16, **values, **held})
    due = data.draw(st.integers(0, len(steps) - 1))
    start = replay(POOL, [report_of((0, 3.0, 1.0), (4, 1.0, 1.0))], chosen)

    def with_due(*bodies: Report) -> list[Report]:
        plain = [report_of(*some, close=True) for some in steps]
        return [*plain[:due], *bodies, *plain[due + 1 :]]

    whole = replay(POOL, with_due(report_of(*in_time, *late, close=True)), chosen, start)
    came_late = [report_of(*late, made_at=1 + due, close=False), report_of(*steps[-1], close=True)]
    parts = replay(POOL, [*with_due(report_of(*in_time, close=True))[:-1], *came_late], chosen, start)
    if due == len(steps) - 1:  # nothing closed in between: the late evidence is on time
        parts = replay(
            POOL, [*with_due()[:due], report_of(*late, close=False), report_of(*in_time, close=True)], chosen, start
        )
    largest = max((s + f for _, s, f in [*in_time, *late, *(p for step in steps for p in step)]), default=0.0)
    scale = 2.0 + 8 * len(steps) * (16 + largest)
    np.testing.assert_allclose(
        beta_parameters(parts.belief.distributions(POOL, ALL)),
        beta_parameters(whole.belief.distributions(POOL, ALL)),
        rtol=0,
        atol=1e-9 * scale,
    )


def test_a_task_reported_partly_on_time_and_partly_late_gives_its_implicit_evidence_back_once():
    chosen = settings_from({"belief": "bots", **HELD, "implicit_weight": 0.5, "forgetting": 0.25})
    first, other = report_of((4, 1.0, 1.0)), report_of((1, 2.0, 2.0))
    whole = replay(POOL, [first, report_of((0, 6.0, 10.0)), other, other], chosen)
    one, two, three = (0, 1.0, 3.0), (0, 2.0, 2.0), (0, 3.0, 5.0)
    late_two = report_of(two, made_at=1, close=False)
    late_three = report_of(three, made_at=1, close=False)
    parts = replay(POOL, [first, report_of(one), late_two, other, late_three, other], chosen)
    np.testing.assert_allclose(
        beta_parameters(parts.belief.distributions(POOL, ALL)),
        beta_parameters(whole.belief.distributions(POOL, ALL)),
        rtol=1e-12,
    )
    assert (parts.totals.late, whole.totals.late) == (2, 0)


def test_late_evidence_gives_back_what_its_own_step_had_booked_whatever_the_settings_are_by_now():
    chosen = settings_from({"belief": "bots", **HELD, "implicit_weight": 1.0})
    first, other = report_of((4, 1.0, 1.0)), report_of((1, 2.0, 2.0))
    trusting_less = SettingsChange({"implicit_weight": 0.1})
    whole = replay(POOL, [first, report_of((1, 2.0, 2.0), (0, 6.0, 10.0)), trusting_less, other, other], chosen)
    late = report_of((0, 6.0, 10.0), made_at=1, close=False)
    parts = replay(POOL, [first, other, trusting_less, other, late, other], chosen)
    np.testing.assert_allclose(
        beta_parameters(parts.belief.distributions(POOL, ALL)),
        beta_parameters(whole.belief.distributions(POOL, ALL)),
        rtol=1e-12,
    )


def test_a_step_of_late_evidence_alone_still_moves_capability():
    late = [report_of((0, 1.0, 3.0)), report_of((0, 3.0, 1.0), made_at=0)]
    squares, products = (0.9 + 1) * 0.5**2, 0.9 * 0.5 * (0.25 - 0.25) + 0.5 * (0.75 - 0.25)
    fitted = replay(POOL, late, settings_from({"belief": "bots"}))
    assert fitted.belief.capability == pytest.approx((products + 0.5) / (squares + 1), rel=1e-12)
    first, second = (0.25 - 0.25) / (0.5 + 1e-6), (0.75 - 0.25) / (0.5 + 1e-6)
    divided = replay(POOL, late, settings_from({"belief": "bots", "capability": "paper"}))
    assert divided.belief.capability == pytest.approx(0.9 * first + 0.1 * second, rel=1e-12)


def test_late_evidence_counts_as_on_time_but_for_what_capability_would_have_implied_meanwhile():
    """The difference that documentation names: c of the steps in between was estimated without it."""
    chosen = settings_from({"belief": "bots", "forgetting": 0.25})
    on_time, late, between = (1, 2.0, 2.0), (4, 9.0, 1.0), report_of((0, 1.0, 3.0))
    whole = replay(POOL, [report_of(on_time, late), between, between], chosen)
    parts = replay(POOL, [report_of(on_time), between, report_of(late, made_at=0, close=False), between], chosen)
    own = np.array([4], np.int32)
    assert whole.belief.capability != parts.belief.capability
    difference = np.array(beta_parameters(whole.belief.distributions(POOL, own))) - np.array(
        beta_parameters(parts.belief.distributions(POOL, own))
    )
    # Task 4 gets its counts, less what step 1 booked, in both; what steps 2 and 3 imply for it differs by their c.
    implied = [np.array([c, 1 - c]) for c in bots_belief(whole).past.steps[0, 1:].tolist()]
    other = [np.array([c, 1 - c]) for c in bots_belief(parts).past.steps[0, 1:].tolist()]
    booked = zip(bots_belief(whole).past.steps[1, 1:], bots_belief(parts).past.steps[1, 1:], strict=True)
    wanted = [m * q - n * p for (m, n), q, p in zip(booked, implied, other, strict=True)]
    np.testing.assert_allclose(difference[:, 0], 0.75 * wanted[0] + wanted[1], rtol=1e-9)


def test_late_evidence_beside_evidence_on_time_moves_no_capability():
    on_time, late = report_of((0, 3.0, 1.0)), report_of((4, 0.0, 9.0), made_at=0, close=False)
    with_late = replay(POOL, [on_time, late, on_time], settings_from({"belief": "bots"}))
    without = replay(POOL, [on_time, on_time], settings_from({"belief": "bots"}))
    assert with_late.belief.capability == without.belief.capability


@given(bots_settings, pools(), st.data())
def test_beliefs_never_fall_below_the_prior(chosen, pool, data):
    # Legal settings at their ends, the most rollouts that one outcome may carry, and 90 steps.
    bodies = [report_of(*data.draw(pieces(len(pool))), close=True) for _ in range(3)]
    huge = report_of(*((task, MAX_TRIALS, 0.0) for task in range(len(pool))), close=True)
    late = report_of(*data.draw(pieces(len(pool))), made_at=2, close=True)
    journal = [*bodies, huge, late, *[report_of(close=True)] * 40, huge, *bodies * 15]
    state, everything = fresh_state(chosen, pool), np.arange(len(pool), dtype=np.int32)
    for seq, body in enumerate(journal, 1):
        state, receipt = advance(state, Entry(seq, 0, pool.profiles, body), pool)
        alpha, beta = beta_parameters(state.belief.distributions(pool, everything))
        shared_alpha, shared_beta = beta_parameters(state.belief.profile_distributions(pool))
        for belief, prior in ((alpha, 0), (beta, 1), (shared_alpha, 0), (shared_beta, 1)):
            assert (belief >= chosen.prior[prior]).all()
            assert np.isfinite(belief).all()
        for error in (receipt.brier, receipt.log_loss, receipt.mean_pass_rate):
            assert error is None or (math.isfinite(error) and error >= 0)


def test_a_belief_too_sure_for_its_mean_to_differ_from_one_still_has_a_finite_prediction_error():
    chosen = settings_from({"belief": "bots", "prior": (1e-3, 1e-3), "forgetting": 0.0})
    solved = report_of(*[(0, MAX_TRIALS, 0.0)] * 64)
    state = replay(POOL, [solved] * 2, chosen)
    # As after a billion times as many steps.
    state = with_belief(state, tried=replace(bots_belief(state).tried, scale=1e9))
    assert state.belief.distributions(POOL, ALL[:1]).mean[0] == 1.0
    _, receipt = advance(state, Entry(3, 0, POOL.profiles, report_of((0, 0.0, 1.0))), POOL)
    assert receipt.brier == pytest.approx(1.0)
    assert receipt.log_loss == pytest.approx(-math.log(2**-53))
