"""One training run: GRPO (arXiv:2402.03300) on the tasks that one way of choosing gives, over HTTP."""

import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from bots_client import Client
from examples.finetune.choosers import Chooser, ServiceChooser
from examples.finetune.course import Course
from examples.finetune.kinds import problems_of
from examples.finetune.model import FILLING, Model, encoded, log_probabilities
from examples.finetune.notes import Notes
from examples.finetune.oracle import OracleChooser
from examples.finetune.plan import ARMS, Plan
from examples.finetune.sampling import are_right, sample, success_probabilities
from examples.finetune.tasks import Problem
from examples.finetune.warm_up import update, warmed_up

SMALLEST_SPREAD = 1e-4  # added to a group's standard deviation, as trainers do


class Learner:
    """A model that learns from its own rollouts."""

    def __init__(self, model: Model, plan: Plan, seed: int) -> None:
        self._model, self._plan, self._updates = model, plan, 0
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=plan.learning_rate, weight_decay=0.0, fused=True)
        self._generator = torch.Generator(model.device).manual_seed(seed)

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
        return [int(count) for count in solved.tolist()]


def advantages_of(rewards: Tensor) -> Tensor:
    """Return how much better each rollout is than its group, in the group's standard deviations: [groups, rollouts]."""
    centred = rewards - rewards.mean(dim=1, keepdim=True)
    return centred / (rewards.std(dim=1, keepdim=True) + SMALLEST_SPREAD)


def train(
    plan: Plan,
    seed: int,
    arm: str,
    *,
    client: Client,
    dataset: str,
    folder: Path,
    on_step: Callable[[int], object],
) -> tuple[Course, Notes]:
    """Train from the seed's warm-up; return the result, and the notes it was made of.

    Args:
        plan: how long, on how many tasks.
        seed: of the pool, the warm-up and every draw of a completion, so that arms differ in their tasks alone.
        arm: name of the run in the service, which exists.
        client: of the service.
        dataset: the pool's name there.
        folder: where warm-ups are kept.
        on_step: called with the number of steps so far.
    """
    pool, held_out = problems_of(plan, seed)
    model = warmed_up(seed, plan, folder)["start"]
    tasks, questions = encoded(model, pool), encoded(model, held_out)
    chooser = chooser_of(plan, seed, arm, pool=pool, client=client, dataset=dataset, model=model)
    learner, notes, watch = Learner(model, plan, seed), Notes(plan, seed, arm), Stopwatch()
    for step in range(plan.steps):
        if step % plan.evaluate_every == 0:
            evaluate(model, questions, tasks, chooser, notes)
        with watch:
            choice = chooser.select(plan.tasks_per_step)
            solved = learner.step(tasks[0][choice.places], tasks[1][choice.places])
            chooser.report(solved, plan.rollouts)
        notes.step(choice, solved)
        on_step(step + 1)
    evaluate(model, questions, tasks, chooser, notes)
    times = {"seconds": watch.seconds, "cpu_seconds": watch.cpu_seconds, "service_seconds": chooser.seconds}
    return notes.course(**times), notes


def chooser_of(
    plan: Plan, seed: int, arm: str, *, pool: list[Problem], client: Client, dataset: str, model: Model
) -> Chooser:
    """Return what chooses the tasks: the service, or one that knows how probable the model's right answers are."""
    if not ARMS[arm].knows_all:
        return ServiceChooser(client, dataset, arm, pool)
    tasks = encoded(model, pool)
    return OracleChooser(lambda: success_probabilities(model, *tasks), plan.rollouts, seed)


def evaluate(
    model: Model, questions: tuple[Tensor, Tensor], tasks: tuple[Tensor, Tensor], chooser: Chooser, notes: Notes
) -> None:
    """Note how probable right answers are to held-out questions and to the pool's, and the belief about these."""
    held_out, pool = (success_probabilities(model, *these) for these in (questions, tasks))
    notes.evaluation(held_out, pool, chooser.believed())


class Stopwatch:
    """Counts the time inside `with`: seconds by the clock, and of this process's computing."""

    def __init__(self) -> None:
        self.seconds = self.cpu_seconds = 0.0

    def __enter__(self) -> None:
        """Start."""
        self._began = time.perf_counter(), time.process_time()

    def __exit__(self, *_error: object) -> None:
        """Stop."""
        self.seconds += time.perf_counter() - self._began[0]
        self.cpu_seconds += time.process_time() - self._began[1]
