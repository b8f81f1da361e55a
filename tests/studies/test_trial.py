"""What a trial measures, computed again in the plain way; and DAPO's filter, which pays for what it drops."""

import numpy as np
import pytest
from scipy.special import logit

from studies.environment import Batch
from studies.trial import CLIP, run_trial

STEPS, COUNT, ROLLOUTS, TASKS = 47, 6, 8, 30


class Rising:
    """Its success rises from step to step, whatever it is trained on."""

    name, reference_models, tags, steps = "rising", (), None, STEPS
    references = np.empty((TASKS, 0))

    def __init__(self) -> None:
        self.step = 0

    def success(self):
        return np.linspace(0, 1, TASKS) ** (2 - self.step / STEPS)

    def accuracy(self) -> float:
        return float(self.success().mean())

    def train(self, batch: Batch) -> None:
        self.step += 1


class Guessing:
    """Chooses at random, predicts at random, and remembers all of it."""

    def __init__(self, *, has_belief: bool = True) -> None:
        self.rng, self.has_belief = np.random.default_rng(5), has_belief
        self.batches: list[Batch] = []
        self.predicted: list[np.ndarray] = []

    def select(self, count: int):
        return self.rng.choice(TASKS, count, replace=False).astype(np.int32)

    def report(self, batch: Batch) -> None:
        self.batches.append(batch)

    def means(self):
        if not self.has_belief:
            return None
        self.predicted.append(self.rng.random(TASKS))
        return self.predicted[-1]


def trial(**options):
    method = Guessing(**options)
    rng = np.random.default_rng(1)
    return method, run_trial(Rising(), method, steps=STEPS, count=COUNT, rollouts=ROLLOUTS, rng=rng)


def success_before(step: int):
    environment = Rising()
    environment.step = step
    return environment.success()


def test_choice_is_measured_as_defined():
    method, measures = trial()
    chosen = [success_before(step)[batch.tasks].mean() for step, batch in enumerate(method.batches)]
    visits = np.bincount(np.concatenate([batch.tasks for batch in method.batches]), minlength=TASKS)
    effective = [int(((batch.successes > 0) & (batch.failures > 0)).sum()) for batch in method.batches]
    assert measures.effective_task_ratio == pytest.approx(sum(effective) / (STEPS * COUNT))
    assert measures.chosen_success == pytest.approx((np.mean(chosen[:11]), np.mean(chosen[-11:])))  # of 47 steps
    assert (measures.distinct_tasks, measures.most_visits) == (np.count_nonzero(visits), visits.max())
    assert measures.rollouts == STEPS * COUNT * ROLLOUTS
    assert measures.accuracy == pytest.approx([success_before(step).mean() for step in (0, 20, 40, STEPS)])
    assert measures.effective_groups == tuple(sum(effective[:step]) for step in (0, 20, 40, STEPS))


def test_predictions_are_measured_as_defined():
    method, measures = trial()
    pool, batches, x, y = [], [], [], []
    for step, (batch, predicted) in enumerate(zip(method.batches, method.predicted, strict=True)):
        success = success_before(step)
        if step % 5 == 2:
            pool += [-(p * np.log(q) + (1 - p) * np.log(1 - q)) for p, q in zip(success, predicted, strict=True)]
        for task, solved in zip(batch.tasks, batch.successes, strict=True):
            share, q = solved / ROLLOUTS, min(max(predicted[task], CLIP), 1 - CLIP)
            batches.append(-(share * np.log(q) + (1 - share) * np.log(1 - q)))
            x.append(logit(q))
            y.append(logit(min(max(success[task], CLIP), 1 - CLIP)))
    assert measures.pool_log_loss == pytest.approx(np.mean(pool), rel=1e-3)  # this one does not clip
    assert measures.batch_log_loss == pytest.approx(np.mean(batches))
    assert measures.calibration_slope == pytest.approx(np.polyfit(x, y, 1)[0])


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


def filtered_trial(*, rounds: int):
    pool, method = Pool(), InTurn()
    rng = np.random.default_rng(0)
    measures = run_trial(pool, method, steps=40, count=8, rollouts=16, rng=rng, rounds=rounds)
    return pool, method, measures


def test_it_trains_on_full_batches_and_pays_for_all_groups():
    pool, method, measures = filtered_trial(rounds=8)
    assert all(len(batch) == 8 and batch.effective.all() for batch in pool.batches)
    assert len(pool.batches) == measures.steps == 40
    assert measures.rollouts == 16 * method.reported == measures.rollouts_spent[-1]
    assert measures.rollouts_spent[0] == 0
    # Half of the groups are effective but for one in 2^15: about two rounds for each batch.
    assert measures.rollouts == pytest.approx(2 * 40 * 8 * 16, rel=0.05)
    assert measures.effective_task_ratio == pytest.approx(0.5, abs=0.01)
