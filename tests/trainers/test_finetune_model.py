"""The model of the fast finetuning run: its forward pass, its sampling, and its exact evaluation."""

import math
import random
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.nn.functional import rms_norm, silu

from examples.finetune.additions import Additions, addition
from examples.finetune.model import (
    ANSWER_TOKENS,
    END,
    EPSILON,
    FILLING,
    PROMPT_TOKENS,
    Model,
    encoded,
    log_probabilities,
)
from examples.finetune.plan import ModelConfig
from examples.finetune.sampling import are_right, read, sample, success_probabilities
from examples.finetune.tasks import Problem

DRAWS = 4_000
ADDITIONS = Additions()


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Matrices this small gain nothing from more, and wait for each other on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def sharp_model(seed: int, config: ModelConfig = ModelConfig()) -> Model:  # noqa: B008 - frozen
    """Return a random model that is sure of some tokens, so that single completions are frequent enough to count."""
    model = Model(ADDITIONS.alphabet, seed, config)
    with torch.no_grad():
        model.head.weight *= 6
    return model


def some_problems(count: int) -> list[Problem]:
    rng = random.Random(3)
    return [ADDITIONS.drawn(rng, ADDITIONS.groups[place % len(ADDITIONS.groups)]) for place in range(count)]


def plain_logits(weights: dict[str, Tensor], config: ModelConfig, tokens: list[int]) -> Tensor:
    """Return the logits after each token of one text, position by position and head by head."""
    width, inner, head_width = config.width, config.inner, config.width // config.heads
    hidden = weights["embedding.weight"][tokens]
    for number in range(config.layers):
        own = {name.removeprefix(f"layers.{number}."): weight for name, weight in weights.items()}
        mixed = rms_norm(hidden, (width,), own["before_attention.weight"], EPSILON) @ own["to_heads.weight"].T
        seen = torch.zeros_like(hidden)
        for head in range(config.heads):
            parts = [
                slice(part * width + head * head_width, part * width + (head + 1) * head_width) for part in (0, 1, 2)
            ]
            queries, keys = (turned(mixed[:, part]) for part in parts[:2])
            for place in range(len(tokens)):
                scores = keys[: place + 1] @ queries[place] / math.sqrt(head_width)
                seen[place, parts[0]] = scores.softmax(0) @ mixed[: place + 1, parts[2]]
        hidden = hidden + seen @ own["from_heads.weight"].T
        wide = rms_norm(hidden, (width,), own["before_network.weight"], EPSILON) @ own["widen.weight"].T
        hidden = hidden + (silu(wide[:, :inner]) * wide[:, inner:]) @ own["narrow.weight"].T
    logits = rms_norm(hidden, (width,), weights["norm.weight"], EPSILON) @ weights["head.weight"].T
    logits[:, FILLING] = -math.inf
    return logits


def turned(vectors: Tensor) -> Tensor:
    """Return vectors, [tokens, head width], rotated by their positions, pair by pair (arXiv:2104.09864)."""
    head_width = vectors.shape[1]
    half, result = head_width // 2, torch.empty_like(vectors)
    for place, vector in enumerate(vectors):
        for pair in range(half):
            angle = place * 10_000 ** (-2 * pair / head_width)
            one, other = vector[pair], vector[pair + half]
            result[place, pair] = one * math.cos(angle) - other * math.sin(angle)
            result[place, pair + half] = other * math.cos(angle) + one * math.sin(angle)
    return result


@pytest.mark.parametrize("config", [ModelConfig(), ModelConfig(width=48, inner=80, layers=2, heads=3)])
@torch.no_grad()
def test_the_logits_are_those_of_a_plain_llama(config: ModelConfig) -> None:
    model = sharp_model(1, config)
    prompts, answers = encoded(model, some_problems(2))
    completions = answers.repeat_interleave(2, dim=0)
    completions[1::2] = torch.randint(
        2, model.vocabulary, (2, ANSWER_TOKENS), generator=torch.Generator().manual_seed(5)
    )
    found = model(prompts, completions)
    weights = model.state_dict()
    for row, completion in enumerate(completions):
        text = [*prompts[row // 2].tolist(), *completion[:-1].tolist()]
        plain = plain_logits(weights, config, text)[PROMPT_TOKENS - 1 :]
        torch.testing.assert_close(found[row], plain, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_a_token_at_a_time_gives_the_logits_of_the_whole_text() -> None:
    model = sharp_model(2)
    prompts, answers = encoded(model, some_problems(6))
    completions = answers.repeat_interleave(3, dim=0)
    whole = model(prompts, completions)
    cached, logits = read(model, prompts, 3)
    torch.testing.assert_close(logits, whole[:, 0], atol=1e-4, rtol=1e-4)
    for place in range(ANSWER_TOKENS - 1):
        hidden = model.embedding(completions[:, place])[:, None]
        for layer, own in zip(model.layers, cached, strict=True):
            hidden = own.add(layer, hidden)
        torch.testing.assert_close(model.logits(hidden)[:, 0], whole[:, place + 1], atol=1e-4, rtol=1e-4)


def test_completions_are_as_frequent_as_they_are_probable() -> None:
    model = sharp_model(4)
    prompts, _ = encoded(model, some_problems(1))
    completions = sample(model, prompts, DRAWS, torch.Generator().manual_seed(7))
    distinct, counts = completions.unique(dim=0, return_counts=True)
    common = counts.argsort(descending=True)[:5]
    with torch.no_grad():
        expected = log_probabilities(model, prompts, distinct[common]).double().sum(dim=1).exp() * DRAWS
    assert expected.min() > 20
    # They are the most frequent of many, so a little more frequent than probable: 5 standard deviations.
    assert ((counts[common] - expected).abs() < 5 * expected.sqrt()).all()


def test_nothing_but_filling_comes_after_the_end_and_nothing_before_it() -> None:
    model = sharp_model(4)
    prompts, _ = encoded(model, some_problems(8))
    for completion in sample(model, prompts, 64, torch.Generator().manual_seed(8)).tolist():
        length = completion.index(END) + 1 if END in completion else ANSWER_TOKENS
        assert FILLING not in completion[:length]
        assert completion[length:] == [FILLING] * (ANSWER_TOKENS - length)


def test_the_success_probability_is_the_share_of_right_samples() -> None:
    model = sharp_model(6)
    problems = some_problems(2)
    prompts, _ = encoded(model, problems)
    drawn_ones = sample(model, prompts, DRAWS // 2, torch.Generator().manual_seed(9)).view(2, -1, ANSWER_TOKENS)
    answers = torch.stack([rows.mode(dim=0).values for rows in drawn_ones])  # a probable one stands for the right one
    share = are_right(drawn_ones.flatten(0, 1), answers).double().mean(dim=1).numpy()
    found = success_probabilities(model, prompts, answers)
    assert (found > 1e-4).all()
    assert share == pytest.approx(found, abs=5 * math.sqrt(found.max() / (DRAWS // 2)))


def test_answers_are_encoded_with_their_end() -> None:
    model = Model(ADDITIONS.alphabet, 0)
    prompts, answers = encoded(model, [addition(95, 17, "2")])
    letters = {number: letter for letter, number in model.tokens.items()}
    assert "".join(letters[token] for token in prompts[0].tolist()) == "5900000+7100000="
    written = answers[0].tolist()
    assert [letters.get(token) for token in written[:4]] == ["2", "1", "1", None]
    assert written[3:] == [END] + [FILLING] * (ANSWER_TOKENS - 4)


def test_a_seed_gives_the_same_weights() -> None:
    first, again, other = (Model(ADDITIONS.alphabet, seed).head.weight for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert sum(weight.numel() for weight in Model(ADDITIONS.alphabet, 1).parameters()) == pytest.approx(
        280_000, rel=0.01
    )
