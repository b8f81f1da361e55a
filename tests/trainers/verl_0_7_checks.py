"""verl 0.7.1 as it is, up to where it needs a GPU; test_verl.py runs this in a process that has it."""

import io
import json
import uuid

import numpy as np
import pytest
import torch
from verl import DataProto
from verl.trainer.main_ppo import create_rl_dataset, create_rl_sampler
from verl.trainer.ppo.ray_trainer import RayPPOTrainer
from verl.utils.tracking import Tracking

from tests.trainers.verl_training import TASKS, configuration, same, shown

RUN = ("gsm8k", "verl-0.7")
ROLLOUTS = 4


@pytest.fixture(scope="session")
def version():
    return RUN[1]


@pytest.fixture
def trainer(folder, tokenizer, bots):
    """Give verl's trainer with its loaders, for overrides of the example's command line; it has no workers."""

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
    """Return data.pt, as verl writes it."""
    file = io.BytesIO()
    torch.save(trainer.train_dataloader.state_dict(), file)
    file.seek(0)
    return file


def ids(rows: dict) -> list[str]:
    return [str(row["index"]) for row in rows["extra_info"]]


def test_the_example_configures_what_the_page_shows(trainer):
    same(shown(1), trainer().config)


def test_a_batch_is_one_selection(trainer, bots):
    trainer = trainer()
    rows = next(iter(trainer.train_dataloader))
    assert len(set(ids(rows))) == 8
    assert bots.run(*RUN).leased == 8
    assert trainer.train_dataloader.sampler.selector.client.health.selects == 1


def test_each_batch_that_comes_back_closes_a_step_with_its_evidence(trainer, bots):
    trainer = trainer()
    chosen = []
    for rows in trainer.train_dataloader:
        chosen.append(ids(rows))
        trainer.train_dataloader.sampler.update(batch=roll_out(trainer, rows, solved=1))
    assert len(chosen) == TASKS // 8
    history = list(bots.history(*RUN))
    assert [(step.reported, step.effective, step.rollouts) for step in history] == [(8, 8, 8 * ROLLOUTS)] * len(chosen)
    assert {step.mean_pass_rate for step in history} == {1 / ROLLOUTS}
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


def test_an_accuracy_that_is_a_number_of_the_reward_function_lies_in_the_runs_range(trainer, bots):
    trainer = trainer({"data.bots.run": "dapo", "data.bots.reward_range": [-1, 1]})
    batch = roll_out(trainer, next(iter(trainer.train_dataloader)), solved=1)
    scores = batch.batch["token_level_scores"]
    batch.non_tensor_batch["acc"] = 2 * scores.sum(-1).numpy() - 1  # as verl's reward managers copy it
    scores[:, 0] = -0.5  # a penalty for length, the same for all
    trainer.train_dataloader.sampler.update(batch=batch)
    run = bots.run(RUN[0], "dapo")
    assert (run.totals.rollouts, run.totals.successes, run.totals.effective) == (8 * ROLLOUTS, 8, 8)


def test_repeated_rows_are_left_out_where_wanted(trainer, folder, bots):
    files = [str(folder / "train.parquet")] * 3
    key = {"data.bots.dataset": "repeats-0.7", "data.bots.skip_repeats": True}
    trainer = trainer({"data.train_files": files, **key})
    assert len(trainer.train_dataloader.sampler) == TASKS
    trainer.train_dataloader.sampler.update(batch=roll_out(trainer, next(iter(trainer.train_dataloader)), solved=1))
    run = bots.run("repeats-0.7", RUN[1])
    assert (bots.dataset("repeats-0.7").tasks, run.totals.reported, run.leased) == (TASKS, 8, 0)
    bots.delete_dataset("repeats-0.7")


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


def test_files_that_both_count_from_0_have_ids_of_two_columns(trainer, folder, bots):
    files = [str(folder / "train.parquet"), str(folder / "more.parquet")]
    key = {"data.bots.dataset": "two-files-0.7", "data.bots.id_key": ["data_source", "extra_info.index"]}
    trainer = trainer({"data.train_files": files, **key})
    trainer.train_dataloader.sampler.update(batch=roll_out(trainer, next(iter(trainer.train_dataloader)), solved=1))
    run = bots.run("two-files-0.7", RUN[1])
    assert (bots.dataset("two-files-0.7").tasks, run.totals.reported, run.leased) == (2 * TASKS, 8, 0)
    bots.delete_dataset("two-files-0.7")


def test_verl_logs_the_selectors_metrics_at_each_training_step(trainer, tmp_path, monkeypatch):
    monkeypatch.setenv("VERL_FILE_LOGGER_ROOT", str(tmp_path))
    trainer = trainer()
    trainer.train_dataloader.sampler.update(batch=roll_out(trainer, next(iter(trainer.train_dataloader)), solved=1))
    logger = Tracking("project", "experiment", ["file"])
    logger.log({"training/global_step": 1}, step=1)
    [line] = (tmp_path / "project" / "experiment.jsonl").read_text().splitlines()
    assert json.loads(line)["data"]["bots/effective_task_ratio"] == 1


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


def test_what_verl_saves_before_it_hands_a_batch_back_lacks_its_evidence(trainer, bots):
    first = trainer()
    batch = roll_out(first, next(iter(first.train_dataloader)), solved=2)
    file = saved(first)
    first.train_dataloader.sampler.update(batch=batch)
    assert bots.run(*RUN).step == 1
    second = trainer()
    second.train_dataloader.load_state_dict(torch.load(file, weights_only=False))
    next(iter(second.train_dataloader))
    assert bots.run(*RUN).step == 0


def test_an_epoch_that_ended_with_a_checkpoint_is_followed_by_a_whole_one(trainer, bots):
    first = trainer()
    batches = iter(first.train_dataloader)
    for _ in range(TASKS // 8):
        first.train_dataloader.sampler.update(batch=roll_out(first, next(batches), solved=1))
    file = saved(first)  # as verl does, before it asks for a batch that is not there
    second = trainer()
    second.train_dataloader.load_state_dict(torch.load(file, weights_only=False))
    assert len(list(second.train_dataloader)) == TASKS // 8


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("data.bots.dataset", None, "data.bots.dataset is missing"),
        ("data.bots.id_key", "extra_info.id", "row 0: the column extra_info.id is empty or missing"),
        ("data.bots.id_key", "extra_info.split", "rows 0 and 1 both have the id 'train'"),
        ("data.bots.id_key", "prompt", "only the columns data_source, extra_info"),
        ("data.bots.group_size", 8, "group_size needs verl 0.9"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_at_the_start(trainer, key, value, says):
    with pytest.raises(ValueError, match=says):
        trainer({key: value})
