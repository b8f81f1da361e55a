"""GRPO with TRL on the tasks that the service chooses, in half a minute on a CPU, without any download.

The model is made from scratch, with random weights; examples/letters.py has its tasks.

    make serve                          # in another terminal
    python -m examples.trl_grpo         # with torch, trl and datasets installed; BOTS_URL names another service
"""

import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig

from bots_client import ResilientClient, Selector
from bots_client.integrations.torch import from_rank_zero
from bots_client.integrations.trl import SelectedGRPOTrainer
from examples.letters import LETTERS, begins_well, rows

GENERATIONS = 8


def tokenizer() -> PreTrainedTokenizerFast:
    """Return one that has a token for each letter."""
    words = ["<pad>", "<end>", *LETTERS, "?"]
    core = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token=words[0]))
    core.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    core.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token=words[0], eos_token=words[1])


def model() -> LlamaForCausalLM:
    """Return a model that knows nothing yet."""
    torch.manual_seed(0)
    size = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    tokens = {"vocab_size": len(LETTERS) + 3, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": 1}
    return LlamaForCausalLM(LlamaConfig(**size, **tokens, num_key_value_heads=2, max_position_embeddings=32))


def config(folder: str, **settings: object) -> GRPOConfig:
    """Return the settings of a quick run on a CPU, with those given instead of the defaults."""
    quick = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False, "report_to": [], "disable_tqdm": True}
    data = {"per_device_train_batch_size": 8 * GENERATIONS, "num_generations": GENERATIONS, "max_completion_length": 2}
    return GRPOConfig(folder, **{**quick, **data, "save_strategy": "no", "logging_steps": 10, **settings})


def main(*, url: str | None = None, dataset: str = "letters", steps: int = 100) -> SelectedGRPOTrainer:
    """Train, and return the trainer.

    Args:
        url: of the service; None: BOTS_URL, else http://127.0.0.1:8765.
        dataset: name of the pool that is made, or was made the last time.
        steps: of training, with 8 tasks each.
    """
    torch.set_num_threads(1)  # more would only wait for each other over matrices this small
    ids = [row["task_id"] for row in rows()]
    with ResilientClient(url) as client, tempfile.TemporaryDirectory() as folder:
        trainer = SelectedGRPOTrainer(
            model=model(),
            reward_funcs=begins_well,
            args=config(folder, max_steps=steps, learning_rate=1e-2),
            train_dataset=Dataset.from_list(rows()),
            processing_class=tokenizer(),
            selector=Selector(client, dataset, ids=ids, share=from_rank_zero),
        )
        trainer.train()
    return trainer


if __name__ == "__main__":
    for entry in main().state.log_history:
        if "reward" in entry:
            shown = {"step": entry["step"], "reward": entry["reward"], "effective": entry["bots/effective_task_ratio"]}
            print(", ".join(f"{name} {value:.3g}" for name, value in shown.items()))
