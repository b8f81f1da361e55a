"""A plugin of pytest: what the checks of the versions of verl share."""

import asyncio
import functools
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import torch
import verl
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf, open_dict
from tensordict import TensorDict
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from verl import DataProto
from verl.trainer.ppo.reward import load_reward_manager

from bots_client import Client, Task
from bots_client.integrations.rewards import flush
from tests.docs.blocks import blocks_of

ROOT = Path(__file__).parents[2]
TASKS = 40
PAGE = blocks_of((ROOT / "docs/trainers/verl.md").read_text("utf-8"), "verl.md")
WORDS = ["<unk>", "<eos>", "What", "is", "?", "+", *(str(number) for number in range(2 * TASKS))]


def write_files(folder: Path) -> None:
    """Write the files that the examples train on and validate with; task n asks for n + n, odd ones at more length."""
    for split, count, source in (
        ("train", TASKS, "openai/gsm8k"),
        ("test", 4, "openai/gsm8k"),
        ("more", TASKS, "more"),
    ):
        rows = [
            {
                "data_source": source,
                "prompt": [{"role": "user", "content": f"{source}: what is {number} + {number}{' ?' * (number % 2)}"}],
                "reward_model": {"style": "rule", "ground_truth": str(2 * number)},
                "extra_info": {"split": split, "index": number},
            }
            for number in range(count)
        ]
        datasets.Dataset.from_list(rows).to_parquet(folder / f"{split}.parquet")


def write_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    words = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="<unk>", eos_token="<eos>", pad_token="<eos>", chat_template="{{ messages }}"
    )
    tokenizer.save_pretrained(folder)
    return tokenizer


@functools.cache
def composed(script: str, folder: Path) -> DictConfig:
    environment = {"DATA": str(folder), "BOTS_URL": os.environ["BOTS_URL"], "MODEL": str(folder / "model")}
    bash = f'python() {{ printf "%s\\0" "$@"; }}; . {ROOT}/examples/verl/{script}'
    said = subprocess.run(["bash", "-c", bash], env=environment, capture_output=True, text=True, check=True).stdout
    _, module, *arguments = said.rstrip("\0").split("\0")
    assert module == "verl.trainer.main_ppo"
    assert verl.__file__
    with initialize_config_dir(str(Path(verl.__file__).parent / "trainer" / "config"), version_base=None):
        return compose("ppo_trainer", arguments)


def configuration(script: str, folder: Path, overrides: Mapping[str, object]) -> DictConfig:
    config = composed(script, folder).copy()
    for key, value in {"data.train_batch_size": 8, **overrides}.items():
        with open_dict(config):
            OmegaConf.update(config, key, value)
    return config


def shown() -> DictConfig:
    [code] = [block.code for block in PAGE if block.language == "yaml"]
    return OmegaConf.create(code)


def same(shown: DictConfig, config: DictConfig) -> None:
    """Check that a configuration holds all that is shown, but for what these tests put elsewhere."""
    both = OmegaConf.merge(config, shown)
    for key in ("data.bots.url", "data.bots.run"):
        OmegaConf.update(both, key, OmegaConf.select(config, key))
    assert both == config


def roll_out(trainer: Any, batch: Iterable[Mapping[str, Any]], solved: int, rollouts: int = 4) -> None:
    """Have verl's reward manager score answers to each row of a batch, so many of which are right."""
    asyncio.run(_scored(trainer, batch, solved, rollouts))
    assert flush()


async def _scored(trainer: Any, batch: Iterable[Mapping[str, Any]], solved: int, rollouts: int) -> None:
    manager = load_reward_manager(trainer.config, trainer.tokenizer)
    answers = answered(trainer, batch, solved, rollouts)
    results = await asyncio.gather(*(manager.run_single(answers[at : at + 1]) for at in range(len(answers))))
    assert [result["reward_score"] for result in results] == [
        float(at % rollouts < solved) for at in range(len(answers))
    ]


def answered(trainer: Any, batch: Iterable[Mapping[str, Any]], solved: int, rollouts: int) -> DataProto:
    """Return what verl's rollouts give its reward workers: so many right answers to each row, then wrong ones."""
    rows = [row for row in batch for _ in range(rollouts)]
    right = [row["reward_model"]["ground_truth"] for row in rows]
    said = [answer if at % rollouts < solved else "?" for at, answer in enumerate(right)]
    responses = torch.tensor([trainer.tokenizer.encode(answer) for answer in said])
    tensors = TensorDict(
        {"responses": responses, "attention_mask": torch.ones_like(responses), "prompts": responses[:, :0]},
        batch_size=len(rows),
    )
    keys = ("data_source", "reward_model", "extra_info", "raw_prompt")
    return DataProto(tensors, {key: np.array([row[key] for row in rows] + [None], dtype=object)[:-1] for key in keys})


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verl")
    write_files(folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    return write_tokenizer(folder / "model")


@pytest.fixture
def bots(version: str) -> Iterator[Client]:
    """The service, with the examples' pool and an empty run for the checks of this version."""
    with Client() as client:
        client.create_dataset("gsm8k", [Task(str(number)) for number in range(TASKS)])
        if version in [known.run for known in client.runs("gsm8k")]:
            client.delete_run("gsm8k", version)
        client.create_run("gsm8k", version)
        yield client
