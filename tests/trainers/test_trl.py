import json
import logging
import math
import shutil
import time
from functools import partial
from pathlib import Path

import httpx
import pytest
from datasets import Dataset, IterableDataset
from transformers import TrainerState
from trl import GRPOTrainer

from bots_client import Client, ResilientClient, Selector
from bots_client.integrations._background import BackgroundQueue
from bots_client.integrations.rewards import flush, reports_groups
from bots_client.integrations.torch import SelectedTasks, from_rank_zero
from bots_client.integrations.trl import STATE_FILE, SelectorCallback
from tests.serving import free_port
from tests.trainers import tiny
from tests.trainers.tiny_trl import CHUNK, GENERATIONS, config, trained


@pytest.fixture
def selector(url, tmp_path, request):
    name = request.node.name.partition("[")[0]
    with Client(url) as direct:
        direct.create_dataset(name, tiny.TASKS)
    with ResilientClient(url, spool=tmp_path / "spool") as client:
        yield Selector(client, name, ids=tiny.IDS, share=from_rank_zero)


@pytest.fixture
def train(tmp_path):
    """Train a new model; gives the trainer back."""
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


class Scores:
    """Reward functions of the page's recipe, and what they gave to the rollouts of each group."""

    def __init__(self):
        self.groups = []

    def correct(self, completions, wanted, task_id, **_columns):
        """Return 1 for each right answer."""
        self.groups += [{"task": task, "correct": []} for task in task_id[::GENERATIONS]]
        return self._noted("correct", tiny.begins_well(completions, wanted))

    def well_formed(self, completions, task_id, **_columns):
        """Return 0.2 for answers of a kind: to whole groups of odd tasks, to some rollouts of the others."""
        odd = [place // GENERATIONS % 2 for place in range(len(completions))]
        return self._noted(
            "form", [0.2 * (one or answer[:1] < "f") for one, answer in zip(odd, completions, strict=True)]
        )

    def _noted(self, name, rewards):
        for place, group in enumerate(self.groups[-CHUNK:]):
            group[name] = rewards[place * GENERATIONS : (place + 1) * GENERATIONS]
        return rewards

    @property
    def effective(self):
        """How many groups have a gradient."""
        totals = [[c + f for c, f in zip(group["correct"], group["form"], strict=True)] for group in self.groups]
        return sum(max(group) > min(group) for group in totals)


def metric(selector, name):
    """Return what Prometheus would read of the run."""
    lines = httpx.get(f"{selector.client.direct.url}/metrics").text.splitlines()
    wanted = [line for line in lines if line.startswith(f'{name}{{dataset="{selector.dataset}"')]
    return sum(float(line.rpartition(" ")[2]) for line in wanted)


def test_the_pages_recipe_shows_the_true_effective_task_ratio_everywhere(selector, train):
    scores, steps = Scores(), 12
    trainer = train(selector, [scores.correct, scores.well_formed], max_steps=steps)
    reported, effective, solved = steps * CHUNK, scores.effective, [sum(group["correct"]) for group in scores.groups]
    by_means = sum(
        0 < sum(group["correct"]) + sum(group["form"]) < 1.2 * GENERATIONS for group in scores.groups
    )  # as a mean between the ends of the reward range would have it
    assert len(scores.groups) == reported
    assert effective < by_means

    totals, bots = now(selector).totals, selector.client.direct
    assert (totals.reported, totals.effective, totals.successes) == (reported, effective, sum(solved))
    history = list(bots.history(selector.dataset))
    assert sum(step.effective for step in history) == effective
    logged = [entry["bots/effective_task_ratio"] for entry in trainer.state.log_history if "loss" in entry]
    assert logged == [step.effective_task_ratio for step in history]
    assert sum(logged) * CHUNK == effective
    points = bots.curve(selector.dataset).points  # what the page draws
    assert sum(point.effective for point in points) == effective
    assert metric(selector, "bots_reported_tasks_total") == reported
    assert metric(selector, "bots_effective_tasks_total") == effective


def test_the_tokens_of_all_completions_are_reported(selector, train):
    trainer = train(selector, max_steps=3)
    logged = [entry["completions/mean_length"] for entry in trainer.state.log_history if "loss" in entry]
    assert now(selector).totals.tokens == pytest.approx(sum(logged) * CHUNK * GENERATIONS)


def always(value):
    """Return a reward function that gives this to each rollout, or what a function makes of its place."""

    def reward(completions, **_columns):
        return [value(place) if callable(value) else value for place, _ in enumerate(completions)]

    return reward


def named(name, function):
    function.__name__ = name
    return function


def test_a_group_of_equal_sums_has_no_gradient_however_it_came_by_them(selector, train):
    train(selector, [always(lambda place: place % 2), always(lambda place: 1 - place % 2)], max_steps=1)
    totals = now(selector).totals
    assert (totals.reported, totals.effective, totals.successes) == (CHUNK, 0, CHUNK * GENERATIONS / 2)


def test_weights_decide_what_is_optimised_and_not_what_is_a_success(selector, train):
    functions = [always(1.0), always(lambda place: place % 2)]
    train(selector, functions, reward_weights=[0.6, 0.4], max_steps=1)
    totals = now(selector).totals
    assert (totals.effective, totals.successes) == (CHUNK, CHUNK * GENERATIONS)


def test_functions_normalised_one_by_one_teach_if_one_of_them_varies(selector, train):
    functions = [always(lambda place: place % 2), always(lambda place: 0.5 - place % 2)]
    how = {"multi_objective_aggregation": "normalize_then_sum", "max_steps": 1}
    train(selector, functions, **how, reward_weights=[1.0, 0.5])
    assert now(selector).totals.effective == CHUNK
    train(selector, functions, **how)
    assert now(selector).totals.effective == CHUNK, "with equal weights they cancel each other"


def test_another_function_can_say_what_a_success_is(selector, train):
    functions = [named("form", always(0.2)), named("correct", always(lambda place: place % 2))]
    train(selector, functions, success=["correct"], max_steps=1)
    totals = now(selector).totals
    assert (totals.effective, totals.successes) == (CHUNK, CHUNK * GENERATIONS / 2)


def test_a_criterion_that_is_no_reward_function_is_refused_at_the_start(selector, train):
    with pytest.raises(ValueError, match="success names exact; the reward functions are begins_well"):
        train(selector, success=["exact"])


def test_each_kind_of_task_may_have_a_criterion_of_its_own(selector, train):
    first = always(lambda place: 1.0 if place < GENERATIONS else None)
    second = always(lambda place: None if place < GENERATIONS else float(place == GENERATIONS))
    train(selector, [first, second], max_steps=1)
    totals = now(selector).totals
    assert (totals.reported, totals.effective, totals.successes) == (CHUNK, 1, GENERATIONS + 1)


def test_rollouts_to_which_the_criterion_does_not_apply_are_no_evidence(selector, train):
    solves_the_first = always(lambda place: 1.0 if place < 3 else None)
    train(selector, [solves_the_first, always(None)], max_steps=1)
    run = now(selector)
    assert (run.totals.reported, run.totals.rollouts, run.totals.successes) == (1, 3, 3)
    assert run.leased == CHUNK, "of the batch that was read ahead; the task without evidence is free again"


def test_a_monitor_without_weight_is_no_criterion(selector, train):
    judges_the_first = always(lambda place: float(place % 2) if place < GENERATIONS else None)
    train(selector, [judges_the_first, always(7.0)], reward_weights=[1.0, 0.0], max_steps=1)
    totals = now(selector).totals
    assert (totals.reported, totals.effective, totals.successes) == (1, 1, GENERATIONS / 2)


def test_rewards_at_the_end_of_their_range_are_taken(selector, train):
    selector.client.direct.create_run(selector.dataset, "default", reward_range=(0.0, 1.2))
    train(selector, [always(1.2)], max_steps=1)  # 1.2 of 32 bits is more
    totals = now(selector).totals
    assert (totals.all_solved, totals.successes) == (CHUNK, CHUNK * GENERATIONS)


def test_evaluation_is_not_reported(selector, train):
    trainer = train(selector, max_steps=1, eval_strategy="steps", eval_steps=1, per_device_eval_batch_size=8)
    assert any("eval_reward" in entry for entry in trainer.state.log_history)
    assert now(selector).totals.reported == CHUNK


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


def test_resuming_without_skipping_asks_from_the_beginning(selector, train):
    folder = train(selector, max_steps=1, save_strategy="steps", save_steps=1).args.output_dir
    before = asked(selector)
    train(selector, resume=f"{folder}/checkpoint-1", max_steps=2, ignore_data_skip=True)
    assert asked(selector) - before == 1 + 1
    assert now(selector).step == 2


def test_a_checkpoint_without_a_selectors_state_is_resumed_with_a_warning(selector, train, caplog):
    folder = Path(train(selector, max_steps=1, save_strategy="steps", save_steps=1).args.output_dir)
    (folder / "checkpoint-1" / STATE_FILE).unlink()
    with caplog.at_level(logging.WARNING, "bots_client"):
        train(selector, resume=str(folder / "checkpoint-1"), max_steps=2)
    assert "the run is not rewound to the checkpoint" in caplog.text
    assert (now(selector).epoch, now(selector).step) == (0, 2)


def test_a_checkpoint_waits_for_the_rewards_of_its_steps(selector, tmp_path):
    reported = []

    def report_late(rewards):
        time.sleep(0.2)
        reported.extend(rewards)

    BackgroundQueue(report_late).add("rewards of the last step")
    SelectorCallback(selector).on_save(config(tmp_path), TrainerState(global_step=7), None)
    assert reported == ["rewards of the last step"]


def test_other_ranks_do_not_miss_what_only_the_first_one_reads(selector, tmp_path, caplog):
    state = TrainerState(global_step=7, is_world_process_zero=False)
    SelectorCallback(selector).on_train_begin(config(tmp_path), state, None)
    assert not caplog.records


def test_training_goes_on_while_the_service_is_away(train, tmp_path):
    nobody = f"http://127.0.0.1:{free_port()}"
    with ResilientClient(nobody, spool=tmp_path, select_deadline_s=0.2, report_deadline_s=0.2) as client:
        train(Selector(client, "away", ids=tiny.IDS), max_steps=2)
        assert client.health.local_selects == 2 + 1
        assert client.health.kept == 2


def test_training_goes_on_where_the_selectors_state_cannot_be_saved(selector, tmp_path, caplog):
    state = TrainerState(global_step=7, is_world_process_zero=True)
    with caplog.at_level(logging.WARNING, "bots_client"):
        SelectorCallback(selector).on_save(config(tmp_path), state, None)
    assert "will not rewind the run" in caplog.text


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


def test_a_plain_trainers_evaluation_is_not_reported_even_of_rows_that_it_trains_on(selector, tmp_path):
    tasks = SelectedTasks(selector, tiny.ROWS, count=CHUNK)
    evaluating = {"eval_strategy": "steps", "eval_steps": 1, "per_device_eval_batch_size": CHUNK * GENERATIONS}
    trainer = GRPOTrainer(
        tiny.model(),
        reports_groups(selector)(tiny.begins_well),
        config(tmp_path, shuffle_dataset=False, max_steps=2, **evaluating),
        IterableDataset.from_generator(tasks.__iter__),
        Dataset.from_list(tiny.ROWS),
        processing_class=tiny.tokenizer(),
    )
    trainer.train()
    assert flush()
    assert sum("eval_reward" in entry for entry in trainer.state.log_history) == 2
    run = now(selector)
    assert (run.step, run.totals.reported, run.totals.rollouts) == (2, 2 * CHUNK, 2 * CHUNK * GENERATIONS)


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
