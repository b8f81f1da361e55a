"""A probe: only the order of its values counts, and the tracker trusts it as far as evidence tells."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bots_service.core.arrays import MOST_SCORE, SCORE_PARTS, LayeredRows, frozen
from bots_service.core.belief.tracker import FIRST_VARIANCES, NO_RESIDUALS, Effects, Residuals, TrackerBelief
from bots_service.core.entries import Body, Entry, Probe, Report
from bots_service.core.evidence import Evidence
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings, settings_from
from bots_service.core.state import RunState, advance, fresh_state
from bots_service.errors import InvalidSettingsError
from tests.core.journals import pool_of, replay, report_of

SIZE = 400
LOGITS = np.random.default_rng(5).normal(0, 2, SIZE)
TRUTH = 1 / (1 + np.exp(-LOGITS))
POOL = Pool.of_tasks(np.empty((SIZE, 0)))
ALL = np.arange(SIZE, dtype=np.int32)
NOISE = np.random.default_rng(6).normal(size=SIZE)


def probe(values: np.ndarray, tasks: np.ndarray = ALL) -> Probe:
    return Probe.of(tasks, values)


def tracker(state: RunState) -> TrackerBelief:
    assert isinstance(state.belief, TrackerBelief)
    return state.belief


# --- scores ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("same", [lambda x: x, np.exp, lambda x: 1e300 * x, lambda x: np.where(x == x.max(), 1e308, x)])
def test_only_the_order_of_values_counts_and_turned_round_it_turns_the_scores_round(same):
    scores = probe(LOGITS).scores
    assert probe(same(LOGITS)).scores.tolist() == scores.tolist()
    assert np.abs(scores + probe(-LOGITS).scores).max() <= 2  # no value has 0, which is that of other tasks


@given(st.lists(st.sampled_from([0.0, 0.25, 1.0, -3.0]) | st.floats(allow_nan=False, allow_infinity=False), min_size=2))
def test_equal_values_have_one_score_and_greater_ones_no_smaller_one(listed: list[float]):
    values = np.array(listed)
    if (values == values[0]).all():
        return
    scores = probe(values, np.arange(len(values), dtype=np.int32)).scores
    order = values.argsort()
    assert (np.diff(scores[order].astype(int)) >= 0).all()
    assert len(set(scores.tolist())) <= len(set(listed))
    assert scores.all()


def test_scores_have_mean_0_and_standard_deviation_1_and_those_of_other_tasks_are_0():
    scores = probe(LOGITS[::2], ALL[::2]).scores
    assert len(scores) == SIZE - 1
    assert not scores[1::2].any()
    assert scores[::2].mean() == pytest.approx(0, abs=0.5)
    assert scores[::2].std() == pytest.approx(SCORE_PARTS, rel=0.02)
    assert abs(probe(np.arange(1e6), np.arange(10**6, dtype=np.int32)).scores).max() == MOST_SCORE


# --- what the tracker says, against every number of it written out ---------------------------------------------------


@pytest.mark.parametrize("models", [0, 2])
@pytest.mark.parametrize("tasks", [3, 12])
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_what_is_said_of_tasks_is_what_effects_and_residuals_say(tasks: int, models: int, seed: int):
    rng = np.random.default_rng(seed)
    pool = pool_of(*rng.integers(0, 17, (tasks, models)) / 16)
    scores = rng.integers(-127, 128, int(rng.integers(1, tasks + 1))).astype(np.int8)
    size = len(pool.known.names) + 3
    root = rng.normal(size=(size, size))
    effects = Effects(rng.normal(size=size), root @ root.T, rng.random(size))
    tried = np.flatnonzero(rng.random(tasks) < 0.5).astype(np.int32)
    ints = np.full(len(tried), 2, np.int32)
    rows = Residuals(tried, rng.normal(size=len(tried)), 0.1 + rng.random(len(tried)), ints, ints, ints > 9)
    belief = TrackerBelief(7, effects, FIRST_VARIANCES, LayeredRows(rows, NO_RESIDUALS), scores)

    tau2, kappa, _, _ = FIRST_VARIANCES.estimates
    everything, wanted = np.arange(tasks, dtype=np.int32), []
    for task in everything.tolist():
        score = scores[task] / 32 if task < len(scores) else 0.0
        practice = np.log(3.0) if task in tried else 0.0
        phi = np.array([*pool.known.features[:, pool.profile_of[task]], score, practice, 0.0])
        row = np.flatnonzero(tried == task)
        mean, variance = (rows.mean[row[0]], rows.variance[row[0]] + 5 * kappa) if len(row) else (0.0, tau2)
        wanted.append((phi @ effects.mean + mean, phi @ effects.covariance @ phi + variance))
    told = belief.distributions(pool, everything)
    np.testing.assert_allclose(np.transpose([told.location, told.variance]), wanted, rtol=1e-12, atol=1e-12)

    own, said = belief.own_tasks, belief.own_distributions(pool)
    assert own.tolist() == sorted({*tried.tolist(), *np.flatnonzero(scores).tolist()})
    np.testing.assert_array_equal([said.location, said.variance], [told.location[own], told.variance[own]])
    shared = belief.profile_distributions(pool)
    alone = np.setdiff1d(everything, own)
    np.testing.assert_array_equal(shared.location[pool.profile_of[alone]], told.location[alone])


# --- what it learns --------------------------------------------------------------------------------------------------


def trained(*probes: tuple[int, Probe], steps: int = 20, seed: int = 1, truth: np.ndarray = TRUTH) -> RunState:
    """Return the run after steps with 16 rollouts of each of 16 tasks; each probe comes in front of a step."""
    bodies: list[Body] = []
    rng = np.random.default_rng(seed)
    for step in range(steps):
        bodies += [one for at, one in probes if at == step]
        tasks = np.sort(rng.choice(SIZE, 16, replace=False)).astype(np.int32)
        solved = rng.binomial(16, truth[tasks]).astype(float)
        effective = (solved > 0) & (solved < 16)
        bodies.append(Report(Evidence(*map(frozen, (tasks, solved, 16.0 - solved, effective))), None, None))
    return replay(POOL, bodies, RunSettings())


def untried_loss(state: RunState) -> float:
    belief = tracker(state)
    untried = np.setdiff1d(ALL, belief.residuals.whole.tasks)
    mean = belief.distributions(POOL, untried).mean
    return float(-(TRUTH[untried] * np.log(mean) + (1 - TRUTH[untried]) * np.log1p(-mean)).mean())


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_probe_that_tells_something_is_trusted_whatever_its_sign(sign: float):
    state, bare = trained((0, probe(sign * (LOGITS + 2 * NOISE)))), trained()
    assert sign * state.belief.estimates(POOL)["probe_slope"] > 1
    assert untried_loss(state) < untried_loss(bare) - 0.1


def test_a_probe_that_tells_nothing_costs_next_to_nothing():
    costs = []
    for seed in range(8):
        noise = np.random.default_rng(100 + seed).normal(size=SIZE)
        costs.append(untried_loss(trained((0, probe(noise)), seed=seed)) - untried_loss(trained(seed=seed)))
    assert np.mean(costs) < 0.002


def test_a_probe_changes_no_expectation_before_the_next_report():
    before = trained()
    after = replay(POOL, [probe(LOGITS)], RunSettings(), before)
    expected, found = (tracker(one).distributions(POOL, ALL).location for one in (before, after))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_newer_probe_keeps_the_slope_and_the_scores_of_tried_tasks():
    state = trained((0, probe(LOGITS)), steps=5)
    slope, tried = state.belief.estimates(POOL)["probe_slope"], tracker(state).residuals.whole.tasks
    renewed = tracker(replay(POOL, [probe(NOISE[:300], ALL[:300])], RunSettings(), state))
    assert renewed.estimates(POOL)["probe_slope"] == slope
    expected = np.zeros(SIZE, np.int8)
    expected[:300] = probe(NOISE[:300], ALL[:300]).scores
    expected[tried] = probe(LOGITS).scores[tried]
    assert renewed.probe.tolist() == expected.tolist()


def test_a_task_that_is_appended_later_follows_its_profile():
    state = trained((0, probe(LOGITS)))
    grown, more = Pool.of_tasks(np.empty((SIZE + 3, 0))), np.arange(SIZE, SIZE + 3, dtype=np.int32)
    told, shared = state.belief.distributions(grown, more), state.belief.profile_distributions(grown)
    assert told.mean.tolist() == [shared.mean[0]] * 3
    assert not state.fits(Pool.of_tasks(np.empty((SIZE - 1, 0))))
    later, _ = advance(state, Entry(state.seq + 1, 0, 1, report_of((SIZE + 1, 8.0, 8.0))), grown)
    assert SIZE + 1 in later.belief.own_tasks


def test_bots_refuses_a_probe_and_names_the_belief_that_takes_one():
    state = fresh_state(settings_from({"belief": "bots"}), POOL)
    with pytest.raises(InvalidSettingsError, match="a run with the belief 'tracker'"):
        advance(state, Entry(1, 0, 1, probe(LOGITS)), POOL)
