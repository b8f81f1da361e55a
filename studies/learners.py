"""Pools that learn from what is chosen. The dynamics are made up; the difficulties are those of real problems.

Rollouts of a group with successes at a rate y give a signal 4 y (1 - y): none if all agree, 1 if half succeed.
"""

from abc import ABC, abstractmethod
from functools import cache
from pathlib import Path

import numpy as np
from scipy.special import expit, logit

from bots_service.core.arrays import Counts, Floats
from studies.environment import Batch

DEEPSCALER = Path(__file__).parent / "data" / "deepscaler.npz"
ATTEMPTS = 16  # of a reference that is drawn
MODELS = ("untrained, another of its kind", "qwen2.5-math-7b")
STEPS = 400
TASKS = 4000
SEED = 1000  # of the first pool
PULL = 0.2  # logits, of a group with the largest signal


@cache
def problems_by_successes() -> Counts:
    """[129] How many problems of DeepScaleR Qwen2.5-Math-7B solved 0, 1, ... 128 times in 128 attempts."""
    with np.load(DEEPSCALER) as arrays:
        return np.asarray(arrays["problems"], np.int64)


def real_rates(count: int, rng: np.random.Generator) -> Floats:
    """[count] pass rates of Qwen2.5-Math-7B, drawn from the problems of DeepScaleR with replacement."""
    problems = problems_by_successes()
    rates = np.arange(len(problems)) / (len(problems) - 1)
    return rng.choice(rates, count, p=problems / problems.sum())


def logits_of(rates: Floats) -> Floats:
    """[n] logits of pass rates of 128 attempts, with half a success and half a failure more: finite at 0 and 1."""
    return np.asarray(logit((rates * 128 + 0.5) / 129))


def signal(batch: Batch) -> Floats:
    """[B] 4 y (1 - y) of each group, 0 where the group's rewards are all equal."""
    rate = batch.successes / (batch.successes + batch.failures)
    return np.asarray(4 * rate * (1 - rate) * batch.effective)


class Learner(ABC):
    """A pool whose model begins 1.5 logits below Qwen2.5-Math-7B, with a difference of each task's own.

    The references are an untrained model of the same kind, tried 16 times, and Qwen2.5-Math-7B.
    """

    name = "learner"
    reference_models = MODELS
    tags = None
    steps = STEPS

    def __init__(self, seed: int, *, tasks: int = TASKS) -> None:
        self._rng = np.random.default_rng(SEED + seed)
        strong = real_rates(tasks, self._rng)
        self.start = logits_of(strong) - 1.5 + self._rng.normal(0, 1, tasks)
        weak = expit(self.start - 0.3 + self._rng.normal(0, 0.8, tasks))
        self.references: Floats = np.stack([self._rng.binomial(ATTEMPTS, weak) / ATTEMPTS, strong], axis=1)
        self.own = np.zeros(tasks)

    @abstractmethod
    def logits(self) -> Floats:
        """[N] of the model's probabilities of success."""

    @abstractmethod
    def train(self, batch: Batch) -> None:
        """Make one step."""

    def success(self) -> Floats:
        """[N] the model's probabilities of success now."""
        return np.asarray(expit(self.logits()))

    def accuracy(self) -> float:
        """Return the mean probability of success of all tasks."""
        return float(self.success().mean())


class SharedAbility(Learner):
    """Every group with a signal raises one ability, which lifts each task by a sensitivity of its own.

    The more is learned, the less a group adds. A group's own task is lifted a little more. It matters how much signal a
    batch has, and hardly where it comes from: narrow choice costs nothing.
    """

    name = "shared ability"

    def __init__(self, seed: int, *, tasks: int = TASKS) -> None:
        super().__init__(seed, tasks=tasks)
        self.sensitivity = np.exp(self._rng.normal(0, 0.4, tasks))
        self.ability = 0.0

    def logits(self) -> Floats:
        """[N] of the model's probabilities of success."""
        return np.asarray(self.start + self.own + self.sensitivity * self.ability)

    def train(self, batch: Batch) -> None:
        """Learn from the groups with a signal."""
        taught = signal(batch)
        self.ability += 0.006 * float(taught.mean()) * np.exp(-self.ability / 3)
        self.own[batch.tasks] += 0.05 * taught


class HiddenSkills(Learner):
    """A group with a signal raises its task's skill, one of 20 that nobody sees, and all others a little.

    Skills that are not trained decay; a task that is met again soon teaches less.
    """

    name = "hidden skills"
    skills = 20

    def __init__(self, seed: int, *, tasks: int = TASKS) -> None:
        super().__init__(seed, tasks=tasks)
        self.skill_of = self._rng.integers(self.skills, size=tasks)
        self.skill = np.zeros(self.skills)
        self.fatigue = np.zeros(tasks)

    def logits(self) -> Floats:
        """[N] of the model's probabilities of success."""
        return np.asarray(self.start + self.own + self.skill[self.skill_of])

    def train(self, batch: Batch) -> None:
        """Forget a little; then learn from the groups with a signal."""
        taught = signal(batch) / (1 + self.fatigue[batch.tasks])
        self.skill *= 0.9995
        np.add.at(self.skill, self.skill_of[batch.tasks], 0.8 * taught / len(batch.tasks))
        self.skill += 0.004 * float(taught.mean())
        self.own *= 0.999
        self.own[batch.tasks] += 0.15 * taught
        self.fatigue *= 0.98
        self.fatigue[batch.tasks] += 0.5


class Interference(Learner):
    """A pool that punishes narrow choice, as real training does: accuracy is that of tasks that are never trained.

    A group's gradient has two parts. One is shared: it raises the skill of its task (one of 20), less with each visit.
    The other belongs to the task: it raises that task alone (memorisation), and pulls all skills in a direction of the
    task's own. Pulls of different tasks cancel for the most part, those of one task that comes again and again add up.
    A skill that is pulled off by x, up or down, loses x^2. Training of any tasks pulls it back.

    Its numbers are calibrated on the seeds 100 to 103, which no study uses, to nothing but the order of ways to choose
    in real training (docs/studies/finetuning.md): `pass` above a shuffle, BOTS near it, nearest to one half far below.
    """

    name = "interference"
    skills = 20
    visits_to_half = 3.0  # a group teaches half as much to others once its task was learned from so often
    shared = 0.4  # logits, divided among the batch
    shared_by_all = 0.004
    memorised = 0.05
    recovery = 0.1

    def __init__(self, seed: int, *, tasks: int = TASKS // 2, held_out: int = TASKS // 2, pull: float = PULL) -> None:
        super().__init__(seed, tasks=tasks + held_out)
        self.pull = pull
        self.references = self.references[:tasks]
        self.skill_of = self._rng.integers(self.skills, size=tasks + held_out)
        directions = self._rng.normal(size=(tasks, self.skills))
        self.directions = directions / np.linalg.norm(directions, axis=1, keepdims=True)
        self.skill, self.pulled = np.zeros(self.skills), np.zeros(self.skills)
        self.visits = np.zeros(tasks)

    def logits(self) -> Floats:
        """[N] of the model's probabilities of success."""
        return self._all_logits()[: len(self.visits)]

    def accuracy(self) -> float:
        """Return the mean probability of success of the tasks that are held out."""
        return float(expit(self._all_logits()[len(self.visits) :]).mean())

    def train(self, batch: Batch) -> None:
        """Learn from the groups with a signal."""
        taught, tasks = signal(batch), batch.tasks
        shared = taught / (1 + self.visits[tasks] / self.visits_to_half)
        np.add.at(self.skill, self.skill_of[tasks], self.shared * shared / len(tasks))
        self.skill += self.shared_by_all * float(shared.mean())
        self.own[tasks] += self.memorised * taught
        self.pulled *= 1 - self.recovery * float(taught.mean())
        self.pulled += self.pull * (taught @ self.directions[tasks])
        self.visits[tasks] += taught

    def _all_logits(self) -> Floats:
        return np.asarray(self.start + self.own + (self.skill - self.pulled**2)[self.skill_of])


class Memorising(Learner):
    """A model that soon masters what it trains on, slowly forgets it, and wanders: in the end it solves most tasks.

    A belief that follows the tasks it meets then takes all others for solved. In real training with a model of 25
    million weights that happened from the middle of the course on (docs/studies/finetuning.md). The numbers were chosen
    on the seeds 100 to 103, which no study uses, so that it happens here, too.
    """

    name = "memorising"
    memorised = 2.0  # logits, of a group with the largest signal
    forgotten = 0.003  # of what was memorised, a step
    shared = 0.03
    wandering = 0.3  # each step; a fiftieth of the way is taken back
    steps = 800

    def __init__(self, seed: int, *, tasks: int = 1500) -> None:
        super().__init__(seed, tasks=tasks)
        self.sensitivity = np.exp(self._rng.normal(0, 0.4, tasks))
        self.ability, self.wandered = 0.0, np.zeros(tasks)

    def logits(self) -> Floats:
        """[N] of the model's probabilities of success."""
        return np.asarray(self.start + self.own + self.wandered + self.sensitivity * self.ability)

    def train(self, batch: Batch) -> None:
        """Learn from the groups with a signal; forget a little of the rest. Without any, the model stays as it is."""
        taught = signal(batch)
        if not taught.any():
            return
        self.own *= 1 - self.forgotten
        self.own[batch.tasks] += self.memorised * taught
        self.ability += self.shared * float(taught.mean())
        self.wandered = 0.98 * self.wandered + self._rng.normal(0, self.wandering, len(self.wandered))


LEARNERS: dict[str, type[Learner]] = {
    each.name: each for each in (SharedAbility, HiddenSkills, Interference, Memorising)
}
