"""The ceiling of the finetuning run: tasks by their true probability of being effective."""

from itertools import chain

import numpy as np
import pytest

from examples.finetune.oracle import LOOKED_EVERY, OracleChooser

ROLLOUTS = 8


def test_visits_are_in_proportion_to_the_true_chances() -> None:
    truth = np.array([0.0, 0.01, 0.05, 0.2, 0.5, 0.8, 0.97, 1.0] * 12)
    chances = 1 - truth**ROLLOUTS - (1 - truth) ** ROLLOUTS
    oracle, visits = OracleChooser(lambda: truth, ROLLOUTS, 1), np.zeros(len(truth))
    steps = 3_000
    for _ in range(steps):
        choice = oracle.select(16)
        assert len(set(choice.places)) == 16
        assert choice.means == pytest.approx(truth[choice.places])
        assert choice.chances == pytest.approx(chances[choice.places])
        visits[choice.places] += 1
    passes = steps * 16 / chances.sum()
    # Each pass takes a task or does not: a binomial count; the twelve tasks of one truth have twelve of them.
    found = visits.reshape(12, 8).sum(axis=0)
    expected, chance = 12 * passes * chances[:8], chances[:8]
    # A pass may begin within a selection, which has no task twice: a little less for the most visited ones.
    assert np.abs(found - expected) == pytest.approx(0, abs=5 * np.sqrt(12 * passes * chance * (1 - chance)).max() + 12)
    assert found[0] == found[7] == 0


def test_no_task_comes_twice_in_a_pass() -> None:
    truth = np.full(32, 0.5)
    oracle = OracleChooser(lambda: truth, 1_000, 2)  # all are effective for certain
    passes = [oracle.select(8).places for _ in range(8)]
    assert sorted(chain(*passes[:4])) == sorted(chain(*passes[4:])) == list(range(32))
    assert passes[:4] != passes[4:]


def test_where_a_pass_gives_too_few_the_rest_come_by_their_chances() -> None:
    truth = np.array([0.0] * 20 + [1e-3] * 4)
    choice = OracleChooser(lambda: truth, ROLLOUTS, 3).select(4)
    assert sorted(choice.places) == [20, 21, 22, 23]  # all others have no chance at all


def test_it_looks_at_the_truth_now_and_then() -> None:
    looks = []

    def truth() -> np.ndarray:
        looks.append(0)
        return np.full(16, 0.01 * len(looks))

    oracle = OracleChooser(truth, ROLLOUTS, 4)
    seen = [oracle.select(2).means[0] for _ in range(2 * LOOKED_EVERY + 1)]
    assert seen == pytest.approx([0.01] * LOOKED_EVERY + [0.02] * LOOKED_EVERY + [0.03])
    assert oracle.believed() == pytest.approx(0.03)
