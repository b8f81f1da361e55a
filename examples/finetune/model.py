"""Llamas of one size in plain torch, their weights in stacks: one product computes many runs.

Every prompt has 16 tokens, one for each character, and every completion at most 9. So no prompt needs filling, and a
prompt is read once for all its completions.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from examples.finetune.plan import ModelConfig
from examples.finetune.tasks import ANSWER_CHARACTERS, PROMPT_CHARACTERS, Problem

FILLING, END = 0, 1
PROMPT_TOKENS = PROMPT_CHARACTERS
ANSWER_TOKENS = ANSWER_CHARACTERS + 1  # and the end
EPSILON = 1e-6  # of norms, as Llama has it
ROWS_AT_ONCE = {"cpu": 480, "cuda": 12_288}  # of all models together, by the kind of device

Weights = dict[str, Tensor]


@cache
def constants(head_width: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return what no weight changes.

    Cosines and sines of rotary positions, [2, tokens, head_width] (arXiv:2104.09864); the mask of a prompt,
    [PROMPT_TOKENS, PROMPT_TOKENS]; the mask of an answer, [ANSWER_TOKENS - 1, tokens]. A token sees itself and those
    before it. The last one is never read.
    """
    frequencies = 10_000.0 ** (-torch.arange(0, head_width, 2) / head_width)
    angles = torch.outer(torch.arange(PROMPT_TOKENS + ANSWER_TOKENS), frequencies).repeat(1, 2)
    reading, own = (torch.full((size, size), -math.inf).triu(1) for size in (PROMPT_TOKENS, ANSWER_TOKENS - 1))
    writing = torch.cat([torch.zeros(ANSWER_TOKENS - 1, PROMPT_TOKENS), own], dim=1)
    return torch.stack([angles.cos(), angles.sin()]).to(device), reading.to(device), writing.to(device)


@dataclass(frozen=True, slots=True)
class Stack:
    """Independent models.

    weights: by name, [models, ...] each.
    """

    config: ModelConfig
    weights: Weights

    @classmethod
    def random(cls, config: ModelConfig, vocabulary: int, seeds: Sequence[int], device: str) -> "Stack":
        """Return a model with random weights for each seed, the same on every device and in every stack.

        vocabulary: how many tokens there are: filling, the end, and each character of an alphabet.
        """
        made = [random_weights(config, vocabulary, seed) for seed in seeds]
        return cls(config, {name: torch.stack([one[name] for one in made]).to(device) for name in made[0]})

    @property
    def device(self) -> torch.device:
        """Where the weights are, and where the models compute."""
        return self.weights["head"].device

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""
        return int(self.weights["head"].shape[1])

    def of(self, models: slice | list[int]) -> "Stack":
        """Return some of the models; those of a slice share their weights' memory."""
        return replace(self, weights={name: weight[models] for name, weight in self.weights.items()})

    def logits(self, prompts: Tensor, completions: Tensor) -> Tensor:
        """Return the logits of every token of completions, [models, rows, ANSWER_TOKENS, vocabulary].

        Args:
            prompts: [models, groups, PROMPT_TOKENS].
            completions: [models, rows, ANSWER_TOKENS], as many rows for each prompt, those of one prompt in a row.
        """
        each = completions.shape[1] // prompts.shape[1]
        _, reading, writing = self._constants
        read, written = self._embedded(prompts), self._embedded(completions[..., :-1])
        for layer in range(self.config.layers):
            queries, keys, values = self._heads(layer, read, 0)
            own_queries, own_keys, own_values = self._heads(layer, written, PROMPT_TOKENS)
            all_keys = torch.cat([shared(keys, each), own_keys], dim=3)
            all_values = torch.cat([shared(values, each), own_values], dim=3)
            written = self._finished(layer, written, attention(own_queries, all_keys, all_values, writing))
            read = self._finished(layer, read, attention(queries, keys, values, reading))
        return torch.cat([shared(self._next(read[:, :, -1:]), each), self._next(written)], dim=2)

    def log_probabilities(self, prompts: Tensor, completions: Tensor) -> Tensor:
        """Return the log probability of every token of completions, [models, rows, ANSWER_TOKENS]; 0 after the end."""
        logs = self.logits(prompts, completions).log_softmax(dim=-1)
        return logs.gather(-1, completions[..., None])[..., 0].masked_fill(completions == FILLING, 0.0)

    @torch.no_grad()
    def sample(self, prompts: Tensor, noise: Tensor) -> Tensor:
        """Return completions, [models, rows, ANSWER_TOKENS], as many for each prompt, those of one prompt in a row.

        Each token is drawn from the model's probabilities. After the end, and where there is none, the rest is filled.

        Args:
            prompts: [models, groups, PROMPT_TOKENS].
            noise: [models, rows, ANSWER_TOKENS, vocabulary] draws from an exponential distribution: the token with the
                largest ratio of its probability to such a draw is a draw from the probabilities.
        """
        models, rows = noise.shape[:2]
        each = rows // prompts.shape[1]
        hidden, cached = self._embedded(prompts), []
        for layer in range(self.config.layers):
            queries, keys, values = self._heads(layer, hidden, 0)
            hidden = self._finished(layer, hidden, attention(queries, keys, values, self._constants[1]))
            room = keys.new_empty(models, rows, self.config.heads, ANSWER_TOKENS - 1, keys.shape[-1])
            cached.append([torch.cat([shared(own, each), room], dim=3) for own in (keys, values)])
        logits = shared(self._next(hidden[:, :, -1:]), each)[:, :, 0]
        completions = torch.full((models, rows, ANSWER_TOKENS), FILLING, device=self.device)
        unfinished = torch.ones(models, rows, dtype=torch.bool, device=self.device)
        for place in range(ANSWER_TOKENS):
            drawn = torch.where(unfinished, (logits - noise[:, :, place].log()).argmax(dim=-1), FILLING)
            completions[..., place] = drawn
            unfinished &= drawn != END
            if place == ANSWER_TOKENS - 1:
                break
            hidden = self._embedded(drawn[..., None])
            for layer, kept in enumerate(cached):
                queries, *news = self._heads(layer, hidden, PROMPT_TOKENS + place)
                seen = PROMPT_TOKENS + place + 1
                for own, new in zip(kept, news, strict=True):
                    own[:, :, :, seen - 1] = new[:, :, :, 0]
                keys, values = (own[:, :, :, :seen] for own in kept)
                hidden = self._finished(layer, hidden, attention(queries, keys, values, None))
            logits = self._next(hidden)[:, :, 0]
        return completions

    @torch.no_grad()
    def success_probabilities(self, prompts: Tensor, answers: Tensor) -> NDArray[np.float64]:
        """Return the probability that a sampled completion is right, [models, problems]: exact.

        One answer alone is right: prompts are [models, problems, PROMPT_TOKENS], answers [models, problems,
        ANSWER_TOKENS].
        """
        count = max(ROWS_AT_ONCE[self.device.type] // len(prompts), 1)
        parts = [
            self.log_probabilities(*part).double().sum(dim=2).exp()
            for part in zip(prompts.split(count, 1), answers.split(count, 1), strict=True)
        ]
        found: NDArray[np.float64] = torch.cat(parts, dim=1).cpu().numpy()
        return found

    @property
    def _constants(self) -> tuple[Tensor, Tensor, Tensor]:
        return constants(self.config.width // self.config.heads, self.device)

    def _embedded(self, tokens: Tensor) -> Tensor:
        """Return what is known of tokens by themselves, [models, rows, tokens, width]."""
        models = torch.arange(len(tokens), device=self.device)[:, None, None]
        return self.weights["embedding"][models, tokens]

    def _product(self, hidden: Tensor, name: str) -> Tensor:
        """Return each model's own product of its rows."""
        flat = hidden.flatten(1, 2) @ self.weights[name].transpose(1, 2)
        return flat.unflatten(1, hidden.shape[1:3])

    def _normed(self, hidden: Tensor, name: str) -> Tensor:
        return functional.rms_norm(hidden, hidden.shape[-1:], eps=EPSILON) * self.weights[name][:, None, None]

    def _heads(self, layer: int, hidden: Tensor, first: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values of tokens from a position on, [models, rows, heads, tokens, head width]."""
        mixed = self._product(self._normed(hidden, f"before_attention.{layer}"), f"to_heads.{layer}")
        mixed = mixed.unflatten(-1, (3, self.config.heads, -1)).permute(3, 0, 1, 4, 2, 5)
        turned, values = mixed[:2], mixed[2]
        left, right = turned.chunk(2, dim=-1)
        cosines, sines = self._constants[0][:, first : first + hidden.shape[2]]
        turned = turned * cosines + torch.cat([-right, left], dim=-1) * sines
        return turned[0], turned[1], values

    def _finished(self, layer: int, hidden: Tensor, attended: Tensor) -> Tensor:
        """Return a layer's result of its input and of what its heads saw."""
        hidden = hidden + self._product(attended.transpose(2, 3).flatten(3), f"from_heads.{layer}")
        gate, up = self._product(self._normed(hidden, f"before_network.{layer}"), f"widen.{layer}").chunk(2, dim=-1)
        return hidden + self._product(functional.silu(gate) * up, f"narrow.{layer}")

    def _next(self, hidden: Tensor) -> Tensor:
        """Return the logits of what comes next; never a filling."""
        logits = self._product(self._normed(hidden, "norm"), "head")
        logits[..., FILLING] = -math.inf
        return logits


def random_weights(config: ModelConfig, vocabulary: int, seed: int) -> Weights:
    """Return one model's random weights; those of norms are 1."""
    width, inner = config.width, config.inner
    sizes = {"embedding": (vocabulary, width)}
    for layer in range(config.layers):
        sizes |= {f"to_heads.{layer}": (3 * width, width), f"from_heads.{layer}": (width, width)}
        sizes |= {f"widen.{layer}": (2 * inner, width), f"narrow.{layer}": (width, inner)}
    sizes["head"] = (vocabulary, width)
    generator = torch.Generator().manual_seed(seed)
    weights = {name: torch.randn(size, generator=generator) * config.spread for name, size in sizes.items()}
    norms = [f"{name}.{layer}" for layer in range(config.layers) for name in ("before_attention", "before_network")]
    return weights | {name: torch.ones(width) for name in [*norms, "norm"]}


def attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Return what each query sees; written out, as torch's own is slower for matrices as small as these."""
    scores = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
    return torch.softmax(scores if mask is None else scores + mask, dim=-1) @ values


def shared(of_prompts: Tensor, each: int) -> Tensor:
    """Return a prompt's values for each of its completions: [models, groups, ...] becomes [models, rows, ...]."""
    return of_prompts.repeat_interleave(each, dim=1) if each > 1 else of_prompts


def encoded(problems: Sequence[Problem], alphabet: str, device: str | torch.device) -> tuple[Tensor, Tensor]:
    """Return prompts and right answers as tokens, [problems, PROMPT_TOKENS] and [problems, ANSWER_TOKENS]."""
    tokens = {character: number for number, character in enumerate(alphabet, start=2)}
    prompts = [[tokens[character] for character in problem.prompt] for problem in problems]
    written = [[*(tokens[character] for character in problem.answer), END] for problem in problems]
    answers = [[*answer, *[FILLING] * (ANSWER_TOKENS - len(answer))] for answer in written]
    return torch.tensor(prompts, device=device), torch.tensor(answers, device=device)


def effective_probabilities(success: NDArray[np.float64], rollouts: int) -> NDArray[np.float64]:
    """Return the probability that some rollouts of a task are right and some are not, for each success probability."""
    return 1 - success**rollouts - (1 - success) ** rollouts


class AdamW:
    """AdamW without decay for a stack; every model has its own count of updates, and its own clipping of gradients."""

    RATES, SMALLEST, LONGEST = (0.9, 0.999), 1e-8, 1.0  # of moments; added to the root; length of a gradient

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.moments = [{name: torch.zeros_like(weight) for name, weight in stack.weights.items()} for _ in range(2)]
        self.updates = torch.zeros(len(stack.weights["head"]), device=stack.device)

    def keep(self, models: list[int]) -> None:
        """Go on with some of the models."""
        self.stack, self.updates = self.stack.of(models), self.updates[models]
        self.moments = [{name: moment[models] for name, moment in each.items()} for each in self.moments]

    def update(
        self, models: slice, loss: Callable[[Stack], Tensor], rates: Tensor, learns: Tensor | None = None
    ) -> None:
        """Take one step down the losses.

        Args:
            models: which.
            loss: returns the loss of each of them, [models].
            rates: learning rates, [models].
            learns: 0 for models that stay as they are, else 1, [models]; None: all learn.
        """
        part = self.stack.of(models)
        leaves = {name: weight.detach().requires_grad_() for name, weight in part.weights.items()}
        gradients = torch.autograd.grad(loss(replace(part, weights=leaves)).sum(), list(leaves.values()))
        length = torch.stack([gradient.square().flatten(1).sum(dim=1) for gradient in gradients]).sum(dim=0).sqrt()
        learns = torch.ones_like(rates) if learns is None else learns
        clipped = (self.LONGEST / (length + 1e-6)).clamp(max=1.0)
        self.updates[models] += learns
        count = self.updates[models].clamp(min=1)
        first, second = ((1 - rate**count) for rate in self.RATES)
        for name, gradient in zip(leaves, gradients, strict=True):
            sizes = (-1, *[1] * (gradient.dim() - 1))
            gradient = gradient * clipped.view(sizes)  # noqa: PLW2901 - the old one is not needed
            mean, square = (moment[name][models] for moment in self.moments)
            mean += (gradient - mean) * (learns * (1 - self.RATES[0])).view(sizes)
            square += (gradient.square() - square) * (learns * (1 - self.RATES[1])).view(sizes)
            root = (square / second.view(sizes)).sqrt_() + self.SMALLEST
            part.weights[name] -= mean / root * (rates * learns / first).view(sizes)
