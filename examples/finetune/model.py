"""A Llama in plain torch, by default of 280,000 weights: a processor needs less than a tenth of a second for a step.

Every prompt has 16 tokens, one for each character, and every completion at most 9. So no prompt needs filling, and a
prompt is read once for all its completions.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from examples.finetune.plan import ModelConfig
from examples.finetune.tasks import ANSWER_CHARACTERS, PROMPT_CHARACTERS, Problem

FILLING, END = 0, 1
PROMPT_TOKENS = PROMPT_CHARACTERS
ANSWER_TOKENS = ANSWER_CHARACTERS + 1  # and the end
EPSILON = 1e-6  # of norms, as Llama has it


def rotations(length: int, head_width: int) -> Tensor:
    """Return cosines and sines of rotary positions, [2, length, head_width] (arXiv:2104.09864)."""
    frequencies = 10_000.0 ** (-torch.arange(0, head_width, 2) / head_width)
    angles = torch.outer(torch.arange(length), frequencies).repeat(1, 2)
    return torch.stack([angles.cos(), angles.sin()])


def reading_mask() -> Tensor:
    """Return the mask of a prompt, [PROMPT_TOKENS, PROMPT_TOKENS]: a token sees itself and those before it."""
    return torch.full((PROMPT_TOKENS, PROMPT_TOKENS), -math.inf).triu(1)


def writing_mask() -> Tensor:
    """Return the mask of an answer, [ANSWER_TOKENS - 1, all tokens]: a token sees the prompt and the answer so far.

    The last token is never read.
    """
    own = torch.full((ANSWER_TOKENS - 1,) * 2, -math.inf).triu(1)
    return torch.cat([torch.zeros(ANSWER_TOKENS - 1, PROMPT_TOKENS), own], dim=1)


class Layer(nn.Module):
    """One layer: attention, then a gated network."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width, inner = config.width, config.inner
        self._heads = config.heads
        self.before_attention = nn.RMSNorm(width, EPSILON)
        self.to_heads = nn.Linear(width, 3 * width, bias=False)
        self.from_heads = nn.Linear(width, width, bias=False)
        self.before_network = nn.RMSNorm(width, EPSILON)
        self.widen = nn.Linear(width, 2 * inner, bias=False)
        self.narrow = nn.Linear(inner, width, bias=False)

    def heads(self, hidden: Tensor, rotation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values, [rows, heads, tokens, head width] each.

        Args:
            hidden: [rows, tokens, width].
            rotation: [2, tokens, head width] cosines and sines of these tokens' positions.
        """
        rows, tokens, _ = hidden.shape
        mixed = self.to_heads(self.before_attention(hidden)).view(rows, tokens, 3, self._heads, -1)
        mixed = mixed.permute(2, 0, 3, 1, 4)
        turned, values = mixed[:2], mixed[2]
        left, right = turned.chunk(2, dim=-1)
        cosines, sines = rotation
        turned = turned * cosines + torch.cat([-right, left], dim=-1) * sines
        return turned[0], turned[1], values

    def finish(self, hidden: Tensor, attended: Tensor) -> Tensor:
        """Return the layer's result, [rows, tokens, width], of its input and what its heads saw."""
        hidden = hidden + self.from_heads(attended.transpose(1, 2).flatten(2))
        gate, up = self.widen(self.before_network(hidden)).chunk(2, dim=-1)
        return hidden + self.narrow(functional.silu(gate) * up)


class Model(nn.Module):
    """The model; its weights are random, from a seed, the same on every device.

    config: its sizes.
    vocabulary: how many tokens there are: filling, the end, and each character of an alphabet.
    """

    rotation: Tensor
    reading: Tensor
    writing: Tensor

    def __init__(self, alphabet: str, seed: int, config: ModelConfig = ModelConfig()) -> None:  # noqa: B008 - frozen
        super().__init__()
        self.config = config
        self.tokens = {character: number for number, character in enumerate(alphabet, start=2)}
        self.vocabulary = len(self.tokens) + 2
        self.embedding = nn.Embedding(self.vocabulary, config.width)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width, EPSILON)
        self.head = nn.Linear(config.width, self.vocabulary, bias=False)
        generator = torch.Generator().manual_seed(seed)
        for weight in self.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=config.spread, generator=generator)
        rotation = rotations(PROMPT_TOKENS + ANSWER_TOKENS, config.width // config.heads)
        constants = {"rotation": rotation, "reading": reading_mask(), "writing": writing_mask()}
        for name, values in constants.items():
            self.register_buffer(name, values, persistent=False)

    @property
    def device(self) -> torch.device:
        """Where its weights are, and where it computes."""
        return self.head.weight.device

    def forward(self, prompts: Tensor, completions: Tensor) -> Tensor:
        """Return the logits of every token of completions, [rows, ANSWER_TOKENS, vocabulary].

        Args:
            prompts: [groups, PROMPT_TOKENS].
            completions: [rows, ANSWER_TOKENS], as many rows for each prompt, those of one prompt in a row.
        """
        each = len(completions) // len(prompts)
        read, written = self.embedding(prompts), self.embedding(completions[:, :-1])
        of_prompt, of_answer = self.rotation[:, :PROMPT_TOKENS], self.rotation[:, PROMPT_TOKENS:-1]
        for layer in self.layers:
            queries, keys, values = layer.heads(read, of_prompt)
            own_queries, own_keys, own_values = layer.heads(written, of_answer)
            all_keys = torch.cat([shared(keys, each), own_keys], dim=2)
            all_values = torch.cat([shared(values, each), own_values], dim=2)
            written = layer.finish(written, attention(own_queries, all_keys, all_values, self.writing))
            read = layer.finish(read, attention(queries, keys, values, self.reading))
        return torch.cat([shared(self.logits(read[:, -1:]), each), self.logits(written)], dim=1)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the logits of what comes next; never a filling."""
        logits = self.head(self.norm(hidden))
        logits[..., FILLING] = -math.inf
        return logits


def attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Return what each query sees; written out, as torch's own is slower for matrices as small as these."""
    scores = queries @ keys.transpose(-1, -2) / math.sqrt(queries.shape[-1])
    return torch.softmax(scores if mask is None else scores + mask, dim=-1) @ values


def shared(of_prompts: Tensor, each: int) -> Tensor:
    """Return a prompt's values for each of its completions: [groups, ...] becomes [groups * each, ...]."""
    return of_prompts.repeat_interleave(each, dim=0) if each > 1 else of_prompts


def log_probabilities(model: Model, prompts: Tensor, completions: Tensor) -> Tensor:
    """Return the log probability of every token of completions, [rows, ANSWER_TOKENS]; 0 after the end."""
    logs = model(prompts, completions).log_softmax(dim=-1)
    return logs.gather(-1, completions[..., None])[..., 0].masked_fill(completions == FILLING, 0.0)


def encoded(model: Model, problems: Sequence[Problem]) -> tuple[Tensor, Tensor]:
    """Return prompts and right answers as a model's tokens, on its device.

    They are [problems, PROMPT_TOKENS] and [problems, ANSWER_TOKENS].
    """
    prompts = torch.tensor([[model.tokens[character] for character in problem.prompt] for problem in problems])
    answers = torch.full((len(problems), ANSWER_TOKENS), FILLING)
    for row, problem in enumerate(problems):
        tokens = [*(model.tokens[character] for character in problem.answer), END]
        answers[row, : len(tokens)] = torch.tensor(tokens)
    return prompts.to(model.device), answers.to(model.device)
