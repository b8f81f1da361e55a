"""verl 0.7.1 as it is, up to where it needs a GPU; test_verl.py runs this in a process that has it."""

import io
import uuid

import numpy as np
import pytest
import torch
from verl import DataProto
from verl.trainer.main_ppo import create_rl_dataset, create_rl_sampler
from verl.trainer.ppo.ray_trainer import RayPPOTrainer

from tests.trainers.verl_training import TASKS, configuration

RUN = ("gsm8k", "verl-0.7")
ROLLOUTS = 4


@pytest.fixture(scope="session")
def version():
    return RUN[1]


@pytest.fixture
def trainer(folder, tokenizer, bots):
    def made(overrides: dict[str, object] = {}) -> RayPPOTrainer:  # noqa: B006 - nobody changes it
        config = configuration("train_0_7.sh", folder, {"data.bots.run": RUN[1], **overrides})
        trainer = object.__new__(RayPPOTrainer)
        trainer.config, trainer.tokenizer, trainer.processor = config, tokenizer, None
        train = create_rl_dataset(config.data.train_files, config.data, tokenizer, None)
        trainer._create_dataloader(train, None, None, create_rl_sampler(config.data, train))
        return trainer

    return made


def roll_out(trainer: RayPPOTrainer, rows: dict, solved: int) -> DataProto:
    """Return what verl hands to `update` after a step: each row some times over, shuffled, so many of them right."""
    batch = DataProto.from_single_dict(rows)
    batch.non_tensor_batch["uid"] = np.array([str(uuid.uuid4()) for _ in range(len(batch))], dtype=object)
    trainer._get_gen_batch(batch)  # takes out what goes into the rollouts
    batch = batch.repeat(repeat_times=ROLLOUTS, interleave=True)
    scores = torch.zeros(len(batch), 3)
    scores[:, -1] = torch.tensor([float(at % ROLLOUTS < solved) for at in range(len(batch))])
    batch.batch["token_level_scores"] = scores
    batch.reorder(torch.randperm(len(batch), generator=torch.Generator().manual_seed(0)))
    return batch


def saved(trainer: RayPPOTrainer) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(trainer.train_dataloader.state_dict(), file)
    file.seek(0)
    return file


def ids(rows: dict) -> list[str]:
    return [str(row["index"]) for row in rows["extra_info"]]


def test_each_batch_that_comes_back_closes_a_step_with_its_evidence(trainer, bots):
    trainer = trainer()
    chosen = []
    for rows in trainer.train_dataloader:
        chosen.append(ids(rows))
        trainer.train_dataloader.sampler.update(batch=roll_out(trainer, rows, solved=1))
    assert len(chosen) == TASKS // 8
    history = list(bots.history(*RUN))
    assert [(step.reported, step.effective, step.rollouts) for step in history] == [(8, 8, 8 * ROLLOUTS)] * len(chosen)
    assert {step.success_rate for step in history} == {1 / ROLLOUTS}
    tried = {task.id: task.last_step for task in bots.tasks(*RUN) if task.last_step is not None}
    assert tried == {task: at + 1 for at, tasks in enumerate(chosen) for task in tasks}
    assert bots.run(*RUN).leased == 0


def test_the_belief_learns_the_accuracy_and_the_scores_say_whether_a_group_teaches(trainer, bots):
    trainer = trainer()
    batch = roll_out(trainer, next(iter(trainer.train_dataloader)), solved=2)
    batch.non_tensor_batch["acc"] = np.array([False] * len(batch))
    batch.non_tensor_batch["score"] = np.array([-1.0] * len(batch))  # the reward function returned a mapping
    trainer.train_dataloader.sampler.update(batch=batch)
    totals = bots.run(*RUN).totals
    assert (totals.successes, totals.effective) == (0, 8)


@pytest.mark.parametrize("judged", [None, "number", "mapping"])
def test_rollouts_without_a_reward_are_left_out_and_the_others_count(trainer, bots, judged):
    trainer = trainer()
    batch = roll_out(trainer, next(iter(trainer.train_dataloader)), solved=2)
    solved = batch.batch["token_level_scores"].sum(-1).numpy()
    batch.batch["token_level_scores"][0, -1] = float("nan")
    if judged is not None:
        batch.non_tensor_batch["acc"] = np.array([*solved[:-1], None], dtype=object)
    if judged == "mapping":
        batch.non_tensor_batch["score"] = solved
    trainer.train_dataloader.sampler.update(batch=batch)
    lost = solved[0] + (0 if judged is None else solved[-1])
    if judged == "number":  # the belief learns this one alone
        lost = solved[-1]
    run = bots.run(*RUN)
    left_out = trainer.train_dataloader.sampler.selector.client.health.left_out_rollouts
    assert (run.totals.rollouts, run.totals.successes) == (8 * ROLLOUTS - left_out, 8 * 2 - lost)
    assert left_out == (2 if judged == "mapping" else 1)
    assert run.leased == 0


def test_a_resumed_loader_draws_only_what_is_trained_on(trainer, bots):
    first = trainer()
    batches = iter(first.train_dataloader)
    for _ in range(2):
        first.train_dataloader.sampler.update(batch=roll_out(first, next(batches), solved=2))
    file = saved(first)
    before = {task.id: task.mean for task in bots.tasks(*RUN)}
    late = roll_out(first, next(batches), solved=4)
    first.train_dataloader.sampler.update(batch=late)
    assert bots.run(*RUN).step == 3

    second = trainer()
    second.train_dataloader.load_state_dict(torch.load(file, weights_only=False))
    rows = next(iter(second.train_dataloader))
    assert second.train_dataloader.sampler.selector.client.health.selects == 1
    run = bots.run(*RUN)
    assert (run.step, run.epoch) == (2, 1)
    assert {task.id: task.mean for task in bots.tasks(*RUN)} == before
    second.train_dataloader.sampler.update(batch=roll_out(second, rows, solved=1))
    assert [step.reported for step in bots.history(*RUN)] == [8, 8, 8]


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("data.bots.id_key", "prompt", "only the columns data_source, extra_info"),
        ("data.bots.group_size", 8, "group_size needs verl 0.9"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_at_the_start(trainer, key, value, says):
    with pytest.raises(ValueError, match=says):
        trainer({key: value})
