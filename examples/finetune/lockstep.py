"""GRPO (arXiv:2402.03300) of many runs in lockstep, each on the tasks that its own way of choosing gives, over HTTP.

While the models of some runs compute, the service answers the others. What is drawn depends on seed and batch alone, so
a run comes out the same whichever runs are with it, and a checkpoint needs no random state.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import starmap
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from bots_client import Client
from examples.finetune.choosers import Choice, Floats, Oracle, ServiceChooser
from examples.finetune.course import Course
from examples.finetune.kinds import kind_of, problems_of
from examples.finetune.model import ANSWER_TOKENS, FILLING, AdamW, Stack, encoded, shared
from examples.finetune.notes import Notes
from examples.finetune.plan import ARMS, Job, Plan
from examples.finetune.warm_up import parts, warm_ups, whole

SMALLEST_SPREAD = 1e-4  # added to a group's standard deviation, as trainers do
TOGETHER = {"cpu": 4, "cuda": 12}  # runs whose models compute at once, by the kind of device
REQUESTS = 8  # at a time
CHECKPOINT = "checkpoint.pt"
PATIENCE_S = 120.0  # for the service: a busy machine


class Groups(NamedTuple):
    """Effective groups: prompts [groups, ...], completions [groups, rollouts, ...], advantages [groups, rollouts]."""

    prompts: Tensor
    completions: Tensor
    advantages: Tensor


@dataclass(slots=True)
class Run:
    """What a checkpoint keeps of a run, beside its model.

    dataset: its pool's name in the service.
    oracle: what chooses, if the service does not.
    groups: that it has not learned from yet; tokens: of all completions since it learned last.
    waited_s: how long the service's answers took.
    """

    job: Job
    dataset: str
    notes: Notes
    oracle: Oracle | None
    groups: list[Groups] = field(default_factory=list)
    tokens: int = 0
    waited_s: float = 0.0

    @property
    def remaining(self) -> int:
        """How many tasks it may still try."""
        plan = self.notes.plan
        return plan.steps * plan.tasks_per_step - self.notes.rollouts // plan.rollouts

    @property
    def is_due(self) -> bool:
        """Whether it is to be evaluated before it goes on."""
        notes, plan = self.notes, self.notes.plan
        return notes.rollouts >= notes.evaluations * plan.evaluate_every * plan.tasks_per_step * plan.rollouts

    @property
    def is_to_look(self) -> bool:
        """Whether this evaluation is of the whole pool, too."""
        return self.is_due and self.notes.evaluations * self.notes.plan.evaluate_every % self.notes.plan.look_every == 0

    @property
    def is_finished(self) -> bool:
        """Whether all evaluations are made."""
        return self.notes.evaluations == self.notes.plan.evaluations

    def take(self, groups: Groups, tokens: int) -> None:
        """Take the effective groups of a batch; only a run that refills keeps those of the batch before."""
        if not ARMS[self.job.arm].refills:
            self.groups, self.tokens = [], 0
        self.groups.append(groups)
        self.tokens += tokens

    def lesson(self) -> tuple[Groups, int]:
        """Return what it learns from now, and the tokens; there is no group where it waits for more."""
        merged = Groups(*(torch.cat(each) for each in zip(*self.groups, strict=True)))
        if not ARMS[self.job.arm].refills:
            return merged, max(self.tokens, 1)
        self.groups = [merged]
        enough, tokens = self.notes.plan.effective_groups, self.tokens
        if len(merged.prompts) < enough:
            return Groups(*(each[:0] for each in merged)), 1
        self.groups, self.tokens = [Groups(*(each[:0] for each in merged))], 0
        return Groups(*(each[:enough] for each in merged)), tokens


class Tasks(NamedTuple):
    """A seed's problems as tokens."""

    pool: tuple[Tensor, Tensor]
    held_out: tuple[Tensor, Tensor]


class Turn(NamedTuple):
    """What the service said. choice: None at the end; believed: of the pool, for a look at it."""

    choice: Choice | None
    believed: Floats | None


class Trainer:
    """All runs of a comparison, batch by batch.

    runs: in the order of the optimizer's models.
    seconds, cpu_seconds: that all their steps took.
    """

    def __init__(self, plan: Plan, runs: Sequence[Run], optimizer: AdamW, client: Client) -> None:
        self.runs = list(runs)
        self._plan, self._optimizer = plan, optimizer
        self._vocabulary = len(kind_of(plan).alphabet) + 2
        self._tasks = {seed: tasks_of(plan, seed, optimizer.stack.device) for seed in {run.job.seed for run in runs}}
        self._choosers = [
            ServiceChooser(client, run.dataset, run.job.arm, plan=plan, seed=run.job.seed) for run in runs
        ]
        self.seconds = self.cpu_seconds = 0.0
        self._threads = ThreadPoolExecutor(REQUESTS)
        self._turns: dict[int, Future[Turn]] = {}

    @classmethod
    def fresh(cls, plan: Plan, jobs: Sequence[Job], *, client: Client, folder: Path) -> "Trainer":
        """Return a trainer at its start: every arm of a seed from the seed's warm-up, which the folder keeps."""
        made = warm_ups(list(dict.fromkeys(job.seed for job in jobs)), plan, folder / "warm-ups")
        starts = [made[job.seed].weights for job in jobs]
        stack = Stack(plan.model, {name: torch.stack([start[name] for start in starts]) for name in starts[0]})
        # Names of their own: what an earlier attempt left in the database stays as it is.
        attempt = token_hex(3)
        runs = []
        for job in jobs:
            oracle = Oracle(sum(plan.pool), job.seed) if ARMS[job.arm].knows_all else None
            runs.append(Run(job, f"{plan.kind}-{job.seed}-{job.arm}-{attempt}", Notes(plan, *job), oracle))
        trainer = cls(plan, runs, AdamW(stack), client)
        rates = {seed: one.rates for seed, one in made.items()}
        trainer._begin(lambda place: trainer._choosers[place].create(rates[jobs[place].seed]))
        return trainer

    @classmethod
    def resumed(cls, plan: Plan, jobs: Sequence[Job], *, client: Client, folder: Path) -> "Trainer":
        """Return a trainer as its checkpoint has it; the service forgets what came later."""
        kept = torch.load(folder / CHECKPOINT, map_location=plan.device, weights_only=False)
        if [(run.job, run.notes.plan) for run in kept["runs"]] != [(job, plan) for job in jobs]:
            raise ValueError(f"{folder / CHECKPOINT} is of other runs")
        optimizer = AdamW(Stack(plan.model, kept["weights"]))
        optimizer.moments, optimizer.updates = kept["moments"], kept["updates"]
        trainer = cls(plan, kept["runs"], optimizer, client)
        trainer.seconds, trainer.cpu_seconds = kept["seconds"]
        trainer._begin(lambda place: trainer._choosers[place].rewind(trainer.runs[place].notes.steps))
        return trainer

    def save(self, folder: Path) -> None:
        """Write a checkpoint. By then the service has counted all batches that are noted."""
        for turn in self._turns.values():
            turn.result()
        optimizer = self._optimizer
        kept = {"weights": optimizer.stack.weights, "moments": optimizer.moments, "updates": optimizer.updates}
        with whole(folder / CHECKPOINT) as part:
            torch.save({**kept, "runs": self.runs, "seconds": (self.seconds, self.cpu_seconds)}, part)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(cancel_futures=True)

    @property
    def is_finished(self) -> bool:
        """Whether all runs are at their end."""
        return all(run.is_finished for run in self.runs)

    def step(self) -> None:
        """Evaluate what is due, then let every run try a batch of tasks and learn from it."""
        began, cpu = time.perf_counter(), time.process_time()
        for models in parts(len(self.runs), TOGETHER[self._plan.device]):
            turns = {place: self._answer(place) for place in range(models.start, models.stop)}
            self._evaluate({place: turn.believed for place, turn in turns.items() if self.runs[place].is_due})
            chosen = [self._choice(place, turn) for place, turn in turns.items()]
            if any(choice.places for choice in chosen):
                self._learn(models, chosen)
        self.seconds += time.perf_counter() - began
        self.cpu_seconds += time.process_time() - cpu

    def _begin(self, prepare: Callable[[int], None]) -> None:
        """Prepare all runs in the service, and ask for their first tasks."""

        def begun(place: int) -> Turn:
            prepare(place)
            return self._turn(place)

        for place, run in enumerate(self.runs):
            if run.oracle is None and not run.is_finished:
                self._turns[place] = self._threads.submit(begun, place)

    def _turn(self, place: int, *reported: tuple[Choice, list[int]]) -> Turn:
        """Report a batch, and ask for what the run needs next; in a thread."""
        run, chooser, began = self.runs[place], self._choosers[place], time.perf_counter()
        for batch in reported:
            chooser.report(*batch)
        believed = chooser.believed() if run.is_to_look else None
        choice = chooser.select() if run.remaining else None
        run.waited_s += time.perf_counter() - began
        return Turn(choice, believed)

    def _answer(self, place: int) -> Turn:
        return self._turns.pop(place).result() if place in self._turns else Turn(None, None)

    def _choice(self, place: int, turn: Turn) -> Choice:
        """Return a run's tasks: at its end none, and never more than remain."""
        run = self.runs[place]
        if run.oracle and run.remaining:
            model, tasks = self._optimizer.stack.of(slice(place, place + 1)), self._tasks[run.job.seed].pool

            def truth(places: NDArray[np.int64]) -> Floats:
                found: Floats = model.success_probabilities(*(tokens[places][None] for tokens in tasks))[0]
                return found

            return run.oracle.select(self._plan.tasks_per_step, truth, self._plan.rollouts)
        if turn.choice is None:
            return Choice([], np.empty(0), np.empty(0))
        choice = turn.choice
        return Choice(choice.places[: run.remaining], choice.means, choice.chances, choice.selection)

    def _evaluate(self, believed: dict[int, Floats | None]) -> None:
        """Note how probable right answers are to held-out problems, and to the pool's where it is time for that."""
        due = [place for place in believed if not self.runs[place].is_finished]
        looks = [place for place in due if self.runs[place].is_to_look]
        for place, truth in self._truth(looks, "pool"):
            known = believed[place]
            self.runs[place].notes.look(truth, truth if known is None else known)
        for place, truth in self._truth(due, "held_out"):
            self.runs[place].notes.evaluation(truth)

    def _truth(self, places: list[int], which: str) -> Iterator[tuple[int, Floats]]:
        """Return runs with the success probabilities of their models on some of their tasks."""
        if not places:
            return iter(())
        tokens = columns(getattr(self._tasks[self.runs[place].job.seed], which) for place in places)
        return zip(places, self._optimizer.stack.of(places).success_probabilities(*tokens), strict=True)

    def _learn(self, models: slice, chosen: list[Choice]) -> None:
        """Answer each run's tasks some times, report, and learn from the effective groups."""
        runs, rollouts = self.runs[models], self._plan.rollouts
        pairs = list(zip(runs, chosen, strict=True))
        prompts, answers = columns(starmap(self._tokens, pairs))
        noise = padded(list(starmap(self._noise, pairs)), 1.0)
        completions = self._optimizer.stack.of(models).sample(prompts, noise)
        right = (completions == shared(answers, rollouts)).all(dim=2).unflatten(1, (-1, rollouts))
        solved = right.sum(dim=2).cpu().numpy()
        written = (completions != FILLING).sum(dim=2).cpu().numpy()
        completions = completions.unflatten(1, (-1, rollouts))
        for row, (run, choice) in enumerate(pairs):
            own = solved[row, : len(choice.places)]
            teaches = torch.from_numpy(np.flatnonzero((own > 0) & (own < rollouts))).to(right.device)
            advantages = advantages_of(right[row][teaches].float())
            groups = Groups(prompts[row][teaches], completions[row][teaches], advantages)
            run.take(groups, int(written[row, : len(own) * rollouts].sum()))
            if choice.places:
                run.notes.step(choice, own.tolist())
                if run.oracle is None:
                    place = models.start + row
                    self._turns[place] = self._threads.submit(self._turn, place, (choice, own.tolist()))
        self._update(models, [run.lesson() for run in runs])

    def _update(self, models: slice, lessons: list[tuple[Groups, int]]) -> None:
        """Take a step of each run that has effective groups to learn from."""
        prompts, completions, advantages = columns(groups for groups, _ in lessons)
        if not prompts.shape[1]:
            return
        tokens = torch.tensor([count for _, count in lessons], device=prompts.device)
        learns = torch.tensor([float(len(groups.prompts) > 0) for groups, _ in lessons], device=prompts.device)
        rising = ((self._optimizer.updates[models] + 1) / self._plan.rising).clamp(max=1.0)

        def loss(stack: Stack) -> Tensor:
            logs = stack.log_probabilities(prompts, completions.flatten(1, 2)).sum(dim=2)
            return -(advantages.flatten(1) * logs).sum(dim=1) / tokens

        self._optimizer.update(models, loss, self._plan.learning_rate * rising, learns)

    def _tokens(self, run: Run, choice: Choice) -> tuple[Tensor, Tensor]:
        prompts, answers = self._tasks[run.job.seed].pool
        return prompts[choice.places], answers[choice.places]

    def _noise(self, run: Run, choice: Choice) -> Tensor:
        """Return the draws of a batch: those of a seed's arms are the same where their batches have one size."""
        device = self._optimizer.stack.device
        generator = torch.Generator(device).manual_seed(run.job.seed * 1_000_003 + run.notes.steps)
        size = (len(choice.places) * self._plan.rollouts, ANSWER_TOKENS, self._vocabulary)
        return torch.empty(size, device=device).exponential_(generator=generator)


def padded(tensors: Sequence[Tensor], value: float = 0.0) -> Tensor:
    """Return tensors of unequal first size as one, [tensors, largest size, ...]; the rest is filling."""
    return pad_sequence(list(tensors), batch_first=True, padding_value=value)


def columns(rows: Iterable[Iterable[Tensor]]) -> list[Tensor]:
    """Return each column of rows of tensors as one tensor, padded."""
    return [padded(each) for each in zip(*rows, strict=True)]


def tasks_of(plan: Plan, seed: int, device: torch.device) -> Tasks:
    """Return a seed's problems as tokens."""
    return Tasks(*(encoded(problems, kind_of(plan).alphabet, device) for problems in problems_of(plan, seed)))


def advantages_of(rewards: Tensor) -> Tensor:
    """Return how much better each rollout is than its group, in the group's standard deviations: [groups, rollouts]."""
    centred = rewards - rewards.mean(dim=1, keepdim=True)
    spread = (centred.square().sum(dim=1, keepdim=True) / (rewards.shape[1] - 1)).sqrt()
    return centred / (spread + SMALLEST_SPREAD)


def train(
    plan: Plan,
    jobs: Sequence[Job],
    *,
    client: Client,
    folder: Path,
    budget_s: float,
    checkpoint_every_s: float,
    on_step: Callable[[Trainer], object],
) -> list[Course] | None:
    """Train runs to their end and return their results; None if the time is over: the same call goes on then.

    Args:
        plan: how long, on how many tasks.
        jobs: the runs. A checkpoint in the folder is one of the same runs.
        client: of the service; the same one as before, if there is a checkpoint.
        folder: for warm-ups, the checkpoint, and each run's arrays.
        budget_s: after so long it ends, with a checkpoint.
        checkpoint_every_s: the time between two checkpoints.
        on_step: called after each step.
    """
    if plan.device == "cuda":
        torch.set_float32_matmul_precision("high")  # tensor cores, three decimal digits: a fifth of the time
    began = saved = time.monotonic()
    start = Trainer.resumed if (folder / CHECKPOINT).exists() else Trainer.fresh
    trainer = start(plan, jobs, client=client, folder=folder)
    try:
        while not trainer.is_finished:
            trainer.step()
            on_step(trainer)
            now = time.monotonic()
            if now > saved + checkpoint_every_s or now > began + budget_s:
                trainer.save(folder)
                saved = time.monotonic()
            if now > began + budget_s and not trainer.is_finished:
                return None
    finally:
        trainer.close()
    each = {"seconds": trainer.seconds / len(jobs), "cpu_seconds": trainer.cpu_seconds / len(jobs)}
    for run in trainer.runs:
        run.notes.save(folder / "runs" / f"{run.job.seed}-{run.job.arm}.npz")
    return [run.notes.course(**each, service_seconds=run.waited_s) for run in trainer.runs]
