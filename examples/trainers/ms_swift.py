"""ms-swift 4.6.0, GRPO: save as bots_plugin.py, and start with it among the plugins.

    swift rlhf --rlhf_type grpo --external_plugins bots_plugin.py --dataset train.jsonl --split_dataset_ratio 0 ...

ms-swift wants TRL below 1.0 and transformers below 5.20. Each row of the data has a `task_id`, of a dataset that the
service has. What counts as a success is as docs/trainers/trl.md says: pass `success=["accuracy"]` to
`super().__init__`. A step closes with each generation batch, however often dynamic sampling samples it again. A row
that `--truncation_strategy delete` replaces is replaced by one of a selection of its own.
"""

import json
from pathlib import Path

from swift.rlhf_trainers import GRPOTrainer
from swift.trainers import TrainerFactory

from bots_client import Selector
from bots_client.integrations.torch import from_rank_zero
from bots_client.integrations.trl import SelectsTasks

ids = [json.loads(line)["task_id"] for line in Path("train.jsonl").read_text("utf-8").splitlines()]
selector = Selector(None, "guru", ids=ids, share=from_rank_zero)


class SelectedTrainer(SelectsTasks, GRPOTrainer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, selector=selector, **kwargs)

    def _compute_rewards_per_func(self, samples):
        rewards_per_func = super()._compute_rewards_per_func(samples)
        if self.model.training:
            self.observe_rewards([sample.extra["task_id"] for sample in samples], rewards_per_func)
        return rewards_per_func

    def _score_completions(self, samples):
        samples = super()._score_completions(samples)
        if self.model.training:
            self.close_step()
        return samples


TrainerFactory.TRAINER_MAPPING["grpo"] = f"{__name__}.SelectedTrainer"
