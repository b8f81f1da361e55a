"""The model of the finetuning run gives every text the probabilities that the same model of transformers gives it."""

import random

import pytest
import torch

from examples.finetune.families import Families
from examples.finetune.llama import as_llama, copy_back
from examples.finetune.model import (
    FILLING,
    PROMPT_TOKENS,
    Model,
    encoded,
    log_probabilities,
)
from examples.finetune.tasks import Problem

KIND = Families()


@pytest.fixture
def model() -> Model:
    """A model that is surer than a random one: differences between two forward passes then show."""
    made = Model(KIND.alphabet, 3)
    with torch.no_grad():
        for weight in made.parameters():
            weight.mul_(1.5)
    return made


@pytest.fixture
def problems() -> list[Problem]:
    rng = random.Random(4)
    return [KIND.drawn(rng, group) for group in KIND.groups for _ in range(3)]


@torch.no_grad()
def logs_of_llama(llama: torch.nn.Module, model: Model, problems: list[Problem]) -> torch.Tensor:
    """Return the log probability of every token of the right answers, ends included: [problems, ANSWER_TOKENS]."""
    prompts, answers = encoded(model, problems)
    texts = torch.cat([prompts, answers], dim=1) - 1
    logits = llama(input_ids=texts.clamp(min=0)).logits[:, PROMPT_TOKENS - 1 : -1]
    logs = logits.log_softmax(dim=-1).gather(-1, texts[:, PROMPT_TOKENS:, None].clamp(min=0))[..., 0]
    return logs.masked_fill(answers == FILLING, 0.0)


@torch.no_grad()
def test_both_give_the_same_log_probabilities(model: Model, problems: list[Problem]) -> None:
    plain = log_probabilities(model, *encoded(model, problems))
    torch.testing.assert_close(logs_of_llama(as_llama(model), model, problems), plain, atol=1e-4, rtol=0)
    assert plain.min() < -3  # not the same everywhere


@torch.no_grad()
def test_what_transformers_learned_comes_back(model: Model, problems: list[Problem]) -> None:
    llama = as_llama(model)
    generator = torch.Generator().manual_seed(5)
    for weight in llama.parameters():
        weight.add_(torch.randn(weight.shape, generator=generator), alpha=0.05)
    before = log_probabilities(model, *encoded(model, problems))
    copy_back(llama, model)
    after = log_probabilities(model, *encoded(model, problems))
    torch.testing.assert_close(after, logs_of_llama(llama, model, problems), atol=1e-4, rtol=0)
    assert (after - before).abs().max() > 0.1
