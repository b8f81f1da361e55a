"""prime-rl: a task sampler that uses the service, and a task source that installs it.

docs/trainers/prime-rl.md shows how to start an orchestrator with it.
"""

import os
import re
from collections.abc import Sequence
from typing import Any

import verifiers.v1 as vf
from prime_rl.orchestrator.curriculum.samplers import TaskSampler
from prime_rl.orchestrator.train_source import TrainSource

from bots_client import ResilientClient, Selector
from bots_client.integrations._selected_groups import TaskBuffer
from bots_client.integrations.rewards import SplitRollouts, guarded


class ServiceSampler(TaskSampler):
    """Selects tasks with the service, and reports every finished group.

    tasks: of one environment; their keys are the task ids of the selector's dataset.
    tasks_per_step: groups whose evidence closes a step, as many as make up a training batch. So many tasks are
        selected at a time: the belief changes when a step closes, and the orchestrator waits during a call.
    success: name of the reward that says how far a task was solved, in [0, 1]; None: what is optimised, the sum of
        all rewards, which then must lie in the run's reward range.
    rollout_reward: of an episode with several trainable traces, such as those of its agents; see `SplitRollouts`.
    """

    def __init__(
        self,
        tasks: Sequence[vf.Task],
        selector: Selector,
        *,
        tasks_per_step: int,
        success: str | None = None,
        rollout_reward: str | None = None,
    ) -> None:
        self.tasks = {task.key: task for task in tasks}
        self.selector = selector
        self.tasks_per_step = tasks_per_step
        self.success = success
        self.split = SplitRollouts(rollout_reward, option="BOTS_ROLLOUT_REWARD")
        self.observed = 0
        self.task_buffer = TaskBuffer(selector, tasks_per_step)

    def __next__(self) -> vf.Task:
        [(task, _)] = self.task_buffer.take(1)
        return self.tasks[task.id]

    def observe(self, group: list[vf.Episode]) -> None:
        """Report a finished group by the trainable traces of its episodes; without any, report it as aborted."""
        rewards: list[float | None] = [None]
        successes: float | None = None
        with guarded("rewards of a group"):  # without them its lease ends all the same
            rewards, successes = self._measured(group)
        self.selector.observe(group[0].task.key, rewards, successes=successes)
        self.observed += any(reward is not None for reward in rewards)
        if self.observed >= self.tasks_per_step:
            self.observed = 0
            self.selector.step()

    def _measured(self, group: list[vf.Episode]) -> tuple[list[float | None], float | None]:
        """Return the rewards of a group's episodes, None for one that is no evidence, and the number of successes."""
        episodes = [[trace for trace in episode.traces if _is_evidence(episode, trace)] for episode in group]
        rewards = [[trace.reward for trace in traces] for traces in episodes]
        name = self.success
        if name is None or any(trace.rewards.get(name) is None for traces in episodes for trace in traces):
            return self.split.measured(rewards, None)
        return self.split.measured(rewards, [[trace.rewards[name].score for trace in traces] for traces in episodes])

    def state_dict(self) -> dict[str, Any]:
        return self.selector.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.selector.load_state_dict(state_dict)
        self.observed = 0
        self.task_buffer.clear()

    def metrics(self) -> dict[str, float]:
        return self.selector.metrics()


class ServiceTrainSource(TrainSource):
    """prime-rl's task source with a `ServiceSampler` for each environment; gates work as configured.

    Environment variables configure it:
        BOTS_DATASET: the dataset; of several environments each has its own, with "-" and the environment's name behind.
        BOTS_TASKS_PER_STEP: groups of a training batch, over all environments.
        BOTS_RUN: default "default".
        BOTS_SUCCESS: name of the reward that says how far a task was solved; default: the sum of all.
        BOTS_ROLLOUT_REWARD: of an episode with several trainable traces: "sum", "last" or "max"; see `ServiceSampler`.

    Datasets that don't exist are created from the environments' tasks.

    Raises:
        ValueError: the tasks of an environment have no end, or two have the same key.
        KeyError: a variable is not set.
    """

    def __init__(self, train_envs: Any) -> None:
        super().__init__(train_envs)
        total = sum(self.weights)
        for name, weight in zip(self.env_names, self.weights, strict=True):
            tasks = self.curricula[name].sampler.tasks
            if tasks is None:
                raise ValueError(f"the service selects out of finite tasksets; the tasks of {name} have no end")
            share = round(int(os.environ["BOTS_TASKS_PER_STEP"]) * weight / total)
            self.curricula[name].sampler = self.sampler_of(name, tasks, max(1, share))

    def sampler_of(self, environment: str, tasks: Sequence[vf.Task], tasks_per_step: int) -> TaskSampler:
        dataset = os.environ["BOTS_DATASET"]
        if len(self.env_names) > 1:
            dataset = f"{dataset}-{re.sub('[^A-Za-z0-9._-]', '_', environment)}"
        run = os.environ.get("BOTS_RUN", "default")
        selector = Selector(ResilientClient(), dataset, run, ids=[task.key for task in tasks])
        selector.register()
        return ServiceSampler(
            tasks,
            selector,
            tasks_per_step=tasks_per_step,
            success=os.environ.get("BOTS_SUCCESS") or None,
            rollout_reward=os.environ.get("BOTS_ROLLOUT_REWARD") or None,
        )


def _is_evidence(episode: Any, trace: Any) -> bool:
    """Return whether a trace is evidence: complete, by the model in training, with a turn of its own."""
    return episode.ok and not trace.has_error and trace.agent.trainable and trace.num_turns > 0
