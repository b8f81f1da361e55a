"""slime for tests: a checkout of the real one, or the least that a data source must do, in our own words.

slime is no package that pip could fetch. SLIME_SOURCE names the folder of a checkout: there the tests run slime's own
files. What these import and can't have here (inference engines, tracing, reward models) is replaced, module by module,
and only where it does not import.
"""

import asyncio
import copy
import importlib
import json
import os
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.trainers.recipes import write_lines

SOURCE = os.environ.get("SLIME_SOURCE")
ADAPTER = "bots_client.integrations.slime"
NAMES = [f"math-{row}" for row in range(24)]
SAMPLES = 4
# Arguments of slime's that are not used here.
UNSET = """apply_chat_template_kwargs buffer_filter_path custom_generate_function_path dump_details label_key tool_key
    dynamic_sampling_filter_path multimodal_keys reward_key rollout_max_prompt_len
    rollout_sample_filter_path rollout_stop rollout_stop_token_ids sglang_dp_size"""
OFF = """apply_chat_template group_rm mask_offpolicy_in_partial_rollout partial_rollout rollout_shuffle
    rollout_skip_special_tokens"""


@dataclass
class Sample:
    class Status(Enum):
        PENDING = "pending"
        COMPLETED = "completed"
        TRUNCATED = "truncated"
        ABORTED = "aborted"
        FAILED = "failed"

    prompt: str = ""
    group_index: int | None = None
    index: int | None = None
    response_length: int = 0
    reward: Any = None
    status: Status = Status.PENDING
    metadata: dict[str, Any] = field(default_factory=dict)

    def get_reward_value(self, args: Namespace) -> float:
        return self.reward[args.reward_key] if args.reward_key else self.reward


class Rows:
    """A data source without a buffer: knows its prompts and counts what it gave."""

    def __init__(self, args: Namespace) -> None:
        self.args = args
        self.sample_group_index = self.sample_index = 0
        self.dataset = None
        if args.rollout_global_dataset and args.prompt_data is not None:
            rows = map(json.loads, Path(args.prompt_data).read_text().splitlines())
            self.dataset = Namespace(samples=[Sample(row["text"], metadata=row["metadata"]) for row in rows])

    def save(self, rollout_id: int) -> None:
        self._path(self.args.save, rollout_id).write_text(json.dumps([self.sample_group_index, self.sample_index]))

    def load(self, rollout_id: int) -> None:
        if self.args.load is not None and (path := self._path(self.args.load, rollout_id)).exists():
            self.sample_group_index, self.sample_index = json.loads(path.read_text())

    @staticmethod
    def _path(folder: str, rollout_id: int) -> Path:
        Path(folder).mkdir(exist_ok=True)
        return Path(folder) / f"{rollout_id}.json"


class RowsWithBuffer(Rows):
    """Gives first what was put back, and the rest from the next class."""

    def __init__(self, args: Namespace) -> None:
        super().__init__(args)
        self.buffer: list[list[Sample]] = []

    def get_samples(self, count: int) -> list[list[Sample]]:
        first, self.buffer = self.buffer[:count], self.buffer[count:]
        rest = count - len(first)
        return first + super().get_samples(num_samples=rest) if rest else first  # type: ignore[misc]

    def add_samples(self, groups: list[list[Sample]]) -> None:
        self.buffer += groups


@dataclass
class Output:
    samples: list[list[Sample]]
    metrics: dict[str, Any] | None = None


def traced(*_what: object, **_how: object):
    return lambda function: function


async def idle(*_urls: object) -> dict[str, list[Any]]:
    return {"workers": []}


PROTOCOL: dict[str, dict[str, object]] = {
    "slime": {},
    "slime.rollout": {},
    "slime.rollout.base_types": {"RolloutFnTrainOutput": Output},
    "slime.rollout.data_source": {"RolloutDataSource": Rows, "RolloutDataSourceWithBuffer": RowsWithBuffer},
    "slime.utils": {},
    "slime.utils.types": {"Sample": Sample},
}
STAND_INS: dict[str, dict[str, object]] = {
    "slime.utils.http_utils": {
        "is_port_available": None,
        "get": idle,
        "post": None,
        "get_rollout_num_engines": lambda _args: 1,
    },
    "slime.utils.async_utils": {"run": None},
    "slime.utils.eval_config": {"EvalDatasetConfig": None},
    "slime.observability": {},
    "slime.observability.trace_utils": {
        "build_sglang_meta_trace_attrs": None,
        "trace_function": traced,
        "trace_span": lambda *_what, **_how: nullcontext(),
    },
    "slime.backends": {},
    "slime.backends.sglang_utils": {},
    "slime.backends.sglang_utils.server_control": {"abort_servers_until_idle": idle},
    "slime.rollout.rm_hub": {"async_rm": None, "batched_async_rm": None},
}


@contextmanager
def rollouts(patch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield the real module of slime's rollout loop, on an event loop of its own, with no engines behind it."""
    module: Any = importlib.import_module("slime.rollout.sglang_rollout")
    loop = asyncio.new_event_loop()
    patch.setattr(module, "run", loop.run_until_complete)
    patch.setattr(module, "get", idle)
    patch.setattr(module, "abort_servers_until_idle", idle)
    patch.setattr(module, "get_rollout_num_engines", lambda _args: 1)
    patch.setattr(module.SingletonMeta, "_instances", {})
    yield module
    loop.close()


def sample_type(adapter: ModuleType) -> Any:
    trainer = adapter.__name__.rpartition(".")[2]
    return importlib.import_module(f"{trainer}.utils.types").Sample


def copies(sample: Any, count: int, **changes: Any) -> list[Any]:
    """Return copies of a sample with some fields changed, as a generate function that fans out makes them."""
    made = [copy.copy(sample) for _ in range(count)]
    for each in made:
        vars(each).update(changes)
    return made


def arguments(folder, *, rows=None, **changes) -> Namespace:
    names = NAMES if rows is None else rows
    write_lines(folder / "rows.jsonl", [{"text": "?", "metadata": name and {"task_id": name}} for name in names])
    save_tokenizer(folder / "model")
    settings = {
        **dict.fromkeys(UNSET.split()), **dict.fromkeys(OFF.split(), False), "hf_checkpoint": str(folder / "model"),
        "input_key": "text", "load": str(folder / "checkpoints"), "metadata_key": "metadata",
        "n_samples_per_prompt": SAMPLES, "over_sampling_batch_size": 3, "prompt_data": str(folder / "rows.jsonl"),
        "rollout_all_samples_process_path": f"{ADAPTER}.report_all_samples", "rollout_batch_size": 3,
        "rollout_function_path": "slime.rollout.sglang_rollout.generate_rollout", "rollout_global_dataset": True,
        "rollout_max_response_len": 8, "rollout_seed": 42, "rollout_temperature": 1.0, "rollout_top_k": -1,
        "rollout_top_p": 1.0, "save": str(folder / "checkpoints"), "sglang_router_ip": "127.0.0.1",
        "sglang_router_port": 1, "sglang_server_concurrency": 64,
    }  # fmt: skip
    return Namespace(**{**settings, **changes})


def save_tokenizer(folder) -> None:
    if SOURCE is not None and not folder.exists():
        from tokenizers import Tokenizer, models
        from transformers import PreTrainedTokenizerFast

        words = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
        PreTrainedTokenizerFast(tokenizer_object=words, unk_token="?").save_pretrained(folder)


def finish(adapter, group, rewards, statuses=()) -> None:
    """End each rollout of a group with a reward and 10 tokens; COMPLETED unless said otherwise."""
    status = sample_type(adapter).Status
    for place, (sample, reward) in enumerate(zip(group, rewards, strict=True)):
        sample.reward, sample.response_length = reward, 10
        sample.status = status(statuses[place]) if statuses else status.COMPLETED


def names(groups) -> list[str]:
    return [group[0].metadata["task_id"] for group in groups]


async def generate_at_once(_args, sample, _sampling):
    """Answer with one success in four."""
    sample.reward, sample.status = float(sample.index % SAMPLES == 0), type(sample).Status.COMPLETED
    return sample
