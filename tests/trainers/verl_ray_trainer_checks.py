"""verl 0.7.1 and 0.8.0 as they are, up to where they need a GPU; test_verl.py runs this in a process that has one."""

import io
from importlib.metadata import version as version_of

import pytest
import torch
from tensordict import TensorDict
from verl.experimental.reward_loop import migrate_legacy_reward_impl
from verl.trainer.main_ppo import create_rl_dataset, create_rl_sampler
from verl.trainer.ppo.ray_trainer import RayPPOTrainer

from tests.trainers.verl_training import TASKS, configuration, roll_out

RUN = ("gsm8k", f"verl-{version_of('verl')}")


@pytest.fixture(scope="session")
def version():
    return RUN[1]


@pytest.fixture
def trainer(folder, tokenizer, bots):
    def made() -> RayPPOTrainer:
        config = migrate_legacy_reward_impl(configuration("train.sh", folder, {"data.bots.run": RUN[1]}))
        trainer = object.__new__(RayPPOTrainer)
        trainer.config, trainer.tokenizer, trainer.processor = config, tokenizer, None
        train = create_rl_dataset(config.data.train_files, config.data, tokenizer, None)
        val = create_rl_dataset(config.data.val_files, config.data, tokenizer, None, is_train=False)
        trainer._create_dataloader(train, val, None, create_rl_sampler(config.data, train))
        return trainer

    return made


def rows_of(batch: dict) -> list[dict]:
    """Return the rows of a batch as verl's own collate function makes it."""
    names = [name for name, values in batch.items() if not isinstance(values, torch.Tensor | TensorDict)]
    return [{name: batch[name][place] for name in names} for place in range(len(batch["extra_info"]))]


def test_each_batch_is_one_selection_whose_rewards_are_the_evidence_of_its_step(trainer, bots):
    trainer = trainer()
    batches = [rows_of(batch) for batch in trainer.val_dataloader]
    roll_out(trainer, batches[0], solved=1)
    assert bots.run(*RUN).seq == 0, "validation is not reported"
    for batch in trainer.train_dataloader:
        assert len({row["extra_info"]["task_id"] for row in rows_of(batch)}) == 8
        roll_out(trainer, rows_of(batch), solved=1)
    history = list(bots.history(*RUN))
    steps = TASKS // 8
    assert [(step.reported, step.effective, step.rollouts) for step in history] == [(8, 8, 32)] * (steps - 1)
    assert {step.success_rate for step in history} == {0.25}
    assert bots.run(*RUN).pending == 8, "the last step closes at the next fetch"
    assert trainer.train_dataset.selector.client.health.selects == steps


def test_a_resumed_loader_selects_only_what_is_trained_on(trainer, bots):
    first = trainer()
    batches = iter(first.train_dataloader)
    for _ in range(2):
        roll_out(first, rows_of(next(batches)), solved=2)
    file = io.BytesIO()
    torch.save(first.train_dataloader.state_dict(), file)
    file.seek(0)
    before = {task.id: task.mean for task in bots.tasks(*RUN)}
    roll_out(first, rows_of(next(batches)), solved=4)
    next(batches)
    assert bots.run(*RUN).step == 3

    second = trainer()
    second.train_dataloader.load_state_dict(torch.load(file, weights_only=False))
    next(iter(second.train_dataloader))
    assert (bots.run(*RUN).step, bots.run(*RUN).epoch) == (2, 1)
    assert {task.id: task.mean for task in bots.tasks(*RUN)} == before
    assert second.train_dataset.selector.client.health.selects == 1
