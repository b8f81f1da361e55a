"""The adapter for prime-rl, against a service.

It is no package that pip could fetch. PRIME_RL_SOURCE names the folder of a checkout: there the tests run its files.
What these import and can't have here (the configuration, algorithms, environments) is replaced, module by module, and
only where it does not import; so is verifiers, where it is not installed. Without a checkout the least that a
curriculum does stands for it.
"""

import importlib
import math
import os
import runpy
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from bots_client import Client, Selector
from tests.trainers.recipes import code_of, create_pool, evidence_of
from tests.trainers.standins import adapter_on


@dataclass(frozen=True)
class Task:
    key: str


class Sampler(Iterator[Task], ABC):
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


SOURCE = os.environ.get("PRIME_RL_SOURCE")
NO_SOURCE = "PRIME_RL_SOURCE names no checkout of prime-rl: its real files are not run"
NAMES = [f"math-{row}" for row in range(12)]
STEP = 2  # groups of a training batch


@pytest.fixture(scope="module", params=["protocol", "source"])
def adapter(request):
    if request.param == "source" and SOURCE is None:
        pytest.skip(NO_SOURCE)
    with prime_rl_of(SOURCE if request.param == "source" else None) as module:
        yield module


@pytest.fixture
def tasks(adapter):
    """The tasks of an environment, in the order in which the service selects them first."""
    return [task_of(name) for name in NAMES]


@pytest.fixture
def keys(tasks) -> list[str]:
    return [task.key for task in tasks]


@pytest.fixture
def dataset(bots: Client, adapter, keys, request) -> str:
    name = f"{request.node.originalname}-{adapter.TaskSampler.__module__.partition('.')[0]}"
    create_pool(bots, name, keys, first=keys)
    return name


@pytest.fixture
def curriculum_of(adapter, dataset):
    curricula = []

    def curriculum(tasks, config=None, **how):
        source = importlib.import_module("prime_rl.orchestrator.train_source").TrainSource(
            [env_of("math", tasks, config=config)]
        )
        curricula.append(source.curricula["math"])
        selector = Selector(None, dataset, ids=[task.key for task in tasks])
        curricula[-1].sampler = adapter.ServiceSampler(tasks, selector, **{"tasks_per_step": STEP, **how})
        return curricula[-1]

    yield curriculum
    for each in curricula:
        each.sampler.selector.client.close()


def group_of(task, *rewards: float):
    return [episode_of(task, reward) for reward in rewards]


def joined_episode(task, *rewards: float):
    first, *others = (episode_of(task, reward) for reward in rewards)
    first.traces.extend(trace for episode in others for trace in episode.traces)
    return first


def test_tasks_come_from_the_service_a_batch_at_a_time(bots: Client, curriculum_of, tasks, dataset):
    sampler = curriculum_of(tasks).sampler
    chosen, leased = [], []
    for _ in range(2 * STEP):
        chosen.append(next(sampler))
        leased.append(bots.run(dataset).leased)
    assert (chosen, leased) == (tasks[: 2 * STEP], [2, 2, 4, 4])
    assert next(iter(sampler)) == tasks[2 * STEP]


def test_a_step_closes_with_as_many_groups_as_make_a_batch(bots: Client, curriculum_of, tasks, keys, dataset):
    curriculum = curriculum_of(tasks)
    chosen = [next(curriculum.sampler) for _ in range(STEP + 1)]
    steps = []
    for task in chosen:
        assert curriculum.on_result(group_of(task, 1, 0, 0, 0)) is True
        steps.append(bots.run(dataset).step)
    assert steps == [0, 1, 1]
    assert evidence_of(bots, dataset, keys) == dict.fromkeys(keys[:STEP], (1, 3))
    assert curriculum.metrics()["sampler/bots/step"] == 1


def test_a_checkpoint_rewinds_and_forgets_what_was_not_reported(bots: Client, curriculum_of, tasks, keys, dataset):
    curriculum = curriculum_of(tasks)

    def train() -> None:
        for _ in range(STEP):
            curriculum.on_result(group_of(next(curriculum.sampler), 1, 0, 0, 0))

    train()
    saved = curriculum.state_dict()
    believed = evidence_of(bots, dataset, keys)
    train()
    curriculum.on_result(group_of(next(curriculum.sampler), 1, 1))
    curriculum.load_state_dict(saved)
    assert (bots.run(dataset).step, bots.run(dataset).epoch) == (1, 1)
    assert evidence_of(bots, dataset, keys) == believed
    train()
    assert bots.run(dataset).totals.reported == 2 * STEP


def test_success_is_the_reward_that_is_named_and_the_sum_says_whether_a_group_teaches(
    bots: Client, curriculum_of, tasks, keys, dataset
):
    curriculum = curriculum_of(tasks, success="solved")
    first, second = (next(curriculum.sampler) for _ in range(STEP))
    curriculum.on_result([episode_of(first, 1, form=form) for form in (0.2, 0)])
    curriculum.on_result([episode_of(second, 1, form=0.2)] * 2)
    assert evidence_of(bots, dataset, keys) == dict.fromkeys(keys[:STEP], (2, 0))
    totals = bots.run(dataset).totals
    assert (totals.reported, totals.effective, totals.all_solved) == (2, 1, 1)


def test_an_episode_of_several_agents_counts_once(bots: Client, curriculum_of, tasks, dataset):
    curriculum = curriculum_of(tasks, rollout_reward="max", tasks_per_step=1)
    task = next(curriculum.sampler)
    curriculum.on_result([joined_episode(task, *of_agents) for of_agents in ((1, 0), (0, 0.5), (1,), (math.nan, 1))])
    totals = bots.run(dataset).totals
    assert (totals.rollouts, totals.successes) == (3, 1 + 0.5 + 1)
    assert curriculum.metrics()["sampler/bots/left_out_rollouts"] == 1


def test_a_reward_that_is_not_there_ends_the_lease_and_is_said(bots: Client, curriculum_of, tasks, dataset, caplog):
    curriculum = curriculum_of(tasks, success=dataset)
    curriculum.on_result(group_of(next(curriculum.sampler), 1, 0))
    curriculum.sampler.selector.step()
    assert (bots.run(dataset).leased, bots.run(dataset).totals.reported) == (1, 0), "of the two that were selected"
    assert f"rewards of a group are not reported: {dataset!r}" in caplog.text


def test_the_launcher_of_the_page_trains_on_what_is_selected(bots: Client, adapter, tmp_path, monkeypatch):
    orchestrator = importlib.import_module("prime_rl.orchestrator.orchestrator")
    train_source = importlib.import_module("prime_rl.orchestrator.train_source")
    kind = adapter.TaskSampler.__module__.partition(".")[0]
    pools = {name: [task_of(f"{name}-{row}") for row in range(6)] for name in ("math", "code")}
    sources = []
    monkeypatch.setattr(orchestrator, "TrainSource", train_source.TrainSource, raising=False)  # so that it comes back
    environments = [env_of(name, tasks) for name, tasks in pools.items()]
    monkeypatch.setattr(orchestrator, "main", lambda: sources.append(orchestrator.TrainSource(environments)))
    names = {name: f"launched-{kind}-{name}" for name in pools}
    code = (
        code_of("prime-rl.md")
        .replace('{"math": "guru"}', repr(names))
        .replace('{"math": 32}', "{'math': 2, 'code': 1}")
    )
    (tmp_path / "orchestrate.py").write_text(code.replace("correct", "solved"), "utf-8")
    runpy.run_path(str(tmp_path / "orchestrate.py"), run_name="__main__")
    [source] = sources
    for name, share in (("math", 2), ("code", 1)):
        sampler = source.curricula[name].sampler
        for _ in range(share):
            task = next(sampler)
            assert task in pools[name]
            source.curricula[name].on_result(group_of(task, 1, 0))
        assert {task.id for task in bots.tasks(names[name])} == {task.key for task in pools[name]}
        assert (bots.run(names[name]).step, bots.run(names[name]).totals.reported) == (1, share)
    assert source.metrics()["curriculum/math/sampler/bots/step"] == 1
    for curriculum in source.curricula.values():
        curriculum.load_state_dict(curriculum.state_dict())
        curriculum.sampler.selector.client.close()
    assert bots.run(names["math"]).epoch == 1
