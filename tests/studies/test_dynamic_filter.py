"""DAPO's filter in a trial: it trains on effective groups alone, and pays for all others."""

import numpy as np
import pytest

from studies.environment import Batch, batch_of
from studies.trial import filtered, run_trial


def batch(tasks: list[int], successes: list[float]) -> Batch:
    solved = np.array(successes)
    return batch_of(np.array(tasks, np.int32), solved, 4 - solved, (solved > 0) & (solved < 4))


class Pool:
    """Its even tasks are always solved, its odd ones half of the time; it keeps what it is trained on."""

    name, reference_models, tags, steps = "pool", (), None, 10
    references = np.empty((64, 0))

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def success(self):
        return np.where(np.arange(64) % 2, 0.5, 1.0)

    def accuracy(self) -> float:
        return float(self.success().mean())

    def train(self, batch: Batch) -> None:
        self.batches.append(batch)


class InTurn:
    """Takes task after task."""

    def __init__(self) -> None:
        self.place, self.reported = 0, 0

    def select(self, count: int):
        tasks = np.arange(self.place, self.place + count) % 64
        self.place += count
        return tasks.astype(np.int32)

    def report(self, batch: Batch) -> None:
        self.reported += len(batch)

    def means(self):
        return None


def test_the_first_effective_groups_are_kept_each_task_once():
    batches = [batch([0, 3, 5], [4, 2, 1]), batch([3, 7, 9], [1, 0, 3]), batch([1, 2, 4], [2, 2, 2])]
    kept = filtered(batches, 4)
    assert kept.tasks.tolist() == [1, 3, 5, 9]
    assert kept.successes.tolist() == [2, 2, 1, 3]
    assert kept.effective.all()
    assert filtered(batches, 2).tasks.tolist() == [3, 5]


def test_without_an_effective_group_the_last_batch_is_trained_on():
    batches = [batch([0, 1], [4, 4]), batch([2, 3], [0, 4])]
    assert filtered(batches, 2) is batches[1]


def trial(*, rounds: int):
    pool, method = Pool(), InTurn()
    rng = np.random.default_rng(0)
    measures = run_trial(pool, method, steps=40, count=8, rollouts=16, rng=rng, rounds=rounds)
    return pool, method, measures


def test_it_trains_on_full_batches_and_pays_for_all_groups():
    pool, method, measures = trial(rounds=8)
    assert all(len(batch) == 8 and batch.effective.all() for batch in pool.batches)
    assert len(pool.batches) == measures.steps == 40
    assert measures.rollouts == 16 * method.reported == measures.rollouts_spent[-1]
    assert measures.rollouts_spent[0] == 0
    # Half of the groups are effective but for one in 2^15: about two rounds for each batch.
    assert measures.rollouts == pytest.approx(2 * 40 * 8 * 16, rel=0.05)
    assert measures.effective_task_ratio == pytest.approx(0.5, abs=0.01)


def test_it_gives_up_after_so_many_rounds():
    pool, method, measures = trial(rounds=1)
    assert measures.rollouts == 40 * 8 * 16
    assert all(batch.effective.sum() == 4 for batch in pool.batches)
    pool, method, measures = trial(rounds=2)
    assert method.reported <= 2 * 40 * 8
