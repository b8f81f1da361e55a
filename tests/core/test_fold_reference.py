"""The fold against the published implementation's traces, and against the rule written slowly."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from bots_service.core.entries import Body, Entry, Report, SettingsChange
from bots_service.core.evidence import Evidence
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings, settings_from
from bots_service.core.state import advance, fresh_state
from tests.core.journals import DenseRun, Story, bots_settings, pool_of, report_of, stories
from tests.core.pools import beta_parameters, bots_belief

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


@pytest.mark.no_cover
@pytest.mark.parametrize("forgetting", [0.1, 0.5, 1.0])
def test_evidence_is_dropped_only_once_it_faded_and_none_of_its_step_can_come_late_and_soon_after(forgetting):
    pool, chosen = pool_of((0.25, 0.75), (0.25, 0.75)), run_settings(forgetting=forgetting)
    state, dense = fresh_state(chosen, pool), DenseRun(pool, chosen)
    left, useless_for = np.zeros(2), 0
    for number in range(350):
        body = report_of((0, 2.0, 2.0), (1, 1.0, 3.0)) if number == 0 else report_of((0, 2.0, 2.0))
        entry = Entry(number + 1, 0, pool.profiles, body)
        dense.take(entry)
        state, _ = advance(state, entry, pool)
        left = (1 - forgetting) * left if number else bots_belief(state).tried.counts_of(np.array([1], np.int32))[:, 0]
        useless_for += number >= 64 and np.abs(left).max() < 1e-9
        if useless_for in (0, 65):
            assert (1 in state.belief.own_tasks) == (useless_for == 0)
        if number % 10 == 0:
            assert_same_beliefs(state, dense)
    assert useless_for > 65
    assert state.belief.own_tasks.tolist() == [0]
    assert not state.belief.own_tasks.flags.writeable


def test_an_implied_observation_stands_for_as_many_rollouts_as_tasks_had_so_far_unless_the_settings_say_how_many():
    pool = pool_of((0.0, 1.0), (0.0, 0.5))
    bodies: list[Body] = [
        report_of((0, 1.0, 3.0)),  # m = 4 / 1
        report_of((0, 3.0, 5.0), (1, 0.0, 6.0)),  # m = (4 + 8 + 6) / 3
        report_of((0, 1.0, 1.0), close=False),  # nothing closes
        SettingsChange({"rollouts_per_task": 32}),
        report_of(close=True),
        SettingsChange({"rollouts_per_task": None}),
        report_of((0, 3.0, 1.0)),  # m = (18 + 2 + 4) / 5
    ]
    state, told = fresh_state(run_settings(), pool), []
    assert state.rollouts_per_task is None
    dense = DenseRun(pool, run_settings())
    for seq, body in enumerate(bodies, 1):
        entry = Entry(seq, 0, pool.profiles, body)
        dense.take(entry)
        state, receipt = advance(state, entry, pool)
        if receipt.closed:
            told.append((state.rollouts_per_task, bots_belief(state).past.steps[1, -1]))
        assert_same_beliefs(state, dense)
    wanted = [4.0, 18 / 3, 32.0, 24 / 5]
    assert [m for m, _ in told] == wanted
    assert [booked for _, booked in told] == pytest.approx([0.1 * m for m in wanted])
