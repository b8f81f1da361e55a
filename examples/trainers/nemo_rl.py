"""NeMo-RL, GRPO with `data.custom_dataloader`: save as bots_nemo.py on the path of all workers.

Each datum's `extra_env_info` needs a `task_id`, from your data processor. Create the run once, with the training batch:
`Client().create_run("guru", "nemo", tasks_per_step=4)`; a step closes when so many groups are whole. The configuration
needs `data.use_multiple_dataloader: true`, `data.num_prompts_per_dataloader: 4` and
`data.custom_dataloader: bots_nemo.select`. The environment, in a module of its own:

    @ray.remote
    class BotsMath(ReportsRewards, MathEnvironment.__ray_metadata__.modified_class):
        pass

Only for environments of one turn: one that gives a reward each turn would count each as a rollout. When training
resumes from its step 400, take the run there first: `Client().rewind("guru", 400, run="nemo")`.
"""

from functools import cache

from bots_client import Outcome, ResilientClient, Selector
from bots_client.integrations.rewards import guarded, named, rewards_of

PROMPTS = 4  # grpo.num_prompts_per_step
ROLLOUTS = 8  # grpo.num_generations_per_prompt
REWARD = "sum"  # of several rewards by name: the one that counts, or their sum


@cache
def prepared(dataset):
    """Return where each task's row is, and the selector; once per process."""
    places = {dataset[place]["extra_env_info"]["task_id"]: place for place in range(len(dataset))}
    return places, Selector(None, "guru", "nemo", ids=places)


def select(data_iterators, dataloaders, **records):
    (loader,) = dataloaders.values()
    places, selector = prepared(loader.dataset)
    selection = selector.next(PROMPTS)
    rows = [dict(loader.dataset[places[task]]) for task in selection.ids]
    for row in rows:
        row["extra_env_info"] = {**row["extra_env_info"], "selection_id": selection.selection_id}
    return loader.collate_fn(rows), data_iterators


class ReportsRewards:
    """To stand before an environment among the bases of your own."""

    client = ResilientClient()

    def step(self, message_log_batch, metadata, *rest):
        result = super().step(message_log_batch, metadata, *rest)
        with guarded("rewards of the environment"):
            self.report(metadata, rewards_of(named(result.rewards, REWARD)))
        return result

    def report(self, rows, rewards):
        reports = {}
        for row, reward in zip(rows, rewards, strict=True):
            if row and "selection_id" in row:  # validation's have none
                reports.setdefault(row["selection_id"], {}).setdefault(row["task_id"], []).append(reward)
        for selection_id, groups in reports.items():
            outcomes = [Outcome.rewards(task, group, group_size=ROLLOUTS) for task, group in groups.items()]
            self.client.report("guru", outcomes, run="nemo", selection=selection_id)
