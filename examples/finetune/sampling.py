"""What a model makes of problems: sampled completions, and how probable the right one is, exactly."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from examples.finetune.model import (
    ANSWER_TOKENS,
    END,
    FILLING,
    Layer,
    Model,
    attention,
    log_probabilities,
    shared,
)

# Problems in one call, by the kind of device: what a processor computes then fits into its cache.
AT_ONCE = {"cpu": 480, "cuda": 4096}


class Attended:
    """The keys and values of the tokens so far, of one layer."""

    def __init__(self, keys: Tensor, values: Tensor, each: int, rotation: Tensor) -> None:
        rows, heads, tokens, width = keys.shape
        room = (rows * each, heads, tokens + ANSWER_TOKENS - 1, width)
        self._keys, self._values, self._tokens = keys.new_empty(room), keys.new_empty(room), tokens
        self._rotation = rotation
        self._keys[:, :, :tokens], self._values[:, :, :tokens] = shared(keys, each), shared(values, each)

    def add(self, layer: Layer, hidden: Tensor) -> Tensor:
        """Return the layer's result of one more token, [rows, 1, width], which sees all before it."""
        queries, keys, values = layer.heads(hidden, self._rotation[:, self._tokens, None])
        self._keys[:, :, self._tokens], self._values[:, :, self._tokens] = keys[:, :, 0], values[:, :, 0]
        self._tokens += 1
        seen = attention(queries, self._keys[:, :, : self._tokens], self._values[:, :, : self._tokens], None)
        return layer.finish(hidden, seen)


@torch.no_grad()
def sample(model: Model, prompts: Tensor, rollouts: int, generator: torch.Generator) -> Tensor:
    """Return completions of prompts, [groups * rollouts, ANSWER_TOKENS], those of one prompt in a row.

    Each token is drawn from the model's probabilities. After the end, and where there is none, the rest is filled.
    """
    rows = len(prompts) * rollouts
    cached, logits = read(model, prompts, rollouts)
    completions = torch.full((rows, ANSWER_TOKENS), FILLING, device=model.device)
    unfinished = torch.ones(rows, dtype=torch.bool, device=model.device)
    for place in range(ANSWER_TOKENS):
        # The largest of logits plus Gumbel noise is a draw from their softmax.
        noise = torch.empty_like(logits).exponential_(generator=generator).log()
        drawn = torch.where(unfinished, (logits - noise).argmax(dim=-1), FILLING)
        completions[:, place] = drawn
        unfinished &= drawn != END
        if place == ANSWER_TOKENS - 1 or not unfinished.any():
            break
        hidden = model.embedding(drawn)[:, None]
        for layer, own in zip(model.layers, cached, strict=True):
            hidden = own.add(layer, hidden)
        logits = model.logits(hidden[:, 0])
    return completions


def read(model: Model, prompts: Tensor, rollouts: int) -> tuple[list[Attended], Tensor]:
    """Return what each layer keeps of the prompts, and the logits of the first token of each completion."""
    hidden, cached, rotation = model.embedding(prompts), [], model.rotation[:, : prompts.shape[1]]
    for layer in model.layers:
        queries, keys, values = layer.heads(hidden, rotation)
        cached.append(Attended(keys, values, rollouts, model.rotation))
        hidden = layer.finish(hidden, attention(queries, keys, values, model.reading))
    return cached, shared(model.logits(hidden[:, -1]), rollouts)


@torch.no_grad()
def success_probabilities(model: Model, prompts: Tensor, answers: Tensor) -> NDArray[np.float64]:
    """Return the probability that a sampled completion is right, [problems]: exact, as one answer alone is right."""
    count = AT_ONCE[model.device.type]
    parts = [
        log_probabilities(model, *part).double().sum(dim=1).exp()
        for part in zip(prompts.split(count), answers.split(count), strict=True)
    ]
    found: NDArray[np.float64] = torch.cat(parts).cpu().numpy()
    return found


def are_right(completions: Tensor, answers: Tensor) -> Tensor:
    """Return which completions are right, [groups, rollouts], of one answer for each group."""
    each = len(completions) // len(answers)
    return (completions == shared(answers, each)).all(dim=1).view(len(answers), each)


def effective_probabilities(success: NDArray[np.float64], rollouts: int) -> NDArray[np.float64]:
    """Return the probability that some rollouts of a task are right and some are not, for each success probability."""
    return 1 - success**rollouts - (1 - success) ** rollouts
