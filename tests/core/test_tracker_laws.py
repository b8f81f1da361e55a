"""What the tracker learns: how tasks differ, how fast they change, which way the model moves; and late evidence."""

import numpy as np
import pytest
from hypothesis import given
from msgspec import structs

from bots_service.core import arrays as rows
from bots_service.core.belief import tracker as tracker_filter
from bots_service.core.belief.distributions import LogitNormals
from bots_service.core.belief.tracker import TrackerBelief, moments
from bots_service.core.entries import Body
from bots_service.core.evidence import ClosingStep
from bots_service.core.run_settings import settings_from
from bots_service.core.state import RunState, fresh_state, parts_of
from tests.core.journals import Piece, Story, evidence_of, pool_of, replay, report_of, stories, tracker_settings

SETTINGS = settings_from({"belief": "tracker"})
POOL = pool_of(*[(0.25, 0.75)] * 40, (0.5, 0.5))
TRIALS = 64.0
ALL = np.arange(len(POOL), dtype=np.int32)


def tracker(state: RunState) -> TrackerBelief:
    assert isinstance(state.belief, TrackerBelief)
    return state.belief


def variances_after(*bodies: Body) -> tuple[float, float, float]:
    """tau^2, kappa and q."""
    return tracker(replay(POOL, bodies, SETTINGS)).variances.estimates


def told(state: RunState, *tasks: int) -> LogitNormals:
    return tracker(state).distributions(POOL, np.array(tasks, np.int32))


def solved(tasks: range, rates: list[float]) -> list[Piece]:
    """Every task solved at the rate whose turn it is."""
    return [
        (task, rates[turn % len(rates)] * TRIALS, TRIALS - rates[turn % len(rates)] * TRIALS)
        for turn, task in enumerate(tasks)
    ]


def test_untried_tasks_may_differ_as_much_as_tried_ones_did():
    alike = variances_after(report_of(*solved(range(40), [0.5])))
    different = variances_after(report_of(*solved(range(40), [0.05, 0.95])))
    assert alike[0] < variances_after()[0] < different[0]


def test_tasks_change_as_fast_as_they_did():
    steady = [report_of(*solved(range(20), [0.1, 0.9]))] * 6
    jumping = [report_of(*solved(range(20), rates)) for rates in ([0.1, 0.9], [0.9, 0.1]) * 3]
    assert variances_after(*steady)[1] < variances_after(*steady[:1])[1] < variances_after(*jumping)[1]


def test_the_ability_changes_as_fast_as_it_did():
    steady = [report_of(*solved(range(40), [0.5]))] * 6
    jumping = [report_of(*solved(range(40), [rate])) for rate in (0.1, 0.9) * 3]
    assert variances_after(*steady)[2] < variances_after()[2] < variances_after(*jumping)[2]


def test_a_model_that_improves_is_expected_to_improve_while_nothing_is_reported():
    rising = [report_of(*solved(range(step, 40, 8), [0.1 + 0.02 * step])) for step in range(40)]
    state = replay(POOL, rising, SETTINGS)
    later = replay(POOL, [report_of(close=True)] * 10, SETTINGS, state)
    assert tracker(state).effects.mean[-1] > 0
    assert (told(later, 0, 40).location > told(state, 0, 40).location).all()
    assert (told(later, 0, 40).variance > told(state, 0, 40).variance).all()


def test_what_is_known_of_a_task_is_less_certain_with_each_step_and_never_as_if_it_was_never_tried():
    state = replay(POOL, [report_of((0, 8.0, 8.0))], SETTINGS)
    variances = []
    for _ in range(5):
        variances.append(float(told(state, 0).variance[0]))
        state = replay(POOL, [report_of(close=True)], SETTINGS, state)
    assert variances == sorted(set(variances))
    assert tracker(state).own_tasks.tolist() == [0]


@pytest.mark.parametrize("lag", [1, 64, 65, 500])
def test_evidence_counts_however_late_it_comes(lag: int):
    state = replay(POOL, [report_of((1, 8.0, 8.0)), *[report_of(close=True)] * lag], SETTINGS)
    late = replay(POOL, [report_of((0, 16.0, 0.0), made_at=state.step - lag)], SETTINGS, state)
    without = replay(POOL, [report_of(close=True)], SETTINGS, state)
    assert (late.totals.late, late.totals.expired) == (1, 0)
    assert told(late, 0).location > told(without, 0).location
    assert told(late, 0).variance < told(without, 0).variance


def test_how_many_rollouts_an_implied_observation_stands_for_changes_nothing():
    bodies = [report_of((0, 3.0, 1.0), (40, 1.0, 9.0)), report_of((1, 4.0, 0.0), made_at=0)]
    one = tracker(replay(POOL, bodies, SETTINGS))
    other = tracker(replay(POOL, bodies, structs.replace(SETTINGS, rollouts_per_task=1.0)))
    pairs = zip(parts_of(one), parts_of(other), strict=True)
    assert all(np.array_equal(part, another) for part, another in pairs if isinstance(part, np.ndarray))


@pytest.mark.parametrize("rollouts", [1e6, 1e12, 1e15])
@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_a_step_may_bring_more_rollouts_of_a_task_than_any_reports_could(rollouts: float, rate: float):
    state = fresh_state(SETTINGS, POOL)
    evidence = evidence_of((0, rate * rollouts, rollouts - rate * rollouts), (40, rollouts, 0.0))
    belief = tracker(state)
    for number in range(1, 6):
        belief = belief.fold(POOL, ClosingStep(number, ((0, evidence),), evidence, rollouts), SETTINGS)
    assert np.isfinite(belief.effects.covariance).all()
    mean = belief.distributions(POOL, ALL).mean
    assert mean[0] == pytest.approx(rate, abs=0.02)
    assert mean[40] > 0.98


@given(stories(settings=tracker_settings))
def test_where_rows_stand_changes_nothing_that_is_believed(story: Story):
    """A tracker with many tried tasks keeps most of their rows in a table that is rarely copied."""
    together = tracker(story.replayed()[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "FEW_ROWS", 1)
        apart = tracker(story.replayed()[0])
    assert len(apart.residuals.recent) <= 1
    for one, other in zip(together.residuals.whole, apart.residuals.whole, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(together.effects.mean, apart.effects.mean)
    np.testing.assert_array_equal(together.effects.covariance, apart.effects.covariance)
    tasks = np.arange(len(story.pool), dtype=np.int32)
    told, wanted = (one.distributions(story.pool, tasks) for one in (apart, together))
    np.testing.assert_array_equal(told.location, wanted.location)
    np.testing.assert_array_equal(told.variance, wanted.variance)


def test_a_search_for_a_mode_that_is_cut_short_still_gives_moments(monkeypatch):
    prior, counts = (np.zeros(2), np.array([1.0, 4.0])), (np.array([3.0, 0.0]), np.array([500.0, 2.0]))
    mean, variance = moments(*prior, *counts)
    monkeypatch.setattr(tracker_filter, "FREE_STEPS", 1)
    monkeypatch.setattr(tracker_filter, "HELD_STEPS", 1)
    cut_mean, cut_variance = moments(*prior, *counts)
    np.testing.assert_allclose(cut_mean, mean, atol=0.01)
    np.testing.assert_allclose(cut_variance, variance, rtol=0.05)
