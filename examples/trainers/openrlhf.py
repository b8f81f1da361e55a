"""OpenRLHF 0.11.2: save as train_bots.py and run it in the place of `python -m openrlhf.cli.train_ppo_ray`.

It has no place for plug-ins: this launcher puts a loader and a sample generator into the trainer, and then runs it. Put
each task's id into the column `datasource` of the training data; OpenRLHF reads it for evaluation data only. Ray must
hand BOTS_URL to its workers (`ray job submit --runtime-env-json`).

A step closes after each `generate_samples` that generated something: with --rollout.vllm_generate_batch_size beyond the
batch this is a generation, not an update. Rewards are the reward function's `scores`, else its `rewards`, in the run's
reward range; those of a reward model are not seen. The second of two tasks with the same prompt gets the evidence of
both. The loader's state holds the selector's; resuming rewinds the run.
"""

import runpy

from openrlhf.trainer import ppo_trainer, ppo_trainer_async
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

from bots_client import Selector
from bots_client.integrations.rewards import guarded
from bots_client.integrations.torch import selected

prepare_datasets = ppo_trainer.prepare_datasets


def prepare_selected(strategy, tokenizer):
    loader, eval_loader, max_steps = prepare_datasets(strategy, tokenizer)
    rows = loader.dataset
    selector = Selector(None, "guru", ids=rows.datasources)
    loader = selected(loader, selector, count=strategy.args.rollout.batch_size)
    loader.selector, loader.task_of = selector, dict(zip(rows.prompts, rows.datasources, strict=True))
    return loader, eval_loader, max_steps


class BotsSamplesGenerator(SamplesGenerator):
    training = False

    def generate_samples(self, **kwargs):
        self.training = True
        try:
            return super().generate_samples(**kwargs)
        finally:
            self.training = False
            self.prompts_dataloader.selector.step()

    def _process_response_into_experience(self, response, **kwargs):
        if self.training:  # evaluation comes by here too
            with guarded("rewards of a response"):
                loader = self.prompts_dataloader
                loader.selector.observe(loader.task_of[response["prompt"]], response["scores"])
        return super()._process_response_into_experience(response, **kwargs)


for module in (ppo_trainer, ppo_trainer_async):
    module.prepare_datasets, module.SamplesGenerator = prepare_selected, BotsSamplesGenerator

if __name__ == "__main__":
    runpy.run_module("openrlhf.cli.train_ppo_ray", run_name="__main__")
