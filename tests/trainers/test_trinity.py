"""The adapter for Trinity-RFT, in Trinity's own scheduler, readers, registries and operators, against a service."""

import asyncio
import importlib
import json
import math
import sys
from pathlib import Path

import pytest

from bots_client import Client
from tests.trainers.recipes import blocks, create_pool, evidence_of, folder_of, write_lines

SELECTOR = "bots_client.integrations.trinity.ServiceSelector"
COUNTER = "bots_client.integrations.trinity.RolloutCounter"
ROLLOUTS = 4
BATCH = 3
ROWS = [{"id": f"math-{row}", "question": f"{row} + 1 = ?", "answer": str(row + 1)} for row in range(24)]
IDS = [row["id"] for row in ROWS]
BEST = ["math-20", "math-3", "math-11", "math-7", "math-15", "math-0", "math-9", "math-22", "math-5"]


@pytest.fixture(scope="module", autouse=True)
def trinity():
    sys.path.append(str(folder_of("trinity-rft==0.6.0")))
    yield
    sys.path.pop()


class Host:
    """Trinity's explorer, as far as tasks are concerned: reads batches, rolls out, feeds back."""

    def __init__(self, config, *, state=None) -> None:
        scheduler = importlib.import_module("trinity.buffer.task_scheduler")
        self.scheduler = scheduler.get_taskset_scheduler(state or {}, config)
        operators = importlib.import_module("trinity.buffer.operators")
        [self.operator] = operators.create_operators(config.data_processor.experience_pipeline.operators)
        self.steps = 0

    @property
    def selectors(self):
        return [taskset.reader.selector for taskset in self.scheduler.tasksets]

    def read(self):
        return asyncio.run(self.scheduler.read())

    def feed_back(self, batch, rewards, *, turns: int = 1, accuracy: float | None = None):
        """Finish a step in which each rollout of a task had such a reward; return the operator's metrics.

        A list of rewards has one for each turn. accuracy: of all experiences.
        """
        experience = importlib.import_module("trinity.common.experience")
        self.steps += 1
        experiences = [
            experience.Experience(
                eid=experience.EID(batch=self.steps, task=number, run=run, step=turn),
                tokens=[1, 2, 3],
                reward=reward,
                info={"task_index": task.index},
                metrics={} if accuracy is None else {"accuracy": accuracy},
            )
            for number, task in enumerate(batch)
            for run, of_run in enumerate(rewards[task.raw_task["id"]])
            for turn, reward in enumerate(of_run if isinstance(of_run, list) else [of_run] * turns)
        ]
        kept, metrics = asyncio.run(self.operator.process(experiences))
        assert kept == experiences
        self.scheduler.feedback(metrics)
        return metrics


@pytest.fixture
def hosting(tmp_path):
    hosts: list[Host] = []

    def host(*datasets: str, config=None, state=None, **options) -> Host:
        hosts.append(Host(config or configured(tmp_path, *datasets, **options), state=state))
        return hosts[-1]

    yield host
    for each in hosts:
        for selector in each.selectors:
            selector.selector.client.close()


def configured(folder: Path, *datasets: str, rows=ROWS, operator: str = COUNTER, args=None, **kwargs):
    write_lines(folder / "rows" / "train.jsonl", rows)
    config = importlib.import_module("trinity.common.config")
    options = {"rollouts": ROLLOUTS, "id_key": "id", **kwargs}
    whole = config.Config()
    whole.buffer.batch_size, whole.buffer.total_epochs = BATCH, 9
    whole.data_processor.experience_pipeline.operators = [config.OperatorConfig(name=operator, args=args or {})]
    whole.buffer.explorer_input.tasksets = [
        config.TasksetConfig(
            name=dataset,
            path=str(folder / "rows"),
            default_workflow_type="math_workflow",
            format=config.FormatConfig(prompt_key="question", response_key="answer"),
            data_selector=config.DataSelectorConfig(SELECTOR, kwargs={"dataset": dataset, **options}),
            batch_size=BATCH,
            total_epochs=9,
        )
        for dataset in datasets
    ]
    return whole


def ids(batch) -> list[str]:
    return [task.raw_task["id"] for task in batch]


def one_of_four(batch) -> dict[str, list[float]]:
    return {task: [1.0, 0.0, 0.0, 0.0] for task in ids(batch)}


def test_a_taskset_reads_what_the_service_selects(bots: Client, hosting):
    create_pool(bots, "reads", IDS, first=BEST)
    host = hosting("reads")
    assert [ids(host.read()), ids(host.read())] == [BEST[:BATCH], BEST[BATCH : 2 * BATCH]]
    assert bots.run("reads").leased == 2 * BATCH


def test_turns_with_rewards_of_their_own_are_one_rollout(bots: Client, hosting):
    create_pool(bots, "own-turns", IDS, first=BEST)
    host = hosting("own-turns", args={"rollout_reward": "max"})
    turns = {BEST[0]: [[0.0, 1.0], [1.0, 0.0], [0.25, 0.5], [math.nan, 1.0]], BEST[1]: [[0.0, 0.0]], BEST[2]: []}
    host.feed_back(host.read(), turns)
    alpha = evidence_of(bots, "own-turns", IDS)
    assert alpha[BEST[0]] == pytest.approx((2.5, 0.5))
    assert alpha[BEST[1]] == (0, 1)
    [selector] = host.selectors
    assert selector.selector.client.health.left_out_rollouts == 1


def test_resuming_from_an_explorers_checkpoint_rewinds_and_a_fresh_start_does_not(bots: Client, hosting):
    create_pool(bots, "resume", IDS)
    host = hosting("resume")
    for _ in range(2):
        batch = host.read()
        host.feed_back(batch, one_of_four(batch))
    # What Trinity's state manager writes and reads.
    saved = json.loads(json.dumps({"latest_iteration": 2, "taskset_states": host.scheduler.state_dict()}))
    believed = evidence_of(bots, "resume", IDS)
    batch = host.read()
    host.feed_back(batch, one_of_four(batch))
    assert (bots.run("resume").step, bots.run("resume").epoch) == (3, 0)
    hosting("resume")
    assert (bots.run("resume").step, bots.run("resume").epoch) == (3, 0)
    hosting("resume", state=saved)
    assert (bots.run("resume").step, bots.run("resume").epoch) == (2, 1)
    assert evidence_of(bots, "resume", IDS) == believed


def test_the_page_is_what_trinity_loads_and_trains_with(bots: Client, hosting, tmp_path, monkeypatch):
    rows = [{"id": f"math-{row}", "question": "?", "answer": "!"} for row in range(100)]
    write_lines(tmp_path / "data" / "train.jsonl", rows)
    monkeypatch.chdir(tmp_path)
    [shown] = blocks("trinity.md", "yaml")
    Path("config.yaml").write_text(shown.replace("http://bots.example.com:8765", bots.url))
    config = importlib.import_module("trinity.common.config").load_config("config.yaml")
    validators = importlib.import_module("trinity.common.config_validator")
    validators.BufferConfigValidator()._check_explorer_input(config)
    host = hosting(config=config)
    batch = host.read()
    host.feed_back(batch, {task: [1.1] * 12 + [-0.1] * 4 for task in ids(batch)})
    run = bots.run("guru", "qwen3-4b")
    assert run.step == 1
    assert (run.totals.rollouts, run.totals.successes) == pytest.approx((32 * 16, 32 * 12))
