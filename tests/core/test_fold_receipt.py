"""What a receipt says of evidence, against plain Python."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.evidence import NOTHING_OPEN
from bots_service.core.receipt import BINS, calibration, mean_pass_rate, prediction_error, totals_of
from tests.core.journals import evidence_of

quarters = st.integers(0, 64).map(lambda count: count / 4)
outcomes = st.lists(st.tuples(quarters, quarters).filter(any), max_size=30)


@given(outcomes, st.data())
def test_the_sums_of_a_step_count_tasks_rollouts_and_successes(counts, data):
    flags = data.draw(st.lists(st.booleans(), min_size=len(counts), max_size=len(counts)))
    evidence = evidence_of(*((task, s, f) for task, (s, f) in enumerate(counts)), effective=flags)
    told = totals_of(evidence, NOTHING_OPEN, 0)
    assert told.reported == len(counts) == told.effective + told.all_solved + told.none_solved
    assert told.effective == sum(flags)
    alike = [(s, f) for (s, f), flag in zip(counts, flags, strict=True) if not flag]
    assert told.all_solved == sum(s / (s + f) >= 0.5 for s, f in alike)
    assert (told.rollouts, told.successes) == (sum(s + f for s, f in counts), sum(s for s, _ in counts))
    rates = [s / (s + f) for s, f in counts]
    assert mean_pass_rate(evidence) == (pytest.approx(sum(rates) / len(rates)) if rates else None)


@given(outcomes.filter(any), st.data())
def test_prediction_errors_are_means_over_rollouts(counts, data):
    means = data.draw(st.lists(st.floats(1e-6, 1 - 1e-6), min_size=len(counts), max_size=len(counts)))
    evidence = evidence_of(*((task, s, f) for task, (s, f) in enumerate(counts)))
    brier, log_loss = prediction_error(np.array(means), evidence)
    rollouts = sum(s + f for s, f in counts)
    rows = [(s, f, p) for (s, f), p in zip(counts, means, strict=True)]
    assert brier == pytest.approx(sum(s * (1 - p) ** 2 + f * p**2 for s, f, p in rows) / rollouts)
    assert log_loss == pytest.approx(-sum(s * math.log(p) + f * math.log1p(-p) for s, f, p in rows) / rollouts)


def test_without_evidence_nothing_was_predicted():
    assert prediction_error(np.empty(0), evidence_of()) == (None, None)
    assert calibration(np.empty(0), evidence_of()) is None


@given(outcomes.filter(any), st.data())
def test_a_calibration_adds_up_each_bin(counts, data):
    edges = st.sampled_from([place / BINS for place in range(1, BINS + 1)])
    means = data.draw(st.lists(st.floats(1e-6, 1) | edges, min_size=len(counts), max_size=len(counts)))
    shown = calibration(np.array(means), evidence_of(*((task, s, f) for task, (s, f) in enumerate(counts))))
    assert shown is not None
    rows = [(min(int(p * BINS), BINS - 1), s + f, p * (s + f), s) for (s, f), p in zip(counts, means, strict=True)]
    for place in range(BINS):
        own = [row[1:] for row in rows if row[0] == place]
        expected = [sum(column) for column in zip(*own, strict=True)] or [0.0] * 3
        assert [shown.rollouts[place], shown.predicted[place], shown.solved[place]] == pytest.approx(expected)
