"""AReaL 1.0.4, `PPOTrainer`: in the module that your configuration and your workflow name.

The training data needs a column `task_id`. Create the run once, with the training batch:
`Client().create_run("guru", "areal", tasks_per_step=4)`; a step closes when so many groups are whole. Hand the reward
function to the workflow by its name, to that of the evaluation too: rows without a `selection_id` are not reported.

A workflow that scores a rollout at each turn, such as `MultiTurnWorkflow`, reports a rollout each time: decorate a
function that it calls once. A rollout that fails before it is scored is missing until its group's lease ends. A dataset
with a `scheduling_spec` has its rows elsewhere and is not served. The loader's state holds the selector's; resuming
rewinds the run.
"""

from areal.api.cli_args import ValidDatasetConfig
from areal.trainer.rl_trainer import PPOTrainer
from torchdata.stateful_dataloader import StatefulDataLoader

from bots_client import ResilientClient, Selector
from bots_client.integrations.rewards import reports_rollouts
from bots_client.integrations.torch import SelectedTasks

ROLLOUTS = 8  # your gconfig.n_samples


class BotsPPOTrainer(PPOTrainer):
    def _create_dataloader(self, dataset, dataset_config, rank, world_size):
        if isinstance(dataset_config, ValidDatasetConfig):
            return super()._create_dataloader(dataset, dataset_config, rank, world_size)
        count = dataset_config.batch_size // world_size
        selector = Selector(None, "guru", "areal", ids=dataset["task_id"], rank=rank)
        length = len(dataset) // dataset_config.batch_size * count
        tasks = SelectedTasks(selector, dataset, count=count, length=length, saves_run=True)
        return StatefulDataLoader(tasks, batch_size=count, collate_fn=list)


@reports_rollouts(ResilientClient(), "guru", run="areal", group_size=ROLLOUTS)
def reward(prompt, completion, prompt_ids, completion_ids, answer, **row):
    """Yours: 1 for a right answer."""
    return float(answer in completion)
