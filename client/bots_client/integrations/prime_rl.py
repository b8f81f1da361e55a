"""prime-rl: a task sampler that asks the service, and the curriculum that puts it in place.

docs/trainers/prime-rl.md shows how to start an orchestrator with it.
"""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import verifiers.v1 as vf
from prime_rl.orchestrator.curriculum import Curriculum
from prime_rl.orchestrator.curriculum.samplers import TaskSampler

from bots_client import ResilientClient, Selector


class ServiceSampler(TaskSampler):
    """Chooses each next task by the service, and reports every finished group.

    Args:
        tasks: of one environment; their keys are the ids that the service knows.
        selector: of the dataset with these tasks.
        tasks_per_step: groups whose evidence closes a step, as many as make up a training batch. So many tasks are
            selected at a time: the belief changes when a step closes, and the orchestrator waits during a call.
    """

    def __init__(self, tasks: Sequence[vf.Task], selector: Selector, *, tasks_per_step: int) -> None:
        self.tasks = {task.key: task for task in tasks}
        self.selector = selector
        self.tasks_per_step = tasks_per_step
        self.observed = 0
        self.chosen: list[str] = []

    def __next__(self) -> vf.Task:
        """Return the task to roll out next."""
        if not self.chosen:
            self.chosen = list(self.selector.next(min(self.tasks_per_step, len(self.tasks))).ids)
        return self.tasks[self.chosen.pop(0)]

    def observe(self, group: list[vf.Episode]) -> None:
        """Report a finished group by the traces that can be trained on; without any it is evidence of nothing."""
        task = group[0].task.key
        rewards = [trace.reward for episode in group for trace in episode.traces if _is_evidence(episode, trace)]
        if not rewards:
            self.selector.abort(task)
            return
        self.selector.observe(task, rewards)
        self.observed += 1
        if self.observed >= self.tasks_per_step:
            self.observed = 0
            self.selector.step()

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return self.selector.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Rewind to a checkpoint; what was observed and not yet reported is forgotten."""
        self.selector.load_state_dict(state_dict)
        self.observed, self.chosen = 0, []

    def metrics(self) -> dict[str, float]:
        """Return what to draw over the training, such as bots/effective_task_ratio."""
        return self.selector.metrics()


class ServiceCurriculum(Curriculum):
    """prime-rl's curriculum with its configured gates, and a `ServiceSampler` instead of the configured sampler.

    The environment says which dataset, run and step: BOTS_DATASET, BOTS_RUN (default "default") and
    BOTS_TASKS_PER_STEP. Override `sampler_of` where several environments train, each with a dataset of its own.

    Raises:
        ValueError: the tasks have no end, or two have the same key.
        KeyError: a variable is not set.
    """

    def __init__(self, config: Any, tasks: Sequence[vf.Task] | Iterator[vf.Task]) -> None:
        super().__init__(config, tasks)
        if not isinstance(tasks, Sequence):
            raise ValueError("the service selects out of a finite taskset; these tasks come without an end")
        self.sampler = self.sampler_of(tasks)

    def sampler_of(self, tasks: Sequence[vf.Task]) -> TaskSampler:
        """Return the sampler of one environment's tasks."""
        selector = Selector(
            ResilientClient(),
            os.environ["BOTS_DATASET"],
            os.environ.get("BOTS_RUN", "default"),
            ids=[task.key for task in tasks],
        )
        return ServiceSampler(tasks, selector, tasks_per_step=int(os.environ["BOTS_TASKS_PER_STEP"]))


def _is_evidence(episode: Any, trace: Any) -> bool:
    """Say whether a trace shows what the model in training can do: whole, by that model, with a turn of its own."""
    return episode.ok and not trace.has_error and trace.agent.trainable and trace.num_turns > 0
