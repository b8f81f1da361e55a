"""A Llama of 280,000 weights in plain torch: small enough that a step of GRPO takes less than a tenth of a second.

Every prompt has 16 tokens, one for each character, and every completion at most 9. So no prompt needs filling, and a
prompt is read once for all its completions.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from examples.finetune.tasks import ANSWER_CHARACTERS, PROMPT_CHARACTERS, Problem

FILLING, END = 0, 1
PROMPT_TOKENS = PROMPT_CHARACTERS
ANSWER_TOKENS = ANSWER_CHARACTERS + 1  # and the end
WIDTH, INNER, LAYERS, HEADS = 96, 192, 3, 4
HEAD_WIDTH = WIDTH // HEADS
EPSILON = 1e-6  # of norms, as Llama has it
SPREAD = (
    0.1  # of random weights; with a fifth of it, the model takes longer to begin to add, and then learns all at once
)


def rotations(length: int) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of rotary positions, [length, HEAD_WIDTH] each (arXiv:2104.09864)."""
    frequencies = 10_000.0 ** (-torch.arange(0, HEAD_WIDTH, 2) / HEAD_WIDTH)
    angles = torch.outer(torch.arange(length), frequencies).repeat(1, 2)
    return angles.cos(), angles.sin()


COSINES, SINES = rotations(PROMPT_TOKENS + ANSWER_TOKENS)
READING = torch.full((PROMPT_TOKENS, PROMPT_TOKENS), -math.inf).triu(1)  # a token sees those before it
# A token of an answer sees the prompt and the answer so far; the last one is never read.
WRITING = torch.cat(
    [torch.zeros(ANSWER_TOKENS - 1, PROMPT_TOKENS), torch.full((ANSWER_TOKENS - 1,) * 2, -math.inf).triu(1)], dim=1
)


class Layer(nn.Module):
    """One layer: attention, then a gated network."""

    def __init__(self) -> None:
        super().__init__()
        self.before_attention = nn.RMSNorm(WIDTH, EPSILON)
        self.to_heads = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.from_heads = nn.Linear(WIDTH, WIDTH, bias=False)
        self.before_network = nn.RMSNorm(WIDTH, EPSILON)
        self.widen = nn.Linear(WIDTH, 2 * INNER, bias=False)
        self.narrow = nn.Linear(INNER, WIDTH, bias=False)

    def heads(self, hidden: Tensor, first: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, [rows, HEADS, tokens, HEAD_WIDTH] each, of tokens from a position on."""
        rows, tokens, _ = hidden.shape
        mixed = self.to_heads(self.before_attention(hidden)).view(rows, tokens, 3, HEADS, HEAD_WIDTH)
        mixed = mixed.permute(2, 0, 3, 1, 4)
        turned, values = mixed[:2], mixed[2]
        left, right = turned.chunk(2, dim=-1)
        cosines, sines = COSINES[first : first + tokens], SINES[first : first + tokens]
        turned = turned * cosines + torch.cat([-right, left], dim=-1) * sines
        return turned[0], turned[1], values

    def finish(self, hidden: Tensor, attended: Tensor) -> Tensor:
        """Return the layer's result, [rows, tokens, WIDTH], of its input and what its heads saw."""
        rows, tokens, _ = hidden.shape
        hidden = hidden + self.from_heads(attended.transpose(1, 2).reshape(rows, tokens, WIDTH))
        gate, up = self.widen(self.before_network(hidden)).chunk(2, dim=-1)
        return hidden + self.narrow(functional.silu(gate) * up)


class Model(nn.Module):
    """The model; its weights are random, from a seed.

    vocabulary: how many tokens there are: filling, the end, and each character of an alphabet.
    """

    def __init__(self, alphabet: str, seed: int) -> None:
        super().__init__()
        self.tokens = {character: number for number, character in enumerate(alphabet, start=2)}
        self.vocabulary = len(self.tokens) + 2
        self.embedding = nn.Embedding(self.vocabulary, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.RMSNorm(WIDTH, EPSILON)
        self.head = nn.Linear(WIDTH, self.vocabulary, bias=False)
        generator = torch.Generator().manual_seed(seed)
        for weight in self.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=SPREAD, generator=generator)

    def forward(self, prompts: Tensor, completions: Tensor) -> Tensor:
        """Return the logits of every token of completions, [rows, ANSWER_TOKENS, vocabulary].

        Args:
            prompts: [groups, PROMPT_TOKENS].
            completions: [rows, ANSWER_TOKENS], as many rows for each prompt, those of one prompt in a row.
        """
        each = len(completions) // len(prompts)
        read, written = self.embedding(prompts), self.embedding(completions[:, :-1])
        for layer in self.layers:
            queries, keys, values = layer.heads(read, 0)
            own_queries, own_keys, own_values = layer.heads(written, PROMPT_TOKENS)
            all_keys = torch.cat([shared(keys, each), own_keys], dim=2)
            all_values = torch.cat([shared(values, each), own_values], dim=2)
            written = layer.finish(written, attention(own_queries, all_keys, all_values, WRITING))
            read = layer.finish(read, attention(queries, keys, values, READING))
        return torch.cat([shared(self.logits(read[:, -1:]), each), self.logits(written)], dim=1)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits of what comes next; never a filling."""
        logits = self.head(self.norm(hidden))
        logits[..., FILLING] = -math.inf
        return logits


def attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Return what each query sees; written out, as torch's own is slower for matrices as small as these."""
    scores = queries @ keys.transpose(-1, -2) / math.sqrt(HEAD_WIDTH)
    return torch.softmax(scores if mask is None else scores + mask, dim=-1) @ values


def shared(of_prompts: Tensor, each: int) -> Tensor:
    """Return a prompt's values for each of its completions: [groups, ...] becomes [groups * each, ...]."""
    return of_prompts.repeat_interleave(each, dim=0) if each > 1 else of_prompts


def log_probabilities(model: Model, prompts: Tensor, completions: Tensor) -> Tensor:
    """Return the log probability of every token of completions, [rows, ANSWER_TOKENS]; 0 after the end."""
    logs = model(prompts, completions).log_softmax(dim=-1)
    return logs.gather(-1, completions[..., None])[..., 0].masked_fill(completions == FILLING, 0.0)


def encoded(model: Model, problems: Sequence[Problem]) -> tuple[Tensor, Tensor]:
    """Return prompts and right answers as a model's tokens: [problems, PROMPT_TOKENS], [problems, ANSWER_TOKENS]."""
    prompts = torch.tensor([[model.tokens[character] for character in problem.prompt] for problem in problems])
    answers = torch.full((len(problems), ANSWER_TOKENS), FILLING)
    for row, problem in enumerate(problems):
        tokens = [*(model.tokens[character] for character in problem.answer), END]
        answers[row, : len(tokens)] = torch.tensor(tokens)
    return prompts, answers
