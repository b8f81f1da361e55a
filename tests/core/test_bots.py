"""Laws of the fold that hold for the belief of BOTS alone: late evidence, the prior, forgetting."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from bots_service.core.belief.bots import BLOCK, LEAST_GAP, NO_CAPABILITY, TINY, quotient, with_implied
from bots_service.core.entries import Entry, Report
from bots_service.core.evidence import MAX_TRIALS, Evidence
from bots_service.core.pool import Pool
from bots_service.core.run_settings import CapabilityRule, RunSettings, settings_from
from bots_service.core.state import advance, fresh_state
from tests.core.journals import DenseRun, Story, bots_settings, pieces, pool_of, pools, replay, report_of, stories
from tests.core.pools import beta_parameters, bots_belief, with_belief

POOL = pool_of((0.25, 0.75), (0.5, 0.875), (0.25, 0.75), (math.nan, math.nan), (0.0, 1.0))
ALL = np.arange(len(POOL), dtype=np.int32)


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
        for error in (receipt.brier, receipt.log_loss):
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


# --- the fold against the published implementation's traces, and against the rule written slowly ---------------------

TRACES = json.loads((Path(__file__).parent / "data" / "bots_reference_traces.json").read_text())
NAMES = ("forgetting", "implicit_weight", "rollouts_per_task", "capability_momentum", "prior")


def run_settings(**values) -> RunSettings:
    return settings_from({"belief": "bots", **values})


@pytest.mark.parametrize("case", TRACES["cases"], ids=lambda case: case["name"])
def test_beliefs_and_capability_equal_the_reference_traces(case):
    pool = Pool.of_tasks(np.array(case["reference_pass_rates"]))
    chosen = run_settings(capability="paper", **{name: case[name] for name in NAMES})
    state = fresh_state(chosen, pool)
    expected = {checkpoint["after_step"]: checkpoint for checkpoint in case["expected"]}
    checked = 0
    for step in case["steps"]:
        successes = np.array(step["successes"], np.float64)
        failures = case["rollouts_per_task"] - successes
        evidence = Evidence(np.array(step["tasks"], np.int32), successes, failures, (successes > 0) & (failures > 0))
        state, receipt = advance(
            state, Entry(state.seq + 1, 0, pool.profiles, Report(evidence, state.step, None)), pool
        )
        if receipt.step in expected:
            checkpoint = expected[receipt.step]
            alpha, beta = beta_parameters(state.belief.distributions(pool, np.arange(len(pool), dtype=np.int32)))
            np.testing.assert_allclose(alpha, checkpoint["alpha"], rtol=1e-9, atol=0)
            np.testing.assert_allclose(beta, checkpoint["beta"], rtol=1e-9, atol=0)
            assert receipt.capability == pytest.approx(checkpoint["capability"], rel=1e-9, abs=0)
            checked += 1
    assert checked == len(expected)


def assert_same_beliefs(state, dense: DenseRun) -> None:
    assert (state.belief.capability is None) == (dense.capability is None)
    assert state.belief.capability == (dense.capability and pytest.approx(dense.capability, rel=1e-9, abs=1e-9))
    alpha, beta = beta_parameters(state.belief.distributions(dense.pool, np.arange(len(dense.pool), dtype=np.int32)))
    wanted = np.array([dense.belief(task) for task in range(len(dense.pool))]).T
    np.testing.assert_allclose([alpha, beta], wanted, rtol=0, atol=1e-9 * dense.scale)


@given(stories(settings=bots_settings, in_full=False))
def test_the_sum_equals_the_dense_rule_after_every_entry(story: Story):
    # 1e-9 of the prior and all evidence: c_hat divides rounding by as little as 1e-6.
    dense, state = DenseRun(story.pool, story.settings), fresh_state(story.settings, story.pool)
    for entry in story.entries:
        dense.take(entry)
        state, receipt = advance(state, entry, story.pool)
        assert receipt.step == state.step == dense.step
        assert receipt.capability == state.belief.capability
        totals = state.totals
        assert (totals.reported, totals.effective, totals.all_solved, totals.none_solved) == (
            (dense.reported, dense.effective, dense.all_solved, dense.reported - dense.effective - dense.all_solved)
        )
        assert_same_beliefs(state, dense)


@pytest.mark.no_cover
@pytest.mark.parametrize("lag", [1, 63, 64, 65, 70])
@pytest.mark.parametrize("forgetting", [0.0, 0.1, 1.0])
def test_evidence_up_to_64_steps_late_counts_and_older_evidence_does_not(lag, forgetting):
    pool = pool_of((0.25, 0.75), (0.5, 0.5), (0.0, 1.0))
    chosen = run_settings(forgetting=forgetting)
    state, dense = fresh_state(chosen, pool), DenseRun(pool, chosen)
    late = 0
    for number in range(80):
        partly = (0, 2.0, 1.0) if number % 3 == 0 else (1, 3.0, 1.0)
        made_at = max(number - lag, 0) if number == 75 else number
        body = report_of(partly, (2, 1.0, 4.0), made_at=made_at)
        entry = Entry(number + 1, 0, pool.profiles, body)
        dense.take(entry)
        state, receipt = advance(state, entry, pool)
        if number == 75:
            late = receipt.late
            assert receipt.late + receipt.expired == 2
            assert receipt.closed == (lag <= 64)
        assert_same_beliefs(state, dense)
    assert late == (2 if lag <= 64 else 0)
    assert state.totals.expired == 2 - late


# --- implied success probabilities, for any number of reference models -----------------------------------------------

sixteenths = st.integers(0, 16).map(lambda k: k / 16)


def references(*rows):
    return np.array(rows, np.float64).reshape(len(rows), -1)


def test_what_a_step_implies_is_added_in_blocks_as_it_would_be_at_once():
    rng = np.random.default_rng(5)
    rows = rng.random((BLOCK + 3, 2))
    rows[[0, BLOCK, BLOCK + 2]] = math.nan
    before = rng.random((2, len(rows)))
    counts = with_implied(before, rows, 0.75, 1.6, kept=0.5)
    for row in (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, BLOCK + 2):
        rate = rows[row, 0] + 0.75 * (rows[row, 1] - rows[row, 0])
        wanted = (0.0, 0.0) if math.isnan(rate) else (1.6 * rate, 1.6 * (1 - rate))
        np.testing.assert_allclose(counts[:, row] - 0.5 * before[:, row], wanted, rtol=1e-12, atol=1e-15)


# --- capability: where the model in training stands along its references, by both rules ------------------------------

batches = st.integers(2, 5).flatmap(
    lambda models: st.lists(st.tuples(st.tuples(*[sixteenths] * models), sixteenths), min_size=1, max_size=6)
)


def along(row, place):
    """The pass rate at a place along the references, not clipped."""
    below = min(max(math.floor(place), 0), len(row) - 2)
    return row[below] + (place - below) * (row[below + 1] - row[below])


def cost(batches, place, *, momentum, models):
    total = (place - (models - 1) / 2) ** 2
    for age, batch in enumerate(reversed(batches)):
        total += momentum**age * sum((rate - along(row, place)) ** 2 for row, rate in batch)
    return total


@given(st.lists(batches, min_size=1, max_size=3), st.sampled_from([0.0, 0.5, 0.9, 1.0]))
def test_no_place_on_a_grid_fits_better(found, momentum):
    models = len(found[0][0][0])
    found = [[(row, rate) for row, rate in batch if len(row) == models] for batch in found]
    found = [batch for batch in found if batch]
    estimate = NO_CAPABILITY
    for batch in found:
        rows, rates = zip(*batch, strict=True)
        estimate = estimate.after(references(*rows), np.array(rates), rule="least_squares", momentum=momentum)
    place = estimate.value
    assert place is not None
    least = cost(found, place, momentum=momentum, models=models)
    for tried in np.linspace(-3, models + 2, 241):
        assert least <= cost(found, tried, momentum=momentum, models=models) + 1e-9


def test_a_run_that_goes_over_to_least_squares_uses_what_it_saw_before():
    rows, rates, found = references((0.25, 0.75), (0.0, 1.0)), np.array([0.5, 0.25]), []
    rules: list[CapabilityRule] = ["paper", "least_squares"]
    for before in rules:
        estimate = NO_CAPABILITY
        for rule in (before, before, rules[1]):
            estimate = estimate.after(rows, rates, rule=rule, momentum=0.9)
        found.append(estimate.value)
    assert found[0] == found[1]


def test_references_that_agree_on_a_batch_give_no_quotient():
    rate = np.array([0.5])
    for weak, strong in ((TINY, 0.0), (1.0, 1.0), (0.5, 0.5 + LEAST_GAP / 2), (0.5, 0.5 - LEAST_GAP / 2)):
        assert quotient(references((weak, strong)), rate) is None
    assert quotient(references((0.25, 0.25 + 2 * LEAST_GAP)), rate) is not None


# --- tags that tell profiles apart change nothing for a belief that makes nothing of tags ----------------------------

TAGS = ("a", "b")


def split(pool: Pool, of_tasks: list[int]) -> Pool:
    """Return the same tasks, whose tags tell them apart; `of_tasks`: for each, its tags as bits."""
    bits = np.array(of_tasks, np.uint32)
    tags = {tag: np.flatnonzero(bits >> np.uint32(bit) & 1).astype(np.int32) for bit, tag in enumerate(TAGS)}
    return Pool.of_tasks(pool.references[pool.profile_of], tags, TAGS)


def known_profiles(pool: Pool, profiles: int, other: Pool) -> int:
    """Return how many profiles of the other pool the tasks have that give this pool so many."""
    beyond = np.flatnonzero(pool.profile_of >= profiles)
    known = int(beyond[0]) if len(beyond) else len(pool)
    return int(other.profile_of[:known].max(initial=-1)) + 1


@given(stories(settings=bots_settings), st.data())
def test_the_belief_about_every_task_stays_the_same_bit_for_bit(story: Story, data):
    apart = split(
        story.pool, data.draw(st.lists(st.integers(0, 3), min_size=len(story.pool), max_size=len(story.pool)))
    )
    everyone = np.arange(len(apart), dtype=np.int32)
    one, other = fresh_state(story.settings, story.pool), fresh_state(story.settings, apart)
    for entry in story.entries:
        one, receipt = advance(one, entry, story.pool)
        profiles = known_profiles(story.pool, entry.profiles, apart)
        other, receipt_apart = advance(other, type(entry)(entry.seq, entry.epoch, profiles, entry.body), apart)
        assert structs.replace(receipt_apart, tags=receipt.tags) == receipt
        np.testing.assert_array_equal(
            beta_parameters(other.belief.distributions(apart, everyone)),
            beta_parameters(one.belief.distributions(story.pool, everyone)),
        )
