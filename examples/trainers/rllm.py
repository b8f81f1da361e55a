"""rLLM, `UnifiedTrainer` on-policy, with any backend: `class BotsBackend(ReportsEpisodes, TinkerBackend)` or the like.

Each task of the training data needs a `task_id`. Build the trainer with that backend; then

    selector = Selector(None, "guru", ids=[task["task_id"] for task in trainer.train_dataset])
    trainer.backend.selector = selector
    trainer._train_dataloader = SelectedTaskDataLoader(trainer.train_dataset, batch_size, selector)
    trainer.fit()

`rllm.workflow.warm_queue_size` must be 0: that queue works out its order beforehand. Fully asynchronous training
does not call `generate_episodes`. An agent flow's `episode.task` may be an object: its row is then
`episode.task.metadata`.
"""

from rllm.data.dataloader import StatefulTaskDataLoader

from bots_client import Selector
from bots_client.integrations.rewards import guarded, observe_groups


class SelectedTaskDataLoader(StatefulTaskDataLoader):
    def __init__(self, dataset, batch_size, selector):
        super().__init__(dataset, batch_size)
        self._selector = selector
        self._places = {dataset[place]["task_id"]: place for place in range(len(dataset))}

    def __iter__(self):
        while self._cursor + self._batch_size <= len(self._dataset):
            selection = self._selector.next(self._batch_size)
            self._cursor += self._batch_size
            yield [self._dataset[self._places[task]] for task in selection.ids]
        self._epoch, self._cursor = self._epoch + 1, 0

    def state_dict(self):
        return {**super().state_dict(), "selector": self._selector.state_dict()}

    def load_state_dict(self, state):
        self._selector.load_state_dict(state["selector"])
        super().load_state_dict(state)


class ReportsEpisodes:
    """To stand before a backend among the bases of your own."""

    selector: Selector

    async def generate_episodes(self, batch, agent_workflow_engine, is_validation=False, **kwargs):
        episodes = await super().generate_episodes(batch, agent_workflow_engine, is_validation, **kwargs)
        if not is_validation:
            with guarded("rewards of the episodes"):
                tasks = [episode.task["task_id"] for episode in episodes]
                observe_groups(self.selector, tasks, [episode.is_correct for episode in episodes])
            self.selector.step()
        return episodes
