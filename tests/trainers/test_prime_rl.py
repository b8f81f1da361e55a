"""The adapter for prime-rl, against a service: with the real files of a checkout, and with the protocol they follow."""

import importlib
import math
import os
import runpy

import pytest

from bots_client import Client
from tests.trainers.prime_rls import env_of, episode_of, prime_rl_of, task_of
from tests.trainers.recipes import ROOT, create_pool, evidence_of

SOURCE = os.environ.get("PRIME_RL_SOURCE")
NO_SOURCE = "PRIME_RL_SOURCE names no checkout of prime-rl: its real files are not run"
NAMES = [f"math-{row}" for row in range(12)]
EXAMPLE = ROOT / "examples" / "prime_rl" / "orchestrate.py"
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
def dataset(bots: Client, adapter, keys, request, monkeypatch) -> str:
    name = f"{request.node.originalname}-{adapter.TaskSampler.__module__.partition('.')[0]}"
    create_pool(bots, name, keys, first=keys)
    monkeypatch.setenv("BOTS_DATASET", name)
    monkeypatch.setenv("BOTS_TASKS_PER_STEP", str(STEP))
    return name


@pytest.fixture
def curriculum_of(adapter, dataset):
    curricula = []

    def curriculum(tasks, config=None):
        source = adapter.ServiceTrainSource([env_of("math", tasks, config=config)])
        curricula.append(source.curricula["math"])
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
    bots: Client, curriculum_of, tasks, keys, dataset, monkeypatch
):
    monkeypatch.setenv("BOTS_SUCCESS", "solved")
    curriculum = curriculum_of(tasks)
    first, second = (next(curriculum.sampler) for _ in range(STEP))
    curriculum.on_result([episode_of(first, 1, form=form) for form in (0.2, 0)])
    curriculum.on_result([episode_of(second, 1, form=0.2)] * 2)
    assert evidence_of(bots, dataset, keys) == dict.fromkeys(keys[:STEP], (2, 0))
    totals = bots.run(dataset).totals
    assert (totals.reported, totals.effective, totals.all_solved) == (2, 1, 1)


def test_an_episode_of_several_agents_counts_once(bots: Client, curriculum_of, tasks, dataset, monkeypatch):
    for name, value in (("BOTS_ROLLOUT_REWARD", "max"), ("BOTS_TASKS_PER_STEP", "1")):
        monkeypatch.setenv(name, value)
    curriculum = curriculum_of(tasks)
    task = next(curriculum.sampler)
    curriculum.on_result([joined_episode(task, *of_agents) for of_agents in ((1, 0), (0, 0.5), (1,), (math.nan, 1))])
    totals = bots.run(dataset).totals
    assert (totals.rollouts, totals.successes) == (3, 1 + 0.5 + 1)
    assert curriculum.metrics()["sampler/bots/left_out_rollouts"] == 1


def test_several_environments_have_a_dataset_and_their_share_of_a_step_each(bots: Client, adapter, monkeypatch):
    kind = adapter.TaskSampler.__module__.partition(".")[0]
    monkeypatch.setenv("BOTS_DATASET", f"pool-{kind}")
    monkeypatch.setenv("BOTS_TASKS_PER_STEP", "4")
    math, code = ([task_of(f"{name}-{row}") for row in range(6)] for name in ("math", "code"))
    source = adapter.ServiceTrainSource([env_of("org/math", math, ratio=3), env_of("code", code)])
    for name, tasks, share in (("org/math", math, 3), ("code", code, 1)):
        dataset = f"pool-{kind}-{name.replace('/', '_')}"
        sampler = source.curricula[name].sampler
        for _ in range(share):
            task = next(sampler)
            assert task in tasks
            source.curricula[name].on_result(group_of(task, 1, 0))
        assert [task.id for task in bots.tasks(dataset)] == [task.key for task in tasks]
        assert (bots.run(dataset).step, bots.run(dataset).totals.reported) == (1, share)
        sampler.selector.client.close()


def test_the_example_puts_our_source_in_place(bots: Client, adapter, tasks, keys, monkeypatch):
    orchestrator = importlib.import_module("prime_rl.orchestrator.orchestrator")
    train_source = importlib.import_module("prime_rl.orchestrator.train_source")
    sources = []
    monkeypatch.setattr(orchestrator, "TrainSource", train_source.TrainSource, raising=False)  # so that it comes back
    monkeypatch.setattr(orchestrator, "main", lambda: sources.append(orchestrator.TrainSource([env_of("math", tasks)])))
    name = f"example-{adapter.TaskSampler.__module__.partition('.')[0]}"
    monkeypatch.setenv("BOTS_DATASET", name)
    monkeypatch.setenv("BOTS_TASKS_PER_STEP", str(STEP))
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    [source] = sources
    bots.create_run(name, "default", belief="bots")
    curriculum = source.curricula["math"]
    chosen = [next(curriculum.sampler) for _ in range(STEP)]
    for task in chosen:
        curriculum.on_result(group_of(task, 1, 0))
    assert bots.dataset(name).tasks == len(keys)
    assert evidence_of(bots, name, keys) == dict.fromkeys((task.key for task in chosen), (1, 1))
    assert source.metrics()["curriculum/math/sampler/bots/step"] == 1
    curriculum.load_state_dict(curriculum.state_dict())
    assert bots.run(name).epoch == 1
    curriculum.sampler.selector.client.close()
