"""Start prime-rl's orchestrator with tasks that the service chooses.

BOTS_URL=http://127.0.0.1:8000 BOTS_DATASET=math BOTS_TASKS_PER_STEP=32 python orchestrate.py @ orchestrator.toml

It takes the place of the command `orchestrator`; inference and trainer are started as ever.
"""

import os
from collections.abc import Sequence

import verifiers.v1 as vf
from prime_rl.orchestrator import orchestrator, train_source
from prime_rl.orchestrator.curriculum.samplers import TaskSampler

from bots_client import Client, Task
from bots_client.integrations.prime_rl import ServiceCurriculum


class RegisteringCurriculum(ServiceCurriculum):
    """Tells the service first which tasks there are; a second time changes nothing."""

    def sampler_of(self, tasks: Sequence[vf.Task]) -> TaskSampler:
        """Return the sampler of one environment's tasks."""
        with Client() as bots:
            bots.create_dataset(os.environ["BOTS_DATASET"], [Task(task.key) for task in tasks])
        return super().sampler_of(tasks)


if __name__ == "__main__":
    train_source.Curriculum = RegisteringCurriculum  # the configuration knows prime-rl's own samplers alone
    orchestrator.main()
