import asyncio
import json
import math
import multiprocessing
import pickle
import re
import shutil
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from accelerate import PartialState
from datasets import Dataset, IterableDataset
from transformers import TrainerState
from trl import GRPOTrainer

from bots_client import Client, ResilientClient, Selector
from bots_client.integrations.rewards import BackgroundQueue, flush, reports_groups
from bots_client.integrations.torch import SelectedTasks, from_rank_zero
from bots_client.integrations.trl import STATE_FILE, SelectorCallback
from tests.trainers import tiny
from tests.trainers.tiny_trl import CHUNK, GENERATIONS, config, trained

with warnings.catch_warnings(action="ignore"):  # that it is experimental
    from trl.experimental.async_grpo import async_rollout_worker


@pytest.fixture
def selector(url, tmp_path, request):
    name = re.sub(r"\W+", "-", request.node.name).strip("-")
    with Client(url) as direct:
        direct.create_dataset(name, tiny.TASKS)
    with ResilientClient(url, spool=tmp_path / "spool") as client:
        yield Selector(client, name, ids=tiny.IDS, share=from_rank_zero)


@pytest.fixture
def train(tmp_path):
    return partial(trained, tmp_path / "out")


def asked(selector):
    return selector.client.health.selects


def now(selector):
    return selector.client.direct.run(selector.dataset)


def test_training_reports_each_group_once_and_closes_a_step_per_generation_batch(selector, train):
    train(selector)
    run = now(selector)
    assert run.step == 4
    assert (run.totals.reported, run.totals.rollouts) == (4 * CHUNK, 4 * CHUNK * GENERATIONS)
    assert asked(selector) == 4 + 1, "the loader reads one batch ahead"


def always(value):
    """Return a reward function that gives this to each rollout, or what a function makes of its place."""

    def reward(completions, **_columns):
        return [value(place) if callable(value) else value for place, _ in enumerate(completions)]

    return reward


def named(name, function):
    function.__name__ = name
    return function


ALTERNATING, LAST_ALTERNATING = always(lambda place: place % 2), always(lambda place: 1 - place % 2)
ALL = CHUNK * GENERATIONS
# What the functions give, settings; then the tasks that were reported, those with a gradient, the successes.
REWARDED: dict[str, tuple[list[Any], dict[str, Any], tuple[float, float, float]]] = {
    "equal sums": ([ALTERNATING, LAST_ALTERNATING], {}, (CHUNK, 0, ALL / 2)),
    "weights": ([always(1.0), ALTERNATING], {"reward_weights": [0.6, 0.4]}, (CHUNK, CHUNK, ALL)),
    "another success": (
        [named("form", always(0.2)), named("correct", ALTERNATING)],
        {"success": ["correct"]},
        (CHUNK, CHUNK, ALL / 2),
    ),
    "a criterion for each kind of task": (
        [
            always(lambda place: 1.0 if place < GENERATIONS else None),
            always(lambda place: None if place < GENERATIONS else float(place == GENERATIONS)),
        ],
        {},
        (CHUNK, 1, GENERATIONS + 1),
    ),
    "a criterion for some rollouts": ([always(lambda place: 1.0 if place < 3 else None), always(None)], {}, (1, 0, 3)),
    "a monitor without weight": (
        [always(lambda place: float(place % 2) if place < GENERATIONS else None), always(7.0)],
        {"reward_weights": [1.0, 0.0]},
        (1, 1, GENERATIONS / 2),
    ),
}


@pytest.mark.parametrize("case", REWARDED)
def test_sums_say_what_teaches_and_the_criterion_what_is_a_success(selector, train, case):
    functions, how, expected = REWARDED[case]
    train(selector, functions, **how, max_steps=1)
    totals = now(selector).totals
    assert (totals.reported, totals.effective, totals.successes) == expected


def test_an_evaluation_s_rollouts_are_not_reported_but_its_mean_rewards_and_that_training_ended(selector, train):
    trainer = train(selector, max_steps=1, eval_strategy="steps", eval_steps=1, per_device_eval_batch_size=8)
    (logged,) = [entry for entry in trainer.state.log_history if "eval_reward" in entry]
    assert now(selector).totals.reported == CHUNK
    found = selector.client.direct.summary(selector.dataset)
    assert found.evaluations["eval_reward"] == ((1, logged["eval_reward"]),)
    assert all(name == "eval_reward" or name.endswith("/mean") for name in found.evaluations)
    assert (len(found.evaluations), found.status) == (2, "finished")


def test_resuming_rewinds_the_run_and_asks_for_nothing_that_is_skipped(selector, train):
    folder = train(selector, save_strategy="steps", save_steps=2).args.output_dir
    assert json.loads(Path(folder, "checkpoint-2", STATE_FILE).read_text())["saved"]["step"] == 2
    before = asked(selector)
    train(selector, resume=f"{folder}/checkpoint-2")
    assert asked(selector) - before == 2 + 1, "steps 3 and 4, and one batch ahead"
    run = now(selector)
    assert (run.epoch, run.step, run.totals.reported) == (1, 4, 4 * CHUNK)


def test_a_checkpoint_that_was_moved_is_the_same_and_one_with_anothers_state_is_not(selector, train, tmp_path):
    folder = Path(train(selector, save_strategy="steps", save_steps=1).args.output_dir)
    moved, mixed = tmp_path / "elsewhere" / "a", tmp_path / "elsewhere" / "b"
    for copy in (moved, mixed):
        shutil.copytree(folder / "checkpoint-2", copy)
    other = json.loads((mixed / STATE_FILE).read_text()) | {"checkpoint": "a digest of another run's"}
    (mixed / STATE_FILE).write_text(json.dumps(other))
    with pytest.raises(ValueError, match="a digest of another run's"):
        train(selector, resume=str(mixed), max_steps=3)
    assert now(selector).epoch == 0
    train(selector, resume=str(moved), max_steps=3)
    assert (now(selector).epoch, now(selector).step) == (1, 3)


def test_resuming_in_the_middle_of_a_generation_batch_asks_for_its_rest(selector, train):
    # A generation batch of 4 tasks is trained on in 2 steps, and 9 of them make an epoch.
    how = {"steps_per_generation": 2, "gradient_accumulation_steps": 1, "save_strategy": "steps", "save_steps": 19}
    folder = train(selector, max_steps=19, **how).args.output_dir
    assert now(selector).step == 10
    before = asked(selector)
    trainer = train(selector, resume=f"{folder}/checkpoint-19", max_steps=21, **how)
    assert trainer.state.global_step == 21
    assert asked(selector) - before == 2, "the rest of the batch at which it stood, and the next"
    assert now(selector).epoch == 1


def test_a_checkpoint_waits_for_the_rewards_of_its_steps(selector, tmp_path):
    reported = []

    def report_late(rewards):
        time.sleep(0.2)
        reported.extend(rewards)

    BackgroundQueue(report_late).add("rewards of the last step")
    SelectorCallback(selector).on_save(config(tmp_path), TrainerState(global_step=7), None)
    assert reported == ["rewards of the last step"]


@pytest.mark.parametrize(
    ("dataset", "settings", "complaint"),
    [
        (Dataset.from_list(tiny.ROWS).rename_column("task_id", "name"), {}, "no column 'task_id'"),
        (Dataset.from_list(tiny.ROWS).to_iterable_dataset(), {}, "pass a datasets.Dataset"),
        (None, {"remove_unused_columns": True}, "remove_unused_columns=False"),
    ],
)
def test_what_could_not_be_reported_is_refused_at_the_start(selector, train, dataset, settings, complaint):
    with pytest.raises(ValueError, match=complaint):
        train(selector, dataset=dataset, **settings)


def test_rollouts_with_an_infinite_reward_are_left_out_and_the_log_counts_them(selector, train):
    rewards = always(lambda place: [1.0, 0.0, math.inf, math.nan][place % GENERATIONS])
    trainer = train(selector, [rewards], max_steps=1)
    totals = now(selector).totals
    assert (totals.rollouts, totals.successes, totals.effective) == (2 * CHUNK, CHUNK, CHUNK)
    assert trainer.state.log_history[0]["bots/left_out_rollouts"] == 2 * CHUNK


def test_a_plain_trainer_takes_a_stream_and_a_reporting_reward_function(selector, tmp_path):
    tasks = SelectedTasks(selector, tiny.ROWS, count=CHUNK)

    def run(resume=None):
        trainer = GRPOTrainer(
            tiny.model(),
            reports_groups(selector)(tiny.begins_well),
            config(tmp_path, shuffle_dataset=False, save_strategy="steps", save_steps=2),
            IterableDataset.from_generator(tasks.__iter__),
            processing_class=tiny.tokenizer(),
            callbacks=[SelectorCallback(selector, tasks)],
        )
        trainer.train(resume_from_checkpoint=resume)
        assert flush()

    run()
    totals = now(selector).totals
    assert (totals.reported, totals.rollouts) == (4 * CHUNK, 4 * CHUNK * GENERATIONS)
    before = asked(selector)
    run(resume=str(tmp_path / "checkpoint-2"))
    assert asked(selector) - before == 2 + 1
    assert (now(selector).epoch, now(selector).totals.reported) == (1, 4 * CHUNK)


GROUPS = 6


class Loop(async_rollout_worker._AsyncRolloutLoop):
    """TRL's loops that choose, group and score, with answers made up here; ends once so many groups are scored."""

    async def _generate_one(self, prompt, tool_dict, tools, group_id=0):
        return prompt[0] if group_id % 2 else "?", [2], [], 0, 0, None

    async def _score_group(self, group):
        samples = await super()._score_group(group)
        self._scored = getattr(self, "_scored", 0) + 1
        if self._scored == GROUPS:
            self._stop_event.set()
        return samples

    async def _run_loops(self, stop_event):
        await asyncio.gather(self._generate_loop(stop_event), self._score_loop(stop_event))


def test_the_rollout_loop_chooses_and_reports_its_groups(selector):
    tasks = SelectedTasks(selector, tiny.ROWS, count=2)
    carried = pickle.loads(pickle.dumps(tasks))  # noqa: S301 - as the trainer hands it to its worker process
    PartialState(cpu=True)  # the trainer's, for its log
    spawn = multiprocessing.get_context("spawn")
    tokenizer = tiny.tokenizer()
    tokenizer.response_template = {}  # for tools' answers, of which there are none
    loop = Loop(
        model_name="tiny",
        dataset=carried,
        reward_funcs=[reports_groups(selector, tasks_per_step=2)(tiny.begins_well)],
        processing_class=tokenizer,
        eos_token_ids=[1],
        rollout_buffer=spawn.Queue(),
        model_version_value=spawn.Value("i", 0),
        heartbeat_value=spawn.Value("d", 0.0),
        failed_event=spawn.Event(),
        exception_info_queue=spawn.Queue(),
        metrics_queue=spawn.Queue(),
        num_generations=GENERATIONS,
        max_inflight_tasks=8,
    )
    loop.run()
    carried._selector.client.close()
    assert flush()
    run = now(selector)
    assert run.step == GROUPS // 2
    assert (run.totals.reported, run.totals.rollouts) == (GROUPS, GROUPS * GENERATIONS)
    assert run.totals.successes == GROUPS // 2 * GENERATIONS, "every other group is right"
