"""prime-rl for tests: a checkout of the real one, or the least that its curriculum does, in our own words.

prime-rl is no package that pip could fetch. PRIME_RL_SOURCE names the folder of a checkout: there the tests run its
own files. What these import and can't have here (the configuration, algorithms, environments) is replaced, module by
module, and only where it does not import; so is verifiers, where it is not installed.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

from tests.trainers.standins import adapter_on


@dataclass(frozen=True)
class Task:
    key: str


class Sampler(Iterator[Task], ABC):
    """Chooses tasks."""

    @abstractmethod
    def __next__(self) -> Task:
        """Choose one."""


class Curriculum:
    """Hosts a sampler, out of a fixed list of kinds, and gates."""

    def __init__(self, config: Any, tasks: Sequence[Task] | Iterator[Task]) -> None:
        assert config is None or config.sampler.type == "standard"
        self.sampler: Any = SimpleNamespace(tasks=tuple(tasks) if isinstance(tasks, Sequence) else None)
        self.gates: dict[str, Any] = dict(config.gates) if config else {}

    def on_result(self, group: list[Any]) -> bool:
        self.sampler.observe(group)
        return all(gate(group) for gate in self.gates.values())

    def state_dict(self) -> dict[str, Any]:
        return {"sampler": self.sampler.state_dict(), "gates": {name: {} for name in self.gates}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.sampler.load_state_dict(state["sampler"])

    def metrics(self) -> dict[str, float]:
        return {f"sampler/{name}": value for name, value in self.sampler.metrics().items()}


class TrainSource:
    """Hosts a curriculum for each environment."""

    def __init__(self, train_envs: Sequence[Any]) -> None:
        self.curricula = {
            env.name: Curriculum(env.config.curriculum, env.tasks if env.num_tasks is None else list(env.tasks))
            for env in train_envs
        }
        self.env_names = [env.name for env in train_envs]
        self.weights = [float(env.config.ratio) for env in train_envs]

    def metrics(self) -> dict[str, float]:
        return {
            f"curriculum/{name}/{key}": value
            for name, curriculum in self.curricula.items()
            for key, value in curriculum.metrics().items()
        }


@dataclass
class StandardConfig:
    type: str = "standard"


@dataclass
class Config:
    sampler: Any = field(default_factory=StandardConfig)
    gates: dict[str, Any] = field(default_factory=dict)


@dataclass
class GateConfig:
    reject_min: float = 0.0
    reject_max: float = 0.0


VERIFIERS: dict[str, dict[str, object]] = {"verifiers": {}, "verifiers.v1": {"Task": Task, "Episode": SimpleNamespace}}
PROTOCOL: dict[str, dict[str, object]] = {
    **VERIFIERS,
    "prime_rl": {},
    "prime_rl.orchestrator": {},
    "prime_rl.orchestrator.curriculum": {},
    "prime_rl.orchestrator.curriculum.samplers": {"TaskSampler": Sampler},
    "prime_rl.orchestrator.train_source": {"TrainSource": TrainSource},
    "prime_rl.orchestrator.orchestrator": {"main": None},
}
STAND_INS: dict[str, dict[str, object]] = {
    **VERIFIERS,
    "prime_rl.configs": {},
    "prime_rl.configs.orchestrator": {
        "AdvRangeGateConfig": GateConfig,
        "CurriculumConfig": Config,
        "DifficultyPoolSamplerConfig": type("DifficultyPoolSamplerConfig", (), {}),
        "StandardSamplerConfig": StandardConfig,
    },
    "prime_rl.orchestrator.algo.base": {"iter_trainable_traces": lambda episodes: episodes},
    "prime_rl.orchestrator.envs": {"TrainEnvs": list},
    "prime_rl.orchestrator.types": {"TaskRequest": SimpleNamespace},
    "prime_rl.orchestrator.utils": {"episode_env_name": None},
    "prime_rl.orchestrator.orchestrator": {"main": None},
}


@contextmanager
def prime_rl_of(source: str | None) -> Iterator[ModuleType]:
    path = None if source is None else f"{source}/src"
    with adapter_on("prime_rl", path=path, protocol=PROTOCOL, stand_ins=STAND_INS) as module:
        yield module


def task_of(name: str) -> Any:
    """Return a task, verifiers' own where that is installed; its key is then a hash."""
    vf: Any = sys.modules["verifiers.v1"]
    return Task(name) if vf.Task is Task else vf.Task(vf.TaskData(prompt=name))


def env_of(name: str, tasks: Any, *, ratio: float = 1.0, config: Any = None) -> Any:
    many = len(tasks) if isinstance(tasks, Sequence) else None
    how = SimpleNamespace(curriculum=config, ratio=ratio, group_size=4)
    return SimpleNamespace(name=name, tasks=iter(tasks), num_tasks=many, config=how)


def episode_of(task: Any, reward: float, *, form: float = 0.0, failed: bool = False, trainable: bool = True) -> Any:
    """Return an episode of one rollout, with a reward for solving the task and one for the answer's form."""
    vf: Any = sys.modules["verifiers.v1"]
    if vf.Task is Task:
        agent = SimpleNamespace(trainable=trainable)
        rewards = {"solved": SimpleNamespace(score=reward), "form": SimpleNamespace(score=form)}
        trace = SimpleNamespace(
            reward=reward + form, rewards=rewards, has_error=failed, agent=agent, num_turns=1, nodes=[]
        )
        return SimpleNamespace(task=task, traces=[trace], ok=not failed)
    answer = vf.MessageNode(message=vf.AssistantMessage(content="!"), sampled=True, token_ids=[1], mask=[True])
    told = vf.TraceTask(type="Task", data=task.data, key=task.key, hash=task.hash)
    agent = vf.AgentInfo(config=vf.AgentConfig(), trainable=trainable)
    rewards = {"solved": vf.Reward(score=reward), "form": vf.Reward(score=form)}
    traces = [vf.Trace(task=told, agent=agent, nodes=[answer], rewards=rewards, ok=not failed)]
    return vf.Episode(task=told, traces=traces, ok=not failed)
