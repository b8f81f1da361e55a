"""Shortcuts of a fold give the bits that the long way gives, one task and one number after the other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.arrays import frozen
from bots_service.core.belief.tried import Rows, Tried, no_rows, no_tries
from bots_service.core.codec import encode_state
from bots_service.core.entries import Entry
from bots_service.core.evidence import sum_by_task
from bots_service.core.run_settings import settings_from
from bots_service.core.state import advance, fresh_state
from tests.core.journals import evidence_of, pool_of, report_of

# --- what was asked for last -----------------------------------------------------------------------------------------

few_tasks = st.lists(st.integers(0, 30), min_size=1, max_size=12, unique=True).map(sorted)


def asked(tasks: list[int]) -> np.ndarray:
    return frozen(np.array(tasks, np.int32))


def with_evidence(tried: Tried, tasks: list[int], step: int, *, kept: float = 0.5) -> Tried:
    evidence = sum_by_task(evidence_of(*((task, float(task), 1.0 + step) for task in tasks)))
    aged = tried.aged(kept, step=step)
    return aged.with_counts(evidence, np.full((2, len(tasks)), 0.1), weight=1.0, lag=0, step=step)


def same_rows(found: Rows, expected: Rows) -> bool:
    return all(own.tobytes() == other.tobytes() for own, other in zip(found, expected, strict=True))


def told_first(tried: Tried, tasks: np.ndarray) -> Rows:
    """What rows say that nobody asked before."""
    return Tried(tried.settled, tried.recent, tried.scale).of(tasks)


@given(st.lists(st.tuples(few_tasks, few_tasks, st.sampled_from([0.5, 1e-30])), min_size=1, max_size=8))
def test_rows_that_were_asked_for_before_are_those_that_stand_there_now(steps):
    tried = no_tries()
    for step, (wanted, reported, kept) in enumerate(steps, start=1):
        tasks = asked(wanted)
        assert same_rows(tried.of(tasks), told_first(tried, tasks))
        assert same_rows(tried.of(tasks), told_first(tried, tasks))
        aged = tried.aged(kept, step=step)
        assert same_rows(aged.of(tasks), told_first(aged, tasks))
        tried = with_evidence(tried, reported, step, kept=kept)
        assert same_rows(tried.of(tasks), told_first(tried, tasks))


def test_a_fold_finds_the_rows_of_its_step_once():
    tasks = asked([1, 4])
    tried = with_evidence(no_tries(), [1, 2], 1)
    found = tried.of(tasks)
    assert tried.of(tasks) is found
    assert tried.aged(0.5, step=2).of(tasks) is found
    assert tried.of(asked([1, 4])) is not found
    settled = tried.aged(0.5, step=64)  # where all counts change their scale
    assert settled.of(tasks) is not found
    np.testing.assert_array_equal(settled.counts_of(tasks), 0.5 * tried.counts_of(tasks))


def test_rows_of_tasks_that_somebody_may_change_are_looked_for_again():
    tasks, tried = np.array([1, 4], np.int32), with_evidence(no_tries(), [1, 2], 1)
    assert tried.of(tasks).last_step.tolist() == [1, 0]
    tasks[:] = [0, 2]
    assert tried.of(tasks).last_step.tolist() == [0, 1]


def test_no_rows_say_nothing():
    rows = Tried(no_rows(), no_rows(), 1.0).of(asked([3]))
    assert [column.tolist() for column in rows] == [[3], [[0.0], [0.0]], [0], [0]]


# --- implied counts, where profiles are few --------------------------------------------------------------------------


@pytest.mark.parametrize("models", [0, 1, 2, 3])
def test_implied_counts_of_few_profiles_are_those_of_each_task(models):
    """With a profile that was appended since, the fold computes those of the step's tasks by themselves."""
    rng = np.random.default_rng(models)
    rows = [tuple(row) for row in np.sort(rng.random((40, models)), axis=1).tolist()]
    rows[7] = (float("nan"),) * models
    pool, grown = pool_of(*rows), pool_of(*rows, *([(0.5,) * models] if models else []))
    state = other = fresh_state(settings_from({"belief": "bots"}), pool)
    for seq in range(1, 8):
        tasks = rng.choice(40, 12, replace=False).tolist()
        body = report_of(*((task, float(rng.integers(0, 17)), 1.0) for task in tasks))
        entry = Entry(seq, 0, pool.profiles, body)
        (state, receipt), (other, its) = advance(state, entry, pool), advance(other, entry, grown)
        assert encode_state(state) == encode_state(other)
        assert receipt == its


# --- the parts of a report -------------------------------------------------------------------------------------------


def test_what_a_step_closes_with_can_not_be_changed():
    for pieces in ([(3, 1.0, 0.0), (1, 2.0, 2.0)], [(3, 1.0, 0.0), (3, 2.0, 2.0)]):
        whole = sum_by_task(evidence_of(*pieces))
        with pytest.raises(ValueError, match="read-only"):
            whole.tasks[0] = 0
        assert not whole.successes.flags.writeable
        assert len(whole) == len({task for task, *_ in pieces})
