"""verl 0.9.1 as it is, up to where it needs a GPU; test_verl.py runs this in a process that has it.

In the place of the workers that train stand some that have no weights.
"""

import json
import time

import pytest
import ray
from tensordict import TensorDict
from verl.experimental.reward_loop import RewardLoopManager, migrate_legacy_reward_impl
from verl.trainer.ppo.v1 import PPOTrainerSync
from verl.utils.tracking import Tracking

from bots_client.integrations.rewards import flush
from tests.trainers.verl_training import PAGE, TASKS, answered, configuration, roll_out, same, shown

ONE_BY_ONE = {"algorithm.filter_groups": {"enable": True, "metric": "acc"}}  # verl then fetches prompts so
RUN = ("gsm8k", "verl-0.9")


class NoWeights:
    def save_checkpoint(self, *_what, **_how): ...

    def load_checkpoint(self, *_what, **_how): ...


@pytest.fixture(scope="session")
def version():
    return RUN[1]


@pytest.fixture
def trainer(folder, tokenizer, bots, tmp_path):
    def made(overrides: dict[str, object] = {}) -> PPOTrainerSync:  # noqa: B006 - nobody changes it
        here = {"data.bots.run": RUN[1], "trainer.default_local_dir": str(tmp_path)}
        config = configuration("train.sh", folder, here | overrides)
        trainer = object.__new__(PPOTrainerSync)
        PPOTrainerSync.__mro__[1].__init__(trainer, migrate_legacy_reward_impl(config))
        trainer.tokenizer, trainer.processor, trainer.global_steps = tokenizer, None, 1
        trainer.actor_rollout_wg = NoWeights()
        trainer._init_dataloader()
        return trainer

    return made


def extras(batch: TensorDict) -> list[dict]:
    return [row["extra_info"] for row in batch]


def test_the_example_configures_what_the_page_shows(trainer):
    same(shown(), trainer().config)


def test_the_reward_function_of_the_page_reports(trainer, bots):
    (code,) = [block.code for block in PAGE if block.language == "python"]
    session: dict = {}
    exec(code, session)
    row = next(iter(trainer()._next_train_batch()))
    assert (
        session["compute_score"](data_source="", solution_str="71", ground_truth="7", extra_info=row["extra_info"]) == 1
    )
    assert flush()
    assert bots.run(*RUN).pending == 1


def test_a_batch_is_one_selection_whose_rows_say_where_they_come_from(trainer, bots):
    trainer = trainer()
    rows = extras(trainer._next_train_batch())
    assert [row["task_id"] for row in rows] == [str(row["index"]) for row in rows]
    assert len({row["task_id"] for row in rows}) == 8
    assert len({row["selection_id"] for row in rows}) == 1
    assert trainer.train_dataset.selector.client.health.selects == 1
    assert bots.run(*RUN).leased == 8


def test_what_the_reward_manager_scores_is_the_evidence_of_the_step(trainer, bots):
    trainer = trainer()
    roll_out(trainer, trainer._next_train_batch(), solved=1)
    assert (bots.run(*RUN).step, bots.run(*RUN).pending) == (0, 8)
    trainer._next_train_batch()
    (step,) = bots.history(*RUN)
    assert (step.reported, step.effective, step.rollouts, step.success_rate) == (8, 8, 32, 0.25)
    assert bots.run(*RUN).totals.late == 0


def test_prompts_fetched_one_by_one_close_a_step_once_there_are_enough(trainer, bots):
    trainer = trainer(ONE_BY_ONE)
    roll_out(trainer, trainer._next_train_batch(), solved=2)
    refills = [trainer._next_train_batch(2) for _ in range(3)]
    for batch in refills:
        roll_out(trainer, batch, solved=4)
    assert [(step.reported, step.effective) for step in bots.history(*RUN)] == [(8, 8)]
    assert bots.run(*RUN).pending == 6
    assert trainer.train_dataset.selector.client.health.selects == 2


def test_rollouts_of_a_group_that_end_in_several_steps_count_once_where_wanted(trainer, bots):
    trainer = trainer({"data.bots.group_size": 4})
    batch = trainer._next_train_batch()
    roll_out(trainer, batch, solved=2, rollouts=2)
    trainer._next_train_batch()
    about = bots.run(*RUN)
    assert (about.step, about.pending, about.unfinished_groups) == (0, 0, 8)
    roll_out(trainer, batch, solved=0, rollouts=2)
    trainer._next_train_batch()
    (step,) = bots.history(*RUN)
    assert (step.reported, step.effective, step.rollouts) == (8, 8, 32)


def test_a_reward_worker_in_a_process_of_its_own_reports(trainer, bots):
    trainer = trainer({"reward.num_workers": 1})
    answers = answered(trainer, trainer._next_train_batch(), solved=1, rollouts=4)
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        scored = RewardLoopManager(trainer.config).compute_rm_score(answers)
        give_up = time.monotonic() + 20
        while bots.run(*RUN).pending < 8 and time.monotonic() < give_up:
            time.sleep(0.05)
    finally:
        ray.shutdown()
    assert scored.batch["rm_scores"].sum() == 8
    trainer._next_train_batch()
    (step,) = bots.history(*RUN)
    assert (step.reported, step.effective, step.rollouts) == (8, 8, 32)


def test_rollouts_of_validation_are_not_reported(trainer, bots):
    trainer = trainer()
    (rows,) = list(trainer.val_dataloader)
    rows = [{key: values[at] for key, values in rows.items()} for at in range(4)]
    roll_out(trainer, rows, solved=1)
    assert bots.run(*RUN).seq == 0


def test_repeated_rows_are_refused_with_what_helps_or_left_out(trainer, folder, bots):
    repeated = {"data.train_files": [str(folder / "train.parquet")] * 3, "data.bots.dataset": "repeats"}
    for more in ({}, {"data.bots.id_key": "prompt", "data.bots.id_from": "content"}):
        with pytest.raises(ValueError, match=r"ids must be unique. Pass data.bots.skip_repeats=true"):
            trainer(repeated | more)
    made = trainer(repeated | {"data.bots.skip_repeats": True})
    assert bots.dataset("repeats").tasks == len(made.train_dataset) == TASKS
    assert made.steps_per_epoch == TASKS // 8
    for row in made._next_train_batch():
        assert row["reward_model"]["ground_truth"] == str(2 * int(row["extra_info"]["task_id"]))
    bots.delete_dataset("repeats")


def test_verl_logs_the_selectors_metrics_at_each_training_step_and_sends_what_it_validates(
    trainer, bots, tmp_path, monkeypatch
):
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", str(tmp_path / "log.jsonl"))
    trainer = trainer()
    logger = Tracking("project", "experiment", ["file"])
    roll_out(trainer, trainer._next_train_batch(), solved=1)
    trainer._next_train_batch()
    logger.log({"training/global_step": 1, "critic/score/mean": 0.25}, step=1)
    found = {"val-core/openai/gsm8k/acc/mean@1": 0.5, "val-aux/openai/gsm8k/reward/mean@1": 0.25}
    logger.log(found, step=1)
    logger.finish()
    step, validation = [json.loads(line)["data"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert (step["critic/score/mean"], step["bots/effective_task_ratio"], step["bots/step"]) == (0.25, 1, 1)
    assert validation == found
    assert bots.summary(*RUN).evaluations == {"val-core/openai/gsm8k/acc/mean@1": ((1, 0.5),)}


def test_a_resumed_trainer_finds_the_belief_of_its_checkpoint(trainer, bots):
    first = trainer()
    for _ in range(2):
        roll_out(first, first._next_train_batch(), solved=2)
    first._save_checkpoint()
    before = {task.id: task.mean for task in bots.tasks(*RUN)}
    late = first._next_train_batch()
    roll_out(first, late, solved=4)
    first._next_train_batch()
    assert bots.run(*RUN).step == 3

    second = trainer()
    second._load_checkpoint()
    assert second.global_steps == 1
    batch = second._next_train_batch()
    run = bots.run(*RUN)
    assert (run.step, run.epoch) == (2, 1)
    assert {task.id: task.mean for task in bots.tasks(*RUN)} == before
    assert second.train_dataset.selector.client.health.selects == 1
    roll_out(first, late, solved=4)  # of the trainer that died: it counts for nothing
    assert bots.run(*RUN).pending == 0
    roll_out(second, batch, solved=1)
    assert bots.run(*RUN).pending == 8


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("data.dataloader_num_workers", 8, "dataloader_num_workers must be 0"),
        ("data.val_files", "${data.train_files}", "are the same"),
        ("data.bots.datset", "x", "data.bots has the unknown keys datset"),
        ("data.bots.dataset", None, "data.bots.dataset is missing"),
        ("data.bots.id_key", "extra_info.id", "row 0: the column extra_info.id is empty or missing"),
        ("data.bots.id_key", "extra_info.split", "rows 0 and 1 both have the id 'train'"),
        ("data.bots.id_key", "id", "no column 'id'"),
        ("data.train_batch_size", 0, "prompts_per_step"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_at_the_start(trainer, key, value, says):
    with pytest.raises(ValueError, match=says):
        trainer({key: value})
