"""What tests/trainers/test_ms_swift.py starts beside ms-swift's packages: trains twice, the second time resuming."""

import json
import sys
from pathlib import Path
from typing import Any

from swift import RLHFArguments, rlhf_main  # the test brings it
from transformers import Qwen2Config, Qwen2ForCausalLM

from tests.trainers import tiny

PLUGIN = """
from swift.rewards import ORM, orms


class BeginsWell(ORM):
    def __call__(self, completions, wanted, **columns):
        return [float(answer[:1] in letters and answer != "") for answer, letters in zip(completions, wanted)]


orms["begins_well"] = BeginsWell
"""


def save_model(folder: str) -> None:
    size = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    tokens = {"vocab_size": len(tiny.LETTERS) + 3, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": 1}
    Qwen2ForCausalLM(Qwen2Config(**size, **tokens, num_key_value_heads=2)).save_pretrained(folder)
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    tokenizer.save_pretrained(folder)


def train(plugin: str, **settings: Any) -> None:
    common = {
        "rlhf_type": "grpo", "model": "model", "model_type": "qwen2", "template": "dummy", "torch_dtype": "float32",
        "tuner_type": "full", "dataset": ["train.jsonl"], "split_dataset_ratio": 0, "external_plugins": [plugin],
        "reward_funcs": ["begins_well"], "per_device_train_batch_size": 8, "num_generations": 4,
        "gradient_accumulation_steps": 1, "max_completion_length": 2, "max_length": 64, "max_steps": 4,
        "save_steps": 2, "report_to": [], "add_version": False, "load_from_cache_file": False,
        "gradient_checkpointing": False, "bf16": False, "fp16": False, "use_hf": True,
    }  # fmt: skip
    rlhf_main(RLHFArguments(**common | settings))


def main(recipe: Path) -> None:
    save_model("model")
    rows = [
        {"messages": [{"role": "user", "content": row["prompt"]}], "task_id": row["task_id"], "wanted": row["wanted"]}
        for row in tiny.ROWS
    ]
    Path("train.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    code = recipe.read_text("utf-8")
    for dataset in ("plain", "dynamic"):
        Path(f"{dataset}_plugin.py").write_text(code.replace('"guru"', f'"{dataset}"') + PLUGIN, "utf-8")
    train("plain_plugin.py", output_dir="out")
    train("plain_plugin.py", output_dir="out", resume_from_checkpoint="out/checkpoint-2")
    train("dynamic_plugin.py", output_dir="out-dynamic", dynamic_sample=True, max_resample_times=3)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
