"""Supervised steps that teach a random model to add, until it knows as much as is wanted; kept in files."""

import hashlib
import json
import os
import random
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from examples.finetune.kinds import kind_of, problems_of
from examples.finetune.model import END, FILLING, Model, encoded, log_probabilities
from examples.finetune.plan import Plan
from examples.finetune.sampling import are_right, effective_probabilities, sample
from examples.finetune.tasks import Problem

RISING = 50  # steps until the learning rate is reached
SHARPNESSES = [0.5 * 1.05**power for power in range(48)]  # up to 5 times as sure
FORMAT = 2  # of what a warm-up does: raise it when the code changes what comes out
TRIED_AT_ONCE = {"cpu": 1024, "cuda": 256}  # tasks, by the kind of device: what is kept of their tokens takes memory
Weights = dict[str, Tensor]


def warmed_up(seed: int, plan: Plan, folder: Path) -> dict[str, Model]:
    """Return the models of a seed's warm-up, "weak", "start" and "strong", from the folder if they were made before.

    Args:
        seed: of the weights and the problems. The problems held out in this seed's training are not among them.
        plan: what is taught, and which tasks the pool has.
        folder: where models are kept, under a digest of all that made them.
    """
    file = folder / f"{digest_of(seed, plan)}.pt"
    if not file.exists():
        _, held_out = problems_of(plan, seed)
        but = {problem.id for problem in held_out}
        taught = teach(model_of(plan, seed), random.Random(f"warm-up {seed}"), plan, but)
        with whole(file) as part:
            torch.save(taught, part)
    models = {}
    for name, weights in torch.load(file, map_location=plan.device).items():
        models[name] = model_of(plan, seed)
        models[name].load_state_dict(weights)
    return models


def model_of(plan: Plan, seed: int) -> Model:
    """Return a seed's model with random weights, on the plan's device."""
    model = Model(kind_of(plan).alphabet, seed, plan.model)
    model.to(plan.device)
    return model


def digest_of(seed: int, plan: Plan, *more: int) -> str:
    """Return a name for what is made of a seed's warm-up: another where another would be made."""
    settings = asdict(plan)
    names = ("kind", "pool", "rollouts", "held_out_per_group", "lessons", "model", "device")
    made_of = [FORMAT, seed, {name: settings[name] for name in names}, *more]
    return hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:16]


@contextmanager
def whole(file: Path) -> Iterator[Path]:
    """Yield a temporary path to write to, which becomes `file` at the end: nobody ever reads half a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}.part")
    yield part
    part.replace(file)


def teach(model: Model, rng: random.Random, plan: Plan, kept_out: Collection[str]) -> dict[str, Weights]:
    """Train a model; return its weights when it knew enough for each name, or at the end of the steps."""
    kind, lessons = kind_of(plan), plan.lessons
    optimizer = torch.optim.AdamW(model.parameters(), lr=lessons.learning_rate, weight_decay=0.0, fused=True)
    looked_at = [kind.drawn(rng, group, but=kept_out) for group in kind.groups for _ in range(lessons.looked_at)]
    wanted = {"weak": lessons.weak, "start": lessons.start, "strong": lessons.strong}
    taken: dict[str, Weights] = {}
    settles = False
    for step in range(1, lessons.steps + 1):
        groups = rng.choices(kind.groups, lessons.shares, k=lessons.batch)
        prompts, answers = encoded(model, [kind.drawn(rng, group, but=kept_out) for group in groups])
        rate = lessons.learning_rate * min(step / RISING, 1.0) * (lessons.slower if settles else 1.0)
        update(model, optimizer, loss_of(model, prompts, answers), rate)
        ends = step == lessons.steps
        if ends or step % (lessons.looked_every // (lessons.closer if settles else 1)) == 0:
            found = look(model, looked_at, plan)
            settles = settles or found.right >= lessons.settling
            for name, enough in wanted.items():
                if name not in taken and (ends or found.right >= enough):
                    taken[name] = sharpened(model, found.sharpness)
            if len(taken) == len(wanted):
                break
    return taken


def sharpened(model: Model, sharpness: float) -> Weights:
    """Return a copy of a model's weights, with the last layer's scaled."""
    weights = {name: weight.clone() for name, weight in model.state_dict().items()}
    weights["head.weight"] *= sharpness
    return weights


@dataclass(frozen=True, slots=True)
class Found:
    """How sure a model should be, and what is right then.

    sharpness: factor of the logits, and so of the last layer's weights.
    right: the mean probability of being right over problems of all groups.
    """

    sharpness: float
    right: float


@torch.no_grad()
def look(model: Model, problems: Sequence[Problem], plan: Plan) -> Found:
    """Find the sharpness with which uniform choice of the pool's tasks would have an effective task ratio.

    Args:
        model: in its warm-up.
        problems: as many of each group, group by group.
        plan: how many tasks of each group the pool has, how many rollouts a task, and the wanted ratio; the nearest to
            it is taken.
    """
    prompts, answers = encoded(model, problems)
    logits, written = model(prompts, answers), answers != FILLING
    shares = np.array(plan.pool) / sum(plan.pool)
    ratios, right = [], []
    for sharpness in SHARPNESSES:
        logs = (sharpness * logits).log_softmax(dim=-1).gather(-1, answers[..., None])[..., 0]
        by_group = torch.where(written, logs, 0.0).sum(dim=1).exp().cpu().numpy().reshape(len(plan.pool), -1)
        ratios.append(float(shares @ effective_probabilities(by_group, plan.rollouts).mean(axis=1)))
        right.append(float(by_group.mean()))
    best = int(np.abs(np.array(ratios) - plan.lessons.effective).argmin())
    return Found(SHARPNESSES[best], right[best])


def loss_of(model: Model, prompts: Tensor, answers: Tensor) -> Tensor:
    """Return the mean surprise at a token of the answers, ends included."""
    tokens = (answers == END).int().argmax(dim=1) + 1
    return -log_probabilities(model, prompts, answers).sum() / tokens.sum()


def update(model: Model, optimizer: torch.optim.Optimizer, loss: Tensor, rate: float) -> None:
    """Take one step down the loss, with gradients of length 1 at most."""
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.param_groups[0]["lr"] = rate
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def reference_rates(seed: int, plan: Plan, folder: Path) -> NDArray[np.float64]:
    """Return the share of attempts at each task that two models of the warm-up solve, [pool, 2]: weak, strong.

    They are read from the folder if they were measured before.
    """
    file = folder / f"{digest_of(seed, plan, plan.attempts)}.npy"
    if not file.exists():
        pool, _ = problems_of(plan, seed)
        models, generator = warmed_up(seed, plan, folder), torch.Generator(plan.device).manual_seed(seed)
        prompts, answers = encoded(models["start"], pool)
        rates = [pass_rates(models[name], prompts, answers, plan.attempts, generator) for name in ("weak", "strong")]
        with whole(file) as part, part.open("wb") as stream:
            np.save(stream, torch.stack(rates, dim=1).cpu().numpy())
    found: NDArray[np.float64] = np.load(file)
    return found


def pass_rates(model: Model, prompts: Tensor, answers: Tensor, attempts: int, generator: torch.Generator) -> Tensor:
    """Return the share of attempts at each task that a model solves, [tasks]."""
    count = TRIED_AT_ONCE[model.device.type]
    parts = [
        are_right(sample(model, some, attempts, generator), wanted)
        for some, wanted in zip(prompts.split(count), answers.split(count), strict=True)
    ]
    return torch.cat(parts).double().mean(dim=1)
