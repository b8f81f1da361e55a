"""Supervised steps that make the two reference models: one that training starts from, and a stronger one."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from transformers import LlamaForCausalLM

from bots_client import Task
from examples.grpo_cpu.model import new_model, new_tokenizer, solved
from examples.grpo_cpu.plan import Plan
from examples.grpo_cpu.tasks import LEVELS, Problem, drawn, problems_of

BATCH = 96
LEARNING_RATE = 2e-3
RISING = 50  # steps until the learning rate is reached
# A level is seen so many times as often as the one below it: the weak model has met few long numbers.
RARER, RARER_FOR_STRONG = 0.4, 0.6
# When seeds begin to add differs by hundreds of steps. So the learning rate falls once this share is right.
READY = 0.3
LOOKED_EVERY = 25
IGNORED = -100  # no loss where the label says so


class Teacher:
    """Trains a model to write the answers."""

    def __init__(self, model: LlamaForCausalLM, rng: random.Random, kept_out: frozenset[Problem]) -> None:
        self._model, self._rng, self._kept_out = model, rng, kept_out
        self._tokenizer = new_tokenizer()
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)

    def step(self, share_of_rate: float, *, rarer: float) -> None:
        """Do one step on random problems, none of them among those kept out."""
        weights = [rarer**level for level in LEVELS]
        levels = self._rng.choices(LEVELS, weights, k=BATCH)
        tokens, labels = self._tokens_and_labels([drawn(self._rng, level, but=self._kept_out) for level in levels])
        seen = (tokens != self._tokenizer.pad_token_id).long()
        self._model.train()
        self._model(input_ids=tokens, attention_mask=seen, labels=labels).loss.backward()
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
        self._optimizer.param_groups[0]["lr"] = LEARNING_RATE * share_of_rate
        self._optimizer.step()
        self._optimizer.zero_grad()

    def _tokens_and_labels(self, problems: Sequence[Problem]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return prompts with their answers, and labels: the answers and the end of each."""
        texts = [problem.prompt + problem.answer + self._tokenizer.eos_token for problem in problems]
        tokens = self._tokenizer(texts, return_tensors="pt", padding=True)["input_ids"]
        labels = torch.full_like(tokens, IGNORED)
        for row, problem in enumerate(problems):
            written = len(problem.answer) + 1
            labels[row, -written:] = tokens[row, -written:]
        return tokens, labels


def warm_up(seed: int, plan: Plan, folder: Path, *, on_step: Callable[[int], object]) -> list[Task]:
    """Make both models, each in a folder of its name; return the pool with their pass rates.

    Args:
        seed: of the weights and the problems.
        plan: how long.
        folder: for "weak" and "strong".
        on_step: called with the number of steps so far, of `steps_of(plan)`.
    """
    pool, held_out = problems_of(seed, per_level=plan.tasks_per_level, held_out_per_level=plan.held_out_per_level)
    model = new_model(seed)
    teacher = Teacher(model, random.Random(f"warm-up {seed}"), frozenset(held_out))
    for step in range(1, plan.warm_up_steps + 1):
        teacher.step(min(step / RISING, 1.0), rarer=RARER)
        on_step(step)
        if step % LOOKED_EVERY == 0 and sum(solved(model, held_out, attempts=1, seed=seed)) >= READY * len(held_out):
            break
    rates = []
    for place, (name, rarer) in enumerate((("weak", RARER), ("strong", RARER_FOR_STRONG))):
        for step in range(plan.falling_steps):
            teacher.step(1 - step / plan.falling_steps, rarer=rarer)  # so what it can do becomes certain
            on_step(plan.warm_up_steps + place * plan.falling_steps + step + 1)
        model.save_pretrained(folder / name)
        counts = solved(model, pool, attempts=plan.attempts, seed=seed)
        rates.append([count / plan.attempts for count in counts])
    return [
        Task(problem.id, (weak, strong), tags=[f"{problem.level} digits"])
        for problem, weak, strong in zip(pool, *rates, strict=True)
    ]


def steps_of(plan: Plan) -> int:
    """Return how many steps a warm-up has at most."""
    return plan.warm_up_steps + 2 * plan.falling_steps
