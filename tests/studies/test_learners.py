import numpy as np
import pytest

from studies.environment import batch_of, binomial
from studies.learners import LEARNERS, Learner, SharedAbility

SEED = 100  # of no study


def learner(name: str) -> Learner:
    return LEARNERS[name](SEED)


def batch(tasks: np.ndarray, rate: float, rollouts: float = 16.0):
    solved = np.full(len(tasks), rate * rollouts)
    return batch_of(tasks.astype(np.int32), solved, rollouts - solved, (solved > 0) & (solved < rollouts))


def trained(environment: Learner, *, steps: int, choose) -> Learner:
    """Train on what `choose(success, rng)` takes of the pool."""
    rng = np.random.default_rng(0)
    for _ in range(steps):
        success = environment.success()
        tasks = np.sort(choose(success, rng)).astype(np.int32)
        environment.train(batch_of(tasks, *binomial(success[tasks], 16, rng)))
    return environment


@pytest.mark.parametrize("name", LEARNERS)
def test_pools_of_one_seed_are_equal_and_of_two_seeds_differ(name: str):
    kind = LEARNERS[name]
    first, again, other = kind(SEED), kind(SEED), kind(SEED + 1)
    assert first.success().tolist() == again.success().tolist()
    assert first.references.tolist() == again.references.tolist()
    assert first.references.tolist() != other.references.tolist()
    assert ((first.references >= 0) & (first.references <= 1)).all()
    assert len(first.references) == len(first.success())


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_nothing_is_learned_from_groups_without_a_signal(name: str, rate: float):
    environment = learner(name)
    before = environment.success().copy(), environment.accuracy()
    environment.train(batch(np.arange(32), rate))
    assert environment.success().tolist() == before[0].tolist()
    assert environment.accuracy() == before[1]


@pytest.mark.parametrize("name", LEARNERS)
def test_a_shuffle_learns(name: str):
    environment = learner(name)
    before = environment.accuracy()
    trained(environment, steps=200, choose=lambda p, rng: rng.choice(len(p), 32, replace=False))
    assert environment.accuracy() > before + 0.03


def test_shared_ability_lifts_each_task_by_its_sensitivity():
    environment = SharedAbility(SEED)
    before = environment.logits()
    environment.train(batch(np.arange(32), 0.5))
    lifted = environment.logits() - before
    assert lifted[32:] == pytest.approx(environment.sensitivity[32:] * 0.006, rel=1e-9)
    assert lifted[:32] == pytest.approx(environment.sensitivity[:32] * 0.006 + 0.05, rel=1e-9)
