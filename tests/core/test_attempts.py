"""How often each task was tried: what a run's state knows of it, against a plain count."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.arrays import FEW_ROWS, NO_TASKS, frozen
from bots_service.core.attempts import NO_ABORTS, NO_ATTEMPTS, NO_VISITS, Attempts
from bots_service.core.belief.bots import FADED, LEAST_SCALE, NO_TRIES, REMEMBERED, SETTLED_EVERY
from bots_service.core.entries import Report
from bots_service.core.evidence import NO_EVIDENCE, Evidence
from bots_service.core.run_settings import settings_from
from bots_service.core.state import RunState
from tests.core.journals import DenseRun, Story, evidence_of, pool_of, replay, report_of, stories

POOL = pool_of((0.25, 0.75), (0.5, 0.875), (0.25, 0.75))
KINDS = ["bots", "tracker"]


def counted(state: RunState) -> dict[int, tuple[int, float, float, int]]:
    """Return visits, rollouts, successes and last step of each task that was tried."""
    tasks, *columns = (column.tolist() for column in state.attempts.whole)
    return dict(zip(tasks, zip(*columns, strict=True), strict=True))


@given(stories(in_full=False))
def test_attempts_and_what_receipts_tell_of_new_tasks_are_those_of_the_closed_steps(story: Story):
    dense = DenseRun(story.pool, story.settings)
    state, receipts = story.replayed()
    for entry, receipt in zip(story.entries, receipts, strict=True):
        before = set(dense.attempts)
        dense.take(entry)
        now = set(dense.attempts) | ({task for task, *_ in dense.waiting} if not receipt.closed else set())
        assert receipt.new_tasks == (len(now - before) if isinstance(entry.body, Report) else 0)
        assert receipt.distinct_tasks == len(dense.attempts)
    assert counted(state) == {task: pytest.approx(one, rel=1e-12) for task, one in dense.attempts.items()}


def test_what_came_too_late_to_count_is_no_attempt():
    bodies = [report_of((0, 1.0, 1.0)), *[report_of(close=True)] * 64, report_of((1, 1.0, 1.0), made_at=0)]
    state = replay(POOL, bodies, settings_from({"belief": "bots"}))
    assert (state.open_step.expired, counted(state)) == (1, {0: (1, 2.0, 1.0, 1)})


def test_a_task_that_the_belief_forgot_is_still_known_to_have_been_tried():
    bodies = [report_of((2, 1.0, 1.0)), *[report_of((0, 1.0, 1.0))] * 127]
    state = replay(POOL, bodies, settings_from({"belief": "bots", "forgetting": 1.0, "implicit_weight": 0.0}))
    assert state.belief.own_tasks.tolist() == [0]
    assert counted(state) == {0: (127, 254.0, 127.0, 128), 2: (1, 2.0, 1.0, 1)}
    assert not state.fits(pool_of((0.25, 0.75), (0.5, 0.875)))


@given(st.lists(st.sets(st.integers(0, 11), max_size=6), max_size=12), st.integers(0, 12), st.data())
def test_attempts_are_the_same_wherever_they_were_settled(steps, settled_after, data):
    plain: dict[int, tuple[int, float, float, int]] = {}
    attempts, size = NO_ATTEMPTS, 12
    for number, tasks in enumerate(steps, start=1):
        counts = {task: data.draw(st.tuples(st.floats(0.1, 16.0), st.floats(0.0, 16.0))) for task in sorted(tasks)}
        asked = np.array(sorted(data.draw(st.sets(st.integers(0, size - 1)))), np.int32)
        assert attempts.never_tried(asked) == sum(task not in plain for task in asked.tolist())
        evidence = evidence_of(*((task, solved, failed) for task, (solved, failed) in counts.items()))
        attempts = attempts.with_step(evidence, number)
        for task, (solved, failed) in counts.items():
            visits, rollouts, successes, _ = plain.get(task, (0, 0.0, 0.0, 0))
            plain[task] = visits + 1, rollouts + (solved + failed), successes + solved, number
        if number == settled_after:
            attempts = Attempts(attempts.whole, NO_VISITS, NO_TASKS)
    everyone = np.arange(size, dtype=np.int32)
    wanted = [plain.get(task, (0, 0.0, 0.0, 0)) for task in range(size)]
    for row in (attempts.whole.of(everyone), attempts.of(everyone)):
        columns = (row.visits.tolist(), row.rollouts.tolist(), row.successes.tolist(), row.last_step.tolist())
        assert list(zip(*columns, strict=True)) == wanted


def test_many_recent_rows_are_settled():
    attempts = NO_ATTEMPTS
    for step in range(1, 4):
        attempts = attempts.with_step(evidence_of(*((task, 1.0, 1.0) for task in range(1000 * step))), step)
    assert (len(attempts.settled), len(attempts.recent)) == (3000, 0)
    assert attempts.of(np.array([0, 1500, 2999, 3000], np.int32)).visits.tolist() == [3, 2, 1, 0]


def test_aborts_in_a_row_are_counted_until_a_task_brings_rollouts():
    rng = np.random.default_rng(7)
    rows, aborts, in_a_row, last = NO_ABORTS, dict[int, int](), dict[int, int](), dict[int, int]()
    for step in range(200):
        aborted, tried = (rng.choice(40, rng.integers(0, 4), replace=False).astype(np.int32) for _ in range(2))
        rows = rows.after(aborted, tried, step)
        for task in aborted.tolist():
            aborts[task], in_a_row[task], last[task] = aborts.get(task, 0) + 1, in_a_row.get(task, 0) + 1, step
        in_a_row |= {task: 0 for task in tried.tolist() if task in aborts}
        tasks, *columns = (column.tolist() for column in rows)
        expected = {task: (aborts[task], in_a_row[task], last[task]) for task in sorted(aborts)}
        assert dict(zip(tasks, zip(*columns, strict=True), strict=True)) == expected


# --- the two tables of the tasks tried lately, against one dict that is rewritten at every step ----------------------

TRIED_POOL = 4000
ALL = np.arange(TRIED_POOL, dtype=np.int32)


class DictTried:
    """[a, b], the steps it was tried in and the last one that brought evidence, for each task ever tried."""

    def __init__(self) -> None:
        self.counts = np.zeros((2, TRIED_POOL))
        self.tried_in: dict[int, set[int]] = {}
        self.last_steps = np.zeros(TRIED_POOL, np.int32)

    def add(self, evidence: Evidence, unbooked, *, weight: float, lag: int, step: int) -> None:
        for place, task in enumerate(evidence.tasks.tolist()):
            seen = np.array([evidence.successes[place], evidence.failures[place]])
            steps = self.tried_in.setdefault(task, set())
            self.counts[:, task] += weight * (seen - (step - lag not in steps) * unbooked[:, place])
            steps.add(step - lag)
        self.last_steps[evidence.tasks] = step


def some_evidence(rng: np.random.Generator, count: int) -> tuple[Evidence, np.ndarray]:
    tasks = np.sort(rng.choice(TRIED_POOL, count, replace=False)).astype(np.int32)
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
        asked = rng.choice(TRIED_POOL, 100).astype(np.int32)
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
