"""Supervised steps that teach random models until they know as much as is wanted: all seeds together, kept in files."""

import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from examples.finetune.kinds import kind_of, problems_of
from examples.finetune.model import END, FILLING, AdamW, Stack, Weights, effective_probabilities, encoded
from examples.finetune.plan import Plan
from examples.finetune.tasks import Kind, Problem

RISING = 50  # steps until the learning rate is reached
SHARPNESSES = [0.5 * 1.05**power for power in range(48)]  # up to 5 times as sure
TAUGHT_AT_ONCE = {"cpu": 1, "cuda": 8}  # models, by the kind of device


@dataclass(frozen=True, slots=True)
class WarmUp:
    """What a seed begins with.

    weights: of its model; rates: [pool, 2] the share of attempts at each task that a weaker and a stronger model solve.
    """

    weights: Weights
    rates: NDArray[np.float64]


def warm_ups(seeds: Sequence[int], plan: Plan, folder: Path) -> dict[int, WarmUp]:
    """Return the warm-up of each seed, from the folder if it was made for this plan before."""
    files = {seed: folder / f"{seed}.pt" for seed in seeds}
    found = {seed: kept(file, plan) for seed, file in files.items()}
    for seed, made in teach([seed for seed in seeds if found[seed] is None], plan).items():
        with whole(files[seed]) as part:
            torch.save({"plan": plan, "weights": made.weights, "rates": made.rates}, part)
        found[seed] = made
    return {seed: made for seed, made in found.items() if made}


def kept(file: Path, plan: Plan) -> WarmUp | None:
    """Return the warm-up of a file, if it is one of this plan."""
    if not file.exists():
        return None
    values = torch.load(file, map_location=plan.device, weights_only=False)
    return WarmUp(values["weights"], values["rates"]) if values["plan"] == plan else None


@contextmanager
def whole(file: Path) -> Iterator[Path]:
    """Yield a temporary path to write to, which becomes `file` at the end: nobody ever reads half a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}.part")
    yield part
    part.replace(file)


class Lessons:
    """One seed's problems: random ones for each step, and those by which it is looked at; none that is held out."""

    def __init__(self, seed: int, plan: Plan) -> None:
        self._kind, self._plan, self._rng = kind_of(plan), plan, random.Random(f"warm-up {seed}")
        _, held_out = problems_of(plan, seed)
        self._but = {problem.id for problem in held_out}
        self._looked_at = [self._drawn(name) for name in self._kind.groups for _ in range(plan.lessons.looked_at)]
        self.settles = False
        self.taken: dict[str, Weights] = {}

    def next(self) -> list[Problem]:
        """Return the problems of a step."""
        lessons = self._plan.lessons
        return [self._drawn(name) for name in self._rng.choices(self._kind.groups, lessons.shares, k=lessons.batch)]

    def look(self, model: Stack, *, ends: bool) -> bool:
        """Take the model for each name for which it knows enough, or at the end; tell whether all are taken."""
        lessons = self._plan.lessons
        sharpness, right = sharpness_of(model, self._looked_at, self._kind, self._plan)
        self.settles = self.settles or right >= lessons.settling
        for name, enough in {"weak": lessons.weak, "start": lessons.start, "strong": lessons.strong}.items():
            if name not in self.taken and (ends or right >= enough):
                self.taken[name] = {key: weight[0].clone() for key, weight in model.weights.items()}
                self.taken[name]["head"] *= sharpness
        return len(self.taken) == 3

    def _drawn(self, group: str) -> Problem:
        return self._kind.drawn(self._rng, group, but=self._but)


def teach(seeds: Sequence[int], plan: Plan) -> dict[int, WarmUp]:
    """Train a model of each seed until it knows enough, or for all steps."""
    if not seeds:
        return {}
    kind, lessons = kind_of(plan), plan.lessons
    optimizer = AdamW(Stack.random(plan.model, len(kind.alphabet) + 2, seeds, plan.device))
    pupils, done = {seed: Lessons(seed, plan) for seed in seeds}, {}
    for step in range(1, lessons.steps + 1):
        device = optimizer.stack.device
        pairs = [encoded(pupil.next(), kind.alphabet, device) for pupil in pupils.values()]
        prompts, answers = (torch.stack(each) for each in zip(*pairs, strict=True))
        slowed = torch.tensor([lessons.slower if one.settles else 1.0 for one in pupils.values()], device=device)
        rates = lessons.learning_rate * min(step / RISING, 1.0) * slowed
        for models in parts(len(pupils), TAUGHT_AT_ONCE[plan.device]):
            optimizer.update(models, loss_of(prompts[models], answers[models]), rates[models])
        ends, on = step == lessons.steps, []
        for place, (seed, pupil) in enumerate(pupils.items()):
            often = lessons.looked_every // (lessons.closer if pupil.settles else 1)
            if not ((ends or step % often == 0) and pupil.look(optimizer.stack.of([place]), ends=ends)):
                on.append(place)
            else:
                done[seed] = WarmUp(pupil.taken["start"], reference_rates(seed, plan, pupil.taken))
        if len(on) < len(pupils):
            pupils = {seed: pupil for seed, pupil in pupils.items() if seed not in done}
            optimizer.keep(on)
        if not pupils:
            break
    return done


def parts(count: int, size: int) -> list[slice]:
    """Return slices of so many models at most, all together."""
    return [slice(first, min(first + size, count)) for first in range(0, count, size)]


@torch.no_grad()
def sharpness_of(model: Stack, problems: Sequence[Problem], kind: Kind, plan: Plan) -> tuple[float, float]:
    """Return by what factor of the logits uniform choice would have the effective task ratio that is wanted.

    The nearest of some factors is taken, of two that fit the larger one. The second number is the mean probability of
    being right then.

    Args:
        model: one, in its warm-up.
        problems: as many of each group, group by group.
        kind: of the problems.
        plan: how many tasks of each group the pool has, how many rollouts a task, and the wanted ratio.
    """
    prompts, answers = (tokens[None] for tokens in encoded(problems, kind.alphabet, model.device))
    logits, written = model.logits(prompts, answers), answers != FILLING
    shares = np.array(plan.pool) / sum(plan.pool)
    ratios, right = [], []
    for sharpness in SHARPNESSES:
        logs = (sharpness * logits).log_softmax(dim=-1).gather(-1, answers[..., None])[..., 0]
        by_group = torch.where(written, logs, 0.0).sum(dim=2).exp().cpu().numpy().reshape(len(plan.pool), -1)
        ratios.append(float(shares @ effective_probabilities(by_group, plan.rollouts).mean(axis=1)))
        right.append(float(by_group.mean()))
    surer = int(np.argmax(ratios))  # a model less sure than that has the wanted ratio, too, and solves hardly anything
    best = surer + int(np.abs(np.array(ratios[surer:]) - plan.lessons.effective).argmin())
    return SHARPNESSES[best], right[best]


def loss_of(prompts: Tensor, answers: Tensor) -> Callable[[Stack], Tensor]:
    """Return what asks models for the mean surprise at a token of their answers, ends included: [models]."""
    tokens = ((answers == END).int().argmax(dim=2) + 1).sum(dim=1)
    return lambda stack: -stack.log_probabilities(prompts, answers).sum(dim=(1, 2)) / tokens


def reference_rates(seed: int, plan: Plan, models: dict[str, Weights]) -> NDArray[np.float64]:
    """Return the share of attempts at each task that two models of the warm-up solve, [pool, 2]: weak, strong."""
    pool, _ = problems_of(plan, seed)
    rng = np.random.default_rng(seed)
    found = []
    for name in ("weak", "strong"):
        model = Stack(plan.model, {key: weight[None] for key, weight in models[name].items()})
        tasks = (tokens[None] for tokens in encoded(pool, kind_of(plan).alphabet, model.device))
        found.append(rng.binomial(plan.attempts, model.success_probabilities(*tasks)[0].clip(0, 1)) / plan.attempts)
    return np.stack(found, axis=1)
