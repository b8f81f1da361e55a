import json
from pathlib import Path

import pytest
from datasets import Dataset
from trl import GRPOConfig

from bots_client import Client, ResilientClient, Selector
from bots_client.integrations.torch import from_rank_zero
from bots_client.integrations.trl import STATE_FILE, SelectedGRPOTrainer
from tests.serving import running_service
from tests.trainers import tiny

GENERATIONS = 4
CHUNK = 2  # tasks of a generation batch


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with running_service(tmp_path_factory.mktemp("service")) as service:
        yield service.url


@pytest.fixture
def selector(url, tmp_path, request):
    with Client(url) as direct:
        direct.create_dataset(request.node.name, tiny.TASKS)
    with ResilientClient(url, spool=tmp_path / "spool") as client:
        yield Selector(client, request.node.name, ids=tiny.IDS, share=from_rank_zero)


@pytest.fixture
def train(tmp_path):
    """Train a new model; gives the trainer back."""

    def run(selector, reward_funcs=tiny.begins_well, resume=None, rows=tiny.ROWS, **settings):
        settings = {
            "output_dir": str(tmp_path / "out"),
            "per_device_train_batch_size": CHUNK * GENERATIONS,
            "num_generations": GENERATIONS,
            "max_completion_length": 2,
            "max_steps": 4,
            "logging_steps": 1,
            "save_strategy": "no",
            "report_to": [],
            "use_cpu": True,
            "bf16": False,
            "gradient_checkpointing": False,
            "disable_tqdm": True,
        } | settings
        trainer = SelectedGRPOTrainer(
            tiny.model(),
            reward_funcs,
            GRPOConfig(**settings),
            Dataset.from_list(rows),
            processing_class=tiny.tokenizer(),
            selector=selector,
        )
        trainer.train(resume_from_checkpoint=resume)
        return trainer

    return run


def asked(selector):
    return selector.client.health.selects


def now(selector):
    return selector.client.direct.run(selector.dataset)


def test_training_reports_each_group_once_and_closes_a_step_per_generation_batch(selector, train):
    train(selector)
    run = now(selector)
    assert run.step == 4
    assert run.totals.reported == 4 * CHUNK
    assert run.totals.rollouts == 4 * CHUNK * GENERATIONS
    assert asked(selector) == 4 + 1, "the loader reads one batch ahead"


def test_the_trainers_log_has_the_selectors_metrics(selector, train):
    trainer = train(selector, max_steps=2)
    steps = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert [entry["bots/step"] for entry in steps] == [1, 2]
    assert all(0 <= entry["bots/effective_task_ratio"] <= 1 for entry in steps)


def test_resuming_rewinds_the_run_and_asks_for_nothing_that_is_skipped(selector, train):
    folder = train(selector, save_strategy="steps", save_steps=2).args.output_dir
    assert json.loads(Path(folder, "checkpoint-2", STATE_FILE).read_text())["saved"]["step"] == 2
    before = asked(selector)
    train(selector, resume=f"{folder}/checkpoint-2")
    assert asked(selector) - before == 2 + 1, "steps 3 and 4, and one batch ahead"
    run = now(selector)
    assert (run.epoch, run.step) == (1, 4)
    assert run.totals.reported == 4 * CHUNK
