"""The two tables of the tasks tried lately, against one dict that is rewritten at every step."""

import numpy as np
import pytest

from bots_service.core.arrays import FEW_ROWS, frozen
from bots_service.core.belief.bots import FADED, LEAST_SCALE, NO_TRIES, REMEMBERED, SETTLED_EVERY
from bots_service.core.evidence import NO_EVIDENCE, Evidence

POOL = 4000
ALL = np.arange(POOL, dtype=np.int32)


class DictTried:
    """[a, b], the steps it was tried in and the last one that brought evidence, for each task ever tried."""

    def __init__(self) -> None:
        self.counts = np.zeros((2, POOL))
        self.tried_in: dict[int, set[int]] = {}
        self.last_steps = np.zeros(POOL, np.int32)

    def add(self, evidence: Evidence, unbooked, *, weight: float, lag: int, step: int) -> None:
        for place, task in enumerate(evidence.tasks.tolist()):
            seen = np.array([evidence.successes[place], evidence.failures[place]])
            steps = self.tried_in.setdefault(task, set())
            self.counts[:, task] += weight * (seen - (step - lag not in steps) * unbooked[:, place])
            steps.add(step - lag)
        self.last_steps[evidence.tasks] = step


def some_evidence(rng: np.random.Generator, count: int) -> tuple[Evidence, np.ndarray]:
    tasks = np.sort(rng.choice(POOL, count, replace=False)).astype(np.int32)
    solved = rng.integers(0, 17, count).astype(float)
    return Evidence(frozen(tasks), frozen(solved), frozen(16 - solved), np.ones(count, bool)), rng.random((2, count))


@pytest.mark.no_cover
@pytest.mark.parametrize("kept", [1.0, 0.9, 1e-9, 0.0])
def test_two_tables_tell_what_one_would_however_late_evidence_comes(kept):
    rng, tried, plain = np.random.default_rng(3), NO_TRIES, DictTried()
    for step in range(1, 2 * REMEMBERED):
        lags = rng.integers(1, min(step, REMEMBERED + 1), 2).tolist() if step > 1 else []
        for lag in sorted(set(lags), reverse=True):
            late, unbooked = some_evidence(rng, 30)
            tried = tried.with_counts(late, unbooked, weight=kept ** (lag - 1), lag=lag, step=step)
            plain.add(late, unbooked, weight=kept ** (lag - 1), lag=lag, step=step)
        evidence, unbooked = some_evidence(rng, 250 if step % 5 else 0)
        tried = tried.aged(kept, step=step).with_counts(evidence, unbooked, weight=1.0, lag=0, step=step)
        plain.counts *= kept
        plain.add(evidence, unbooked, weight=1.0, lag=0, step=step)
        asked = rng.choice(POOL, 100).astype(np.int32)
        for tasks in (asked, ALL):
            np.testing.assert_allclose(tried.counts_of(tasks), plain.counts[:, tasks], rtol=0, atol=1e-7)
            known, lately = tried.of(tasks).last_step, plain.last_steps[tasks] > max(step - REMEMBERED, 0)
            assert (known[lately] > 0).all()
            np.testing.assert_array_equal(known[known > 0], plain.last_steps[tasks][known > 0])
        assert tried.scale >= LEAST_SCALE
    assert len(tried.settled) > 0
    assert len(tried.recent) > 0


def test_a_step_copies_no_settled_row_until_many_changed():
    rng, tried, settled_at = np.random.default_rng(4), NO_TRIES, []
    for step in range(1, SETTLED_EVERY):
        before = tried
        tried = tried.aged(0.9, step=step)
        if tried.settled is not before.settled:
            settled_at.append(step)
            assert len(before.recent) > FEW_ROWS
            assert (len(tried.recent), tried.scale) == (0, 1.0)
        tried = tried.with_counts(*some_evidence(rng, 200), weight=1.0, lag=0, step=step)
    assert 5 < len(settled_at) < 13


def test_what_faded_and_was_not_tried_for_64_steps_is_dropped_when_rows_are_settled():
    tried = NO_TRIES.with_counts(*some_evidence(np.random.default_rng(6), 5), weight=1.0, lag=0, step=1)
    another, later = Evidence(frozen(ALL[-1:]), np.ones(1), np.ones(1), np.ones(1, bool)), REMEMBERED + 1
    rows = []
    for step in range(2, 2 * SETTLED_EVERY + 1):
        brought = another if step == later else NO_EVIDENCE
        tried = tried.aged(0.5, step=step).with_counts(brought, np.zeros((2, 1)), weight=1.0, lag=0, step=step)
        rows.append(len(tried.whole))
    assert rows == [5] * (later - 2) + [6] * (2 * SETTLED_EVERY - later) + [1]
    assert 16 * 0.5**REMEMBERED < FADED
