"""prime-rl: a task sampler that uses the service; docs/trainers/prime-rl.md shows how to install it."""

from collections.abc import Sequence
from typing import Any

import verifiers.v1 as vf
from prime_rl.orchestrator.curriculum.samplers import TaskSampler

from bots_client import Selector
from bots_client.integrations._task_buffer import TaskBuffer
from bots_client.integrations.rewards import SplitRollouts, guarded


class ServiceSampler(TaskSampler):
    """Selects an environment's tasks with the service, and reports every finished group.

    Args:
        tasks: of one environment; their keys are the ids of the selector's tasks.
        tasks_per_step: groups of a training batch: so many are selected at a time, and so many close a step.
        success: name of the reward that says how far a task was solved, in [0, 1]; None: the sum of all rewards, which
            prime-rl optimises, and which must then lie in the run's reward range.
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
        self.split = SplitRollouts(rollout_reward, option="rollout_reward")
        self.observed = 0
        self.task_buffer = TaskBuffer(selector, tasks_per_step)
        selector.register()

    def __next__(self) -> vf.Task:
        [(task, _)] = self.task_buffer.take(1)
        return self.tasks[task.id]

    def observe(self, group: list[vf.Episode]) -> None:
        """Report a group by the trainable traces of its episodes; without any, report it as aborted."""
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
        """Return the reward of each episode, None for one that is no evidence, and the number of successes."""
        episodes = [[trace for trace in episode.traces if _is_evidence(episode, trace)] for episode in group]
        rewards = [[trace.reward for trace in traces] for traces in episodes]
        if self.success is None:
            return self.split.measured(rewards, None)
        named = [[trace.rewards[self.success] for trace in traces] for traces in episodes]
        return self.split.measured(rewards, [[each and each.score for each in of_episode] for of_episode in named])

    def state_dict(self) -> dict[str, Any]:
        return self.selector.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.selector.load_state_dict(state_dict)
        self.observed = 0
        self.task_buffer.clear()

    def metrics(self) -> dict[str, float]:
        return self.selector.metrics()


def _is_evidence(episode: Any, trace: Any) -> bool:
    """Return whether a trace is evidence: complete, by the model in training, with a turn of its own."""
    return bool(episode.ok and not trace.has_error and trace.agent.trainable and trace.num_turns > 0)
