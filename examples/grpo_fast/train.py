"""One training run: GRPO (arXiv:2402.03300) on the tasks that one way of choosing gives, over HTTP."""

import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bots_client import Client, Outcome
from examples.grpo_cpu.tasks import LEVELS, Problem, problems_of_sizes
from examples.grpo_fast.course import Course
from examples.grpo_fast.model import FILLING, Model, encoded, log_probabilities
from examples.grpo_fast.plan import Plan
from examples.grpo_fast.sampling import are_right, effective_probabilities, sample, success_probabilities
from examples.grpo_fast.warm_up import update, warmed_up

SMALLEST_SPREAD = 1e-4  # added to a group's standard deviation, as trainers do


class Learner:
    """A model that learns from its own rollouts."""

    def __init__(self, model: Model, plan: Plan, seed: int) -> None:
        self._model, self._plan, self._updates = model, plan, 0
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=plan.learning_rate, weight_decay=0.0, fused=True)
        self._generator = torch.Generator().manual_seed(seed)

    def step(self, prompts: Tensor, answers: Tensor) -> list[int]:
        """Answer each prompt some times and learn from it; return how many answers to each were right."""
        completions = sample(self._model, prompts, self._plan.rollouts, self._generator)
        right = are_right(completions, answers)
        solved = right.sum(dim=1)
        teaches = (solved > 0) & (solved < self._plan.rollouts)
        if teaches.any():
            of_those = completions.view(*right.shape, -1)[teaches].flatten(0, 1)
            advantages = advantages_of(right[teaches].float()).flatten()
            tokens = (completions != FILLING).sum()  # of all groups, so that one group's weight is always the same
            logs = log_probabilities(self._model, prompts[teaches], of_those).sum(dim=1)
            self._updates += 1
            rate = self._plan.learning_rate * min(self._updates / self._plan.rising, 1.0)
            update(self._model, self._optimizer, -(advantages * logs).sum() / tokens, rate)
        return [int(count) for count in solved]


def advantages_of(rewards: Tensor) -> Tensor:
    """Return how much better each rollout is than its group, in the group's standard deviations: [groups, rollouts]."""
    centred = rewards - rewards.mean(dim=1, keepdim=True)
    return centred / (rewards.std(dim=1, keepdim=True) + SMALLEST_SPREAD)


@dataclass(slots=True)
class Notes:
    """What is written down during a run; see `Course`."""

    accuracies: list[float] = field(default_factory=list)
    by_level: list[list[float]] = field(default_factory=list)
    pool_accuracies: list[float] = field(default_factory=list)
    uniform_ratios: list[float] = field(default_factory=list)

    def held_out(self, probabilities: NDArray[np.float64]) -> None:
        """Note an evaluation of the held-out tasks, as many of each level, level by level."""
        by_level = probabilities.reshape(len(LEVELS), -1).mean(axis=1)
        self.accuracies.append(round(float(probabilities.mean()), 6))
        self.by_level.append([round(float(accuracy), 4) for accuracy in by_level])

    def pool(self, probabilities: NDArray[np.float64], rollouts: int) -> None:
        """Note an evaluation of the pool."""
        effective = effective_probabilities(probabilities, rollouts)
        self.pool_accuracies.append(round(float(probabilities.mean()), 6))
        self.uniform_ratios.append(round(float(effective.mean()), 6))


def train(plan: Plan, seed: int, arm: str, *, client: Client, dataset: str, folder: Path) -> Course:
    """Train from the seed's warm-up; return the result.

    Args:
        plan: how long, on how many tasks.
        seed: of the pool, the warm-up and every draw of a completion, so that arms differ in their tasks alone.
        arm: name of the run in the service, which exists.
        client: of the service.
        dataset: the pool's name there.
        folder: where warm-ups are kept.
    """
    pool, held_out = problems_of_sizes(seed, plan.sizes, held_out_per_level=plan.held_out_per_level)
    model, tasks, questions = warmed_up(seed, plan, folder)["start"], encoded(pool), encoded(held_out)
    service = Chosen(client, dataset, arm, pool)
    learner, notes = Learner(model, plan, seed), Notes()
    notes.pool(success_probabilities(model, *tasks), plan.rollouts)
    seconds = 0.0
    for step in range(plan.steps):
        if step % plan.evaluate_every == 0:
            notes.held_out(success_probabilities(model, *questions))
        began = time.perf_counter()
        places = service.select(plan.tasks_per_step)
        service.report(learner.step(tasks[0][places], tasks[1][places]), plan.rollouts)
        seconds += time.perf_counter() - began
    notes.held_out(success_probabilities(model, *questions))
    notes.pool(success_probabilities(model, *tasks), plan.rollouts)
    return Course(
        seed=seed,
        arm=arm,
        accuracies=notes.accuracies,
        by_level=notes.by_level,
        pool_accuracies=notes.pool_accuracies,
        uniform_ratios=notes.uniform_ratios,
        solved=service.solved,
        effective=service.effective,
        visits=service.visits,
        seconds=round(seconds, 3),
        service_seconds=round(service.seconds, 3),
    )


class Chosen:
    """The tasks that the service chooses, by their places in the pool; keeps count of what was reported."""

    def __init__(self, client: Client, dataset: str, run: str, pool: list[Problem]) -> None:
        self.solved: list[int] = []
        self.effective: list[int] = []
        self.visits = [0] * len(pool)
        self.seconds = 0.0
        self._client, self._dataset, self._run = client, dataset, run
        self._places = {problem.id: place for place, problem in enumerate(pool)}

    def select(self, count: int) -> list[int]:
        """Return the places of tasks to train on."""
        began = time.perf_counter()
        self._selection = self._client.select(self._dataset, count, run=self._run)
        self.seconds += time.perf_counter() - began
        places = [self._places[task] for task in self._selection.ids]
        for place in places:
            self.visits[place] += 1
        return places

    def report(self, solved: list[int], rollouts: int) -> None:
        """Report how many rollouts of each selected task succeeded."""
        self.solved.append(sum(solved))
        self.effective.append(sum(0 < count < rollouts for count in solved))
        counts = zip(self._selection.ids, solved, strict=True)
        outcomes = [Outcome.counts(task, successes, rollouts) for task, successes in counts]
        began = time.perf_counter()
        self._client.report(self._dataset, outcomes, run=self._run, selection=self._selection)
        self.seconds += time.perf_counter() - began
