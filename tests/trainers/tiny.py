"""A language model made from scratch, with random weights, and tasks that it can learn: for trainers on a CPU.

A task is some wanted letters before a "?"; an answer is right if it begins with one of them. So the more letters are
wanted, the easier a task is, from the beginning.
"""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from bots_client import Task

LETTERS = "abcdefghijkl"
ROWS = [
    {"task_id": f"{start}{count}", "prompt": f"{wanted}?", "wanted": wanted}
    for start in LETTERS
    for count in (2, 6, 10)
    if (wanted := (LETTERS * 2)[LETTERS.index(start) :][:count])
]
IDS = [row["task_id"] for row in ROWS]
TASKS = [Task(task) for task in IDS]

torch.set_num_threads(1)  # more would only wait for each other over matrices this small


def tokenizer() -> PreTrainedTokenizerFast:
    """Return one token for each letter."""
    words = ["<pad>", "<end>", *LETTERS, "?"]
    core = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<pad>"))
    core.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    core.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<end>")


def model() -> LlamaForCausalLM:
    """Return a model that knows nothing yet."""
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(LETTERS) + 3,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=32,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=None,
        )
    )


def begins_well(completions: list[str], wanted: list[str], **_columns: object) -> list[float]:
    """Return 1 for each answer that begins with a wanted letter, else 0."""
    return [float(answer[:1] in letters and answer != "") for answer, letters in zip(completions, wanted, strict=True)]
