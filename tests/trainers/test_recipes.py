"""The recipes of docs/trainers and examples/trainers do what they say, in the trainers' own classes and loops.

The trainers are the real packages, unpacked; what they import from others and these tests never call stands in for it.
NEMO_RL_SOURCE and RLLM_SOURCE name checkouts of two that are not on PyPI; without one, what needs it is skipped.
"""

import asyncio
import collections
import importlib.util
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torchdata.stateful_dataloader import StatefulDataLoader

from bots_client import Selector
from bots_client.integrations.rewards import flush, reports_groups
from tests.trainers.recipes import BATCH, POOL, ROLLOUTS, folder_of, recipe, reward_of, task_ids

OPENRLHF = "vllm deepspeed pylatexenc peft flash_attn optree aiohttp transformers wandb tensorboard ray"


class Engine:
    """Stands for the vLLM engines, and for Ray before them: answers at once."""

    def __init__(self) -> None:
        self.get_num_unfinished_requests = SimpleNamespace(remote=lambda: 0)
        self.generate_responses = SimpleNamespace(remote=self.generate)
        self.prompts: list[str] = []

    def generate(self, *, prompt: str, label: str, num_samples: int, **_: object) -> list[dict[str, Any]]:
        self.prompts.append(prompt)
        scores = [reward_of(label) * (rollout == 0) for rollout in range(num_samples)]  # so odd tasks differ
        response = {"prompt": prompt, "label": label, "observation_tokens": [1, 2, 3], "action_ranges": [(1, 3)]}
        return [{**response, "rollout_log_probs": None, "reward": score, "scores": score} for score in scores]


def openrlhf_trainer(package: Any, rows: Path, engine: Engine) -> Any:
    space = SimpleNamespace
    args = space(
        data=space(
            prompt_dataset=str(rows), prompt_probs=None, max_samples=100, prompt_split="train", input_template=None,
            dataloader_num_workers=0, input_key="input", label_key="label", disable_fast_tokenizer=False,
        ),
        train=space(seed=1, batch_size=BATCH, num_episodes=1, max_epochs=1),
        eval=space(steps=-1, dataset=str(rows), split="train", temperature=1.0, n_samples_per_prompt=1),
        ckpt=space(save_steps=-1),
        rollout=space(batch_size=BATCH, n_samples_per_prompt=ROLLOUTS),
        algo=space(
            kl=space(target=None, init_coef=0.0),
            advantage=space(estimator="group_norm", is_correction_level="off"),
            dynamic_filtering_enable=True, dynamic_filtering_range=(0, 1),
        ),
        vllm=space(enable_sleep=False),
        logger=space(wandb=space(key=None), tensorboard_dir=None),
    )  # fmt: skip
    strategy = package.DeepspeedStrategy.__new__(package.DeepspeedStrategy)
    strategy.args = args
    strategy.is_rank_0, strategy.print = lambda: True, lambda *_: None

    class Trainer(package.PPOTrainer):
        def init_checkpoint_states(self) -> dict[str, Any]:
            return {"episode": 0, "global_step": 0, "total_consumed_prompts": 0}

        def train_step(self, rollout_samples: list[Any], global_step: int) -> tuple[dict[str, Any], int]:
            self.trained += [sample.labels[0] for sample in rollout_samples]
            return {}, global_step + 1

        def save_logs_and_checkpoints(self, step: int, logs: object = None, client_states: Any = None) -> None:
            self.states[step] = (json.loads(json.dumps(client_states["data_loader_state_dict"])), len(engine.prompts))

    Trainer.trained, Trainer.states = [], {}
    return Trainer("model", strategy, None, None, None, None, [engine], max_len=8)


def test_openrlhf_trains_on_what_is_selected_and_reports_what_is_dropped_too(bots, tmp_path, monkeypatch):
    rows, folder = tmp_path / "rows.jsonl", folder_of("openrlhf==0.11.2")
    content = [{"input": f"solve {task}", "label": task, "datasource": task} for task in task_ids()]
    rows.write_text("".join(json.dumps(row) + "\n" for row in content))
    with recipe("openrlhf.py", bots, tmp_path, trainer=folder, without=OPENRLHF, name="train_bots"):
        import openrlhf.trainer.ppo_trainer as package
        from openrlhf.trainer.ppo_utils import samples_generator

        ray = SimpleNamespace(get=lambda answer: answer, wait=lambda pending, **_: (pending[:1], pending[1:]))
        monkeypatch.setattr(samples_generator, "ray", ray)
        engine = Engine()
        trainer = openrlhf_trainer(package, rows, engine)
        trainer.fit()
        solved = sum(reward_of(prompt.removeprefix("solve ")) for prompt in engine.prompts)
        totals = bots.run("openrlhf").totals
        assert (totals.rollouts, totals.successes) == (POOL * ROLLOUTS, solved)
        assert len(trainer.trained) == solved * ROLLOUTS
        trainer.samples_generator.generate_eval_samples(n_samples_per_prompt=1)
        assert bots.run("openrlhf").totals == totals

        state, drawn = trainer.states[1]
        trainer.prompts_dataloader.load_state_dict(state)
        assert len(list(trainer.prompts_dataloader)) == POOL - drawn
        assert (bots.run("openrlhf").step, bots.run("openrlhf").epoch) == (1, 1)
        trainer.prompts_dataloader.selector.client.close()


SKYRL = (
    "aiohttp orjson pybase64 transformers jaxtyping loguru vllm peft cloudpathlib skyrl_gym wandb pydantic fastapi "
    "uvicorn vllm_router zstandard"
)


class Tokenizer:
    def apply_chat_template(self, *_: object, **__: object) -> list[int]:
        return [1, 2, 3]

    def decode(self, *_: object, **__: object) -> str:
        return "1"


class Generator:
    """Stands for the inference engine: rewards by the task of each prompt, at the last of two turns if wanted."""

    in_turns = False

    async def generate(self, batch: Any) -> dict[str, Any]:
        whole = self.whole(batch)
        return self.split(whole, batch) if self.in_turns else whole

    def whole(self, batch: Any) -> dict[str, Any]:
        tasks = [prompt[0]["content"].removeprefix("solve ") for prompt in batch["prompts"]]
        first = [rollout.repetition_id == 0 for rollout in batch["trajectory_ids"]]
        rewards = [reward_of(task) * only for task, only in zip(tasks, first, strict=True)]  # so odd tasks differ
        tokens = [[1, 2]] * len(rewards)
        return {"prompt_token_ids": tokens, "response_ids": tokens, "rewards": rewards, "loss_masks": tokens,
                "stop_reasons": None, "rollout_metrics": None, "rollout_logprobs": None}  # fmt: skip

    def split(self, whole: dict[str, Any], batch: Any) -> dict[str, Any]:
        count = len(whole["rewards"])
        tokens = [[1, 2]] * (2 * count)
        turns = {"prompt_token_ids": tokens, "response_ids": tokens, "loss_masks": tokens}
        rewards = [turn for reward in whole["rewards"] for turn in ([0.0, 0.5], [0.0, reward])]
        rollouts = [rollout for rollout in batch["trajectory_ids"] for _ in range(2)]
        return whole | turns | {"rewards": rewards, "trajectory_ids": rollouts, "is_last_step": [False, True] * count}


def skyrl_rows(folder: Path) -> Path:
    rows = folder / "rows.jsonl"
    rows.write_text(
        "".join(
            json.dumps({"prompt": [{"role": "user", "content": f"solve {t}"}], "task_id": t}) + "\n" for t in task_ids()
        )
    )
    return rows


def skyrl_trainer(kind: Any, rows: Path, change: Any) -> Any:
    from skyrl.train.config import SkyRLTrainConfig
    from skyrl.train.dataset import PromptDataset

    cfg = SkyRLTrainConfig()
    cfg.trainer.train_batch_size = BATCH
    cfg.generator.n_samples_per_prompt = ROLLOUTS
    cfg.generator.inference_engine.enable_ray_prometheus_stats = False
    cfg.data.dataloader.num_workers = 0
    cfg.data.dataloader.persistent_workers = False
    change(cfg)
    dataset = PromptDataset([str(rows)], Tokenizer(), max_prompt_length=8, num_workers=1)
    return kind(cfg, None, Tokenizer(), dataset, None, Generator())


async def evaluated(trainer: Any) -> None:
    from skyrl.train.evaluate import evaluate

    rows = trainer.train_dataset.collate_fn([trainer.train_dataset[place] for place in range(BATCH)])
    trainer.cfg.trainer.print_example_interval = 0
    trainer.cfg.trainer.dump_eval_results = False
    with mock.patch.multiple(
        "skyrl.train.evaluate",
        validate_generator_output=mock.DEFAULT,
        get_metrics_from_generator_output=mock.DEFAULT,
        calculate_per_dataset_metrics=lambda *_: {},
        concatenate_generator_outputs=lambda outputs, **_: outputs[0] | {"rollout_metrics": {}},
    ):
        await evaluate([rows], trainer.generator, trainer.cfg, 1, Tokenizer())


def test_skyrl_trains_on_what_is_selected_and_reports_what_is_dropped_too(bots, tmp_path, monkeypatch):
    def filtering(cfg: Any) -> None:
        cfg.trainer.epochs, cfg.trainer.algorithm.dynamic_sampling.type = 1, "filter"

    with recipe("skyrl.md", bots, tmp_path, trainer=folder_of("skyrl==0.4.0", python="3.12"), without=SKYRL) as module:
        from skyrl.train.generators.utils import prepare_generator_input

        monkeypatch.setattr("skyrl.train.trainer.configure_ray_worker_logging", lambda: None)  # it is for all loggers
        trainer = skyrl_trainer(module.BotsTrainer, skyrl_rows(tmp_path), filtering)
        assert len(trainer.train_dataloader) == trainer.total_training_steps == POOL // BATCH
        trained, solved = 0, 0.0
        for prompts in trainer.train_dataloader:
            solved += sum(reward_of(prompt["env_extras"]["task_id"]) for prompt in prompts)
            generator_input, uids = prepare_generator_input(prompts, ROLLOUTS, {}, "math", "train", 1)
            output = asyncio.run(trainer.generate(generator_input))
            output, uids, keep_sampling = trainer.handle_dynamic_sampling(output, uids)
            if not keep_sampling:
                trainer.postprocess_generator_output(output, uids)
                trained += 1
        assert bots.run("skyrl").step == trained
        trainer.selector.step()
        before = bots.run("skyrl").totals
        asyncio.run(evaluated(trainer))
        trainer.selector.step()
        assert bots.run("skyrl").totals == before
        totals = bots.run("skyrl").totals
        assert (totals.reported, totals.rollouts) == (POOL, POOL * ROLLOUTS)
        assert totals.successes == solved

        trainer.generator.in_turns = trainer.cfg.generator.step_wise_trajectories = True
        prompts = next(iter(trainer.train_dataloader))
        solved = sum(reward_of(prompt["env_extras"]["task_id"]) for prompt in prompts)
        asyncio.run(trainer.generate(prepare_generator_input(prompts, ROLLOUTS, {}, "math", "train", 1)[0]))
        trainer.selector.step()
        totals = bots.run("skyrl").totals
        rollouts, successes = totals.rollouts - before.rollouts, totals.successes - before.successes
        assert (rollouts, successes) == (BATCH * ROLLOUTS, solved)
        trainer.selector.client.close()


async def nothing(*_: object, **__: object) -> dict[str, Any]:
    return {}


def test_skyrl_asynchronous_trainer_trains_on_what_is_selected_and_resumes_within_an_epoch(bots, tmp_path, monkeypatch):
    rows, trained = skyrl_rows(tmp_path), list[list[str]]()

    def asynchronous(cfg: Any, resume: str | None = None) -> None:
        cfg.trainer.fully_async.enabled, cfg.trainer.fully_async.max_staleness_steps = True, 1
        cfg.trainer.fully_async.num_parallel_generation_workers = 2 * BATCH
        cfg.trainer.policy_mini_batch_size, cfg.trainer.epochs = BATCH, 2
        cfg.trainer.algorithm.policy_loss_type = "rollout_is"
        cfg.trainer.placement.colocate_all, cfg.generator.batched = False, False
        cfg.trainer.eval_interval, cfg.trainer.ckpt_interval, cfg.trainer.ckpt_path = -1, 1, str(tmp_path / "out")
        cfg.trainer.resume_mode, cfg.trainer.resume_path = ("from_path", resume) if resume else ("none", None)

    def train(resume: str | None = None) -> Any:
        trainer = skyrl_trainer(module.BotsAsyncTrainer, rows, lambda cfg: asynchronous(cfg, resume))
        trainer.init_weight_sync_state = lambda: None
        trainer.dispatch, trainer.tracker = mock.MagicMock(save_weights_for_sampler=nothing), mock.MagicMock()
        trainer.dispatch.get_timing_metrics.return_value = {}
        trainer.convert_to_training_input = lambda _output, uids: trained.append(uids)
        trainer._run_training, trainer._cleanup_old_checkpoints = nothing, lambda: None  # that asks each node of Ray
        asyncio.run(trainer.train())
        trainer.selector.client.close()
        return trainer

    with recipe("skyrl.md", bots, tmp_path, trainer=folder_of("skyrl==0.4.0", python="3.12"), without=SKYRL) as module:
        monkeypatch.setattr("skyrl.train.trainer.configure_ray_worker_logging", lambda: None)
        monkeypatch.setattr("skyrl.train.trainer.asdict", lambda _cfg: {})  # stand-ins in it can't be pickled
        trainer = train()
        steps = 2 * POOL // BATCH
        run = bots.run("skyrl")
        assert (trainer.global_step, len(trained)) == (steps + 1, steps)
        assert run.step > 0  # generation runs ahead: a step of the service closes with what was observed by then
        assert run.totals.rollouts == 2 * POOL * ROLLOUTS == sum(map(len, trained))
        assert len({uid for uids in trained for uid in uids}) == 2 * POOL, "a task that comes again is another group"
        assert "bots/effective_task_ratio" in trainer.tracker.log.call_args_list[0].args[0]

        trained.clear()
        train(resume=str(tmp_path / "out" / "global_step_2"))
        assert (bots.run("skyrl").epoch, len(trained)) == (1, steps - 2)
        assert bots.run("skyrl").leased == 0


TINKER = (
    "blobfile distro frozendict httpx_aiohttp inspect_ai modal neptune_scale orjson plotly pyqwest sniffio termcolor "
    "tml_renderers tml_tokenizers trackio transformers wandb zstandard"
)


class Sampled:
    """Stands for a client of Tinker's service that samples: it says a token."""

    async def sample(self, **_: object) -> Any:
        sequence = SimpleNamespace(tokens=[1], logprobs=[0.0], stop_reason="stop", sequence_id=None)
        return SimpleNamespace(sequences=[sequence], prompt_cache_hit_tokens=0)


def tinker_builders(types: Any, tinker: Any) -> dict[str, Any]:
    """Make the builders of groups of which odd tasks solve the first rollout: half is its turn's, half the group's."""

    class Environment(types.Env):
        def __init__(self, reward: float) -> None:
            self.reward = reward

        async def initial_observation(self) -> Any:
            return tinker.ModelInput.from_ints([1, 2]), ["."]

        async def step(self, action: Any, *, extra: Any = None) -> Any:
            return types.StepResult(self.reward / 2, True, tinker.ModelInput.from_ints([]), ["."])

    class Builder(types.EnvGroupBuilder):
        def __init__(self, task: str) -> None:
            self.rewards = [reward_of(task), *[0.0] * (ROLLOUTS - 1)]

        async def make_envs(self) -> Any:
            return [Environment(reward) for reward in self.rewards]

        async def compute_group_rewards(self, trajectories: Any, envs: Any) -> Any:
            return [(reward / 2, {}) for reward in self.rewards]

    return {task: Builder(task) for task in task_ids()}


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_tinker_trains_on_what_is_selected_and_reports_what_is_dropped_too(bots, tmp_path, monkeypatch, kind):
    folder = folder_of("tinker-cookbook==0.6.1", "tinker==0.38.0", "chz==0.4.0")
    with recipe("tinker.md", bots, tmp_path, trainer=folder, without=TINKER, name=f"recipe_{kind}") as module:
        import tinker
        from tinker_cookbook.rl import train, types

        trained: list[list[Any]] = []

        async def update(*arguments: Any, **_: object) -> Any:
            trained.append([argument for argument in arguments if isinstance(argument, list)])
            return Sampled(), {}

        async def saved(**_: object) -> dict[str, str]:
            return {"sampler_path": "tinker://"}

        monkeypatch.setattr(train, "do_train_step_and_get_sampling_client", update)
        monkeypatch.setattr(train.checkpoint_utils, "save_checkpoint_async", saved)
        many = train.AsyncConfig(max_steps_off_policy=9, groups_per_batch=BATCH) if kind == "async" else None
        config = train.Config(
            learning_rate=0.0, dataset_builder=mock.Mock(), model_name="m", recipe_name="r", max_tokens=2, eval_every=0,
            log_path=str(tmp_path), num_groups_to_log=0, async_config=many,
            remove_constant_reward_groups=kind == "sync",
        )  # fmt: skip

        def run(dataset: Any, start: int, end: int) -> None:
            client, checkpoints, logger = mock.AsyncMock(), mock.AsyncMock(), mock.MagicMock(store=None)
            client.create_sampling_client = lambda *_, **__: SimpleNamespace(result=Sampled)
            client.save_weights_and_get_sampling_client.return_value = Sampled()
            checkpoints.should_save_periodic = lambda *_: False
            loop = train.do_async_training if kind == "async" else train.do_sync_training
            asyncio.run(loop(start, end, end, config, client, None, [], dataset, logger, Tokenizer(),
                             checkpoint_mgr=checkpoints))  # fmt: skip

        builders = tinker_builders(types, tinker)
        first = module.SelectedDataset(builders, BATCH, 3, tmp_path)
        run(first, 0, len(first))
        first.selector.step()
        steps, totals = bots.run("tinker").step, bots.run("tinker").totals
        assert len(trained) == 3
        assert steps == 3 if kind == "sync" else 0 < steps <= 3, "the asynchronous loop draws ahead"
        assert (totals.reported, totals.rollouts) == (3 * BATCH, 3 * BATCH * ROLLOUTS)
        assert totals.successes == totals.effective > 0, "the rewards of turns and groups are added"

        resumed = module.SelectedDataset(builders, BATCH, 3, tmp_path)
        run(resumed, 2, 3)
        resumed.selector.step()
        assert bots.run("tinker").epoch == 1
        assert bots.run("tinker").step <= steps
        for dataset in (first, resumed):
            dataset.selector.client.close()
        bots.delete_dataset("tinker")


AREAL = (
    "aiofiles aiohttp anthropic colorlog datasets einops fastapi flask lark math_verify numba openai orjson peft "
    "pybase64 pydantic ray setproctitle sglang swanlab tabulate tenacity tensorboardX trackio transformers uvicorn "
    "uvloop vllm wandb werkzeug"
)


class Rows(list[dict[str, str]]):
    def __getitem__(self, key: Any) -> Any:
        return [row[key] for row in self] if isinstance(key, str) else super().__getitem__(key)


def test_areal_trains_on_what_is_selected_and_each_rollout_is_reported_from_where_it_is_scored(bots, tmp_path):
    rows = Rows({"messages": f"solve {t}", "answer": "1" if reward_of(t) else "none", "task_id": t} for t in task_ids())
    with recipe("areal.py", bots, tmp_path, trainer=folder_of("areal==1.0.4"), without=AREAL) as module:
        bots.create_run("areal", "areal", tasks_per_step=BATCH)
        from areal.api import AsyncRewardWrapper, RolloutWorkflow
        from areal.api.cli_args import TrainDatasetConfig
        from areal.infra.remote_inf_engine import GroupedRolloutWorkflow
        from areal.utils.data import cycle_dataloader

        class Workflow(RolloutWorkflow):
            reward = AsyncRewardWrapper(module.reward, max_workers=1)

            async def arun_episode(self, engine: object, data: dict[str, Any]) -> dict[str, Any]:
                await self.reward("prompt", "1", [1], [2], **data)
                return {}

        trainer = module.BotsPPOTrainer.__new__(module.BotsPPOTrainer)
        config = TrainDatasetConfig(path="rows", type="rl", batch_size=BATCH)
        loader = trainer._create_dataloader(rows, config, rank=0, world_size=1)
        assert len(loader) == POOL // BATCH
        grouped, seen = GroupedRolloutWorkflow(Workflow(), ROLLOUTS, None), []
        batches = cycle_dataloader(loader)
        for _ in range(len(loader) + 1):
            for row in next(batches):
                seen.append(row["task_id"])
                assert row["selection_id"]
                asyncio.run(grouped.arun_episode(None, row))
        assert AsyncRewardWrapper._executors[1].submit(flush).result()
        bots.report("areal", [], run="areal", close_step=True)  # what was left of the last step
        totals = bots.run("areal", "areal").totals
        assert (totals.rollouts, totals.successes) == (len(seen) * ROLLOUTS, ROLLOUTS * sum(map(reward_of, seen)))
        assert bots.run("areal", "areal").leased == 0

        before = bots.run("areal", "areal")
        with mock.patch("areal.trainer.rl_trainer.is_single_controller", return_value=True):
            trainer._evaluate_fn(*evaluation(trainer, Workflow(), rows))
        assert AsyncRewardWrapper._executors.pop(1).submit(flush).result()
        assert bots.run("areal", "areal").seq == before.seq
        loader.dataset._selector.client.close()


def evaluation(trainer: Any, workflow: Any, rows: Any) -> tuple[Any, None]:
    """Give a trainer what AReaL's own evaluation reads: an engine that rolls out at once, and rows of the training."""
    from areal.infra.remote_inf_engine import GroupedRolloutWorkflow

    def submit(row: dict[str, str], workflow: Any, _kwargs: None, *, group_size: int, is_eval: bool) -> None:
        assert is_eval
        asyncio.run(GroupedRolloutWorkflow(workflow, group_size, None).arun_episode(None, row))

    trainer.actor = SimpleNamespace(is_data_parallel_head=lambda: True)
    trainer.config = SimpleNamespace(eval_gconfig=SimpleNamespace(n_samples=ROLLOUTS))
    trainer.valid_dataloader = [list(rows[:BATCH])]
    trainer.eval_rollout = SimpleNamespace(submit=submit, wait=lambda *_, **__: None)
    return workflow, None


TUNIX = (
    "jax jaxlib flax orbax optax absl jaxtyping grain qwix tensorflow_datasets kagglehub sentencepiece metrax humanize "
    "etils perfetto"
)


def tree_map(function: Any, tree: Any, *others: Any, **_: object) -> Any:
    if isinstance(tree, dict):
        return {key: tree_map(function, tree[key], *(other[key] for other in others)) for key in tree}
    return function(tree, *others)


def tunix_learner(reward: Any, *, trained: int, steps: int) -> Any:
    """Make a learner of the real class, whose rollouts and updates stand for a model's."""
    from tunix.rl import algorithm_config, rl_cluster, rl_learner

    class Learner(rl_learner.RLLearner):
        def _generate_and_compute_advantage(self, training_input: Any, mode: Any = rl_cluster.Mode.TRAIN) -> Any:
            columns = {name: values for name, values in training_input.items() if name != "prompts"}
            completions = ["1"] * len(training_input["prompts"])
            return {"rewards": self._compute_rewards(training_input["prompts"], completions, mode, **columns)}

        def _compute_trajectory_ids(self, example: Any, steps: int) -> list[str]:
            return [str(steps)] * len(example["prompts"])

        def _num_iterations(self) -> int:
            return 1

        def _num_generations(self) -> int:
            return ROLLOUTS

    training = mock.MagicMock(
        mini_batch_size=None, train_micro_batch_size=None, rollout_micro_batch_size=None, max_steps=steps,
        eval_every_n_steps=1,
        compute_logps_micro_batch_size=None, max_seq_token_per_tpu=None, get_with_default=lambda _, default: default,
    )  # fmt: skip
    cluster = mock.MagicMock(spec_set=["actor_trainer", "rollout", "cluster_config", "global_steps", "perf", "perf_v2",
                                       "buffer_metrics", "update_actor", "sync_weights", "close"])  # fmt: skip
    cluster.cluster_config.training_config = training
    cluster.actor_trainer.configure_mock(iter_steps=trained, train_steps=trained, model=None)
    cluster.actor_trainer.restored_global_step.return_value = trained
    cluster.rollout.model.return_value = None

    def update_actor(*_: object) -> None:
        cluster.actor_trainer.iter_steps += 1
        cluster.actor_trainer.train_steps += 1

    cluster.update_actor.side_effect = update_actor
    return Learner(cluster, algorithm_config.AlgorithmConfig(), reward)


def test_tunix_trains_on_what_is_selected_and_a_resuming_learner_asks_for_nothing_twice(bots, tmp_path, monkeypatch):
    rows = {t: {"prompts": f"solve {t}", "answer": "1" if reward_of(t) else "none"} for t in task_ids()}

    def reward(prompts: Any, completions: Any, answer: Any, **_: object) -> list[float]:
        return [float(a == c) for a, c in zip(answer, completions, strict=True)]

    folder = folder_of("google-tunix==0.1.7")
    missing = [package for package in TUNIX.split() if importlib.util.find_spec(package) is None]
    with recipe("tunix.py", bots, tmp_path, trainer=folder, without=" ".join(missing)) as module:
        from tunix.rl import rl_learner, utils

        if "jax" in missing:
            jax = sys.modules["jax"]
            jax.tree = SimpleNamespace(map=tree_map)  # type: ignore[attr-defined]
            jax.tree_util = utils.tree_util = SimpleNamespace(tree_map=tree_map)  # type: ignore[attr-defined]
        monkeypatch.setattr(rl_learner.sft_utils, "show_hbm_usage", lambda **_: None)
        selector = Selector(None, "tunix", ids=rows)
        modes: list[str] = []

        def noting(prompts: Any, completions: Any, mode: str, **columns: Any) -> list[float]:
            modes.append(mode)
            return reward(prompts, completions, **columns)

        scored = reports_groups(selector, tasks_per_step=BATCH)(noting)
        evaluated = [
            {name: np.array([row[name]]) for name in row} | {"task_id": np.array([t])} for t, row in rows.items()
        ]
        tunix_learner(scored, trained=0, steps=3).train(module.batches(selector, rows, BATCH), evaluated)
        assert flush()
        run = bots.run("tunix")
        assert (run.step, run.totals.rollouts, selector.client.health.selects) == (3, 3 * BATCH * ROLLOUTS, 3)
        assert any("eval" in mode.lower() for mode in modes)

        selector.client.direct.rewind("tunix", 2)
        tunix_learner(scored, trained=2, steps=3).train(module.batches(selector, rows, BATCH, trained=2))
        assert flush()
        assert (bots.run("tunix").step, selector.client.health.selects) == (3, 4)
        selector.client.close()


def source(variable: str) -> Path:
    folder = os.environ.get(variable)
    if not folder:
        pytest.skip(f"set {variable} to a checkout: this trainer is not on PyPI, so its hook was not run")
    return Path(folder)


class Prompts(torch.utils.data.Dataset[dict[str, Any]]):
    def __len__(self) -> int:
        return POOL

    def __getitem__(self, place: int) -> dict[str, Any]:
        return {"message_log": [f"solve t{place}"], "idx": place, "extra_env_info": {"task_id": f"t{place}"}}


def collate(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def nemo_batches(module: Any, dataloaders: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Iterate as NeMo-RL does, with its own wrapper if its source is there."""
    if not os.environ.get("NEMO_RL_SOURCE"):
        return iter(lambda: module.select(dict.fromkeys(dataloaders), dataloaders)[0], None)
    wrapper = importlib.import_module("nemo_rl.data.dataloader").MultipleDataloaderWrapper
    monkeypatch.setattr(sys, "path", list(sys.path))  # it adds its own folder
    return iter(wrapper(BATCH, {"custom_dataloader": "bots_nemo.select"}, dataloaders))


def test_nemo_rl_trains_on_what_is_selected_and_its_environment_reports_it(bots, tmp_path, monkeypatch, caplog):
    loader = StatefulDataLoader(Prompts(), batch_size=BATCH, collate_fn=collate)
    checkout = os.environ.get("NEMO_RL_SOURCE")
    with recipe(
        "nemo_rl.py", bots, tmp_path, trainer=Path(checkout) if checkout else None, without="wandb", name="bots_nemo"
    ) as module:
        bots.create_run("nemo_rl", "nemo", tasks_per_step=BATCH)
        batches = nemo_batches(module, {"math": loader}, monkeypatch)
        solved = 0.0
        for shape in (as_tensor, by_name):
            environment = type("Environment", (module.ReportsRewards, Graded), {"shaped": staticmethod(shape)})()
            for _ in range(3):
                batch = next(batches)
                assert [f"t{place}" for place in batch["idx"]] == [row["task_id"] for row in batch["extra_env_info"]]
                rows = [row for row in batch["extra_env_info"] for _ in range(ROLLOUTS)]
                environment.step([[]] * len(rows), rows)
                solved += sum(reward_of(row["task_id"]) for row in rows)
            environment.step([[]], [{"task_id": "t1"}])  # validation
        run = bots.run("nemo_rl", "nemo")
        assert (run.step, run.totals.rollouts, run.totals.successes) == (2 * 3, 2 * 3 * BATCH * ROLLOUTS, solved)

        odd = type("Odd", (module.ReportsRewards, Graded), {"shaped": staticmethod(lambda _: "none at all")})()
        assert odd.step([[]], [{"task_id": "t1", "selection_id": ""}]).rewards == "none at all"
        assert "rewards of the environment are not reported" in caplog.text
        module.prepared(loader.dataset)[1].client.close()
        odd.client.close()


def as_tensor(rewards: torch.Tensor) -> torch.Tensor:
    return rewards


def by_name(rewards: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"correct": rewards.bfloat16() / 2, "format": rewards / 2}


class Graded:
    """Stands for an environment; what it returns is NeMo-RL's own record if its source is there."""

    shaped: Any

    def step(self, message_log_batch: list[Any], metadata: list[dict[str, Any]], *_: object) -> Any:
        rewards = torch.tensor([reward_of(row["task_id"]) for row in metadata])
        given = {"observations": [{}] * len(rewards), "metadata": metadata, "rewards": self.shaped(rewards)}
        record = returned()
        return record(**{name: given.get(name) for name in record._fields})


def returned() -> Any:
    if not os.environ.get("NEMO_RL_SOURCE"):
        return collections.namedtuple("Returned", ["observations", "metadata", "rewards"])
    return importlib.import_module("nemo_rl.environments.interfaces").EnvironmentReturn


def test_nemo_rl_itself_was_there():
    source("NEMO_RL_SOURCE")


class Backend:
    async def generate_episodes(self, batch: list[dict[str, Any]], *_: object) -> list[Any]:
        return [
            SimpleNamespace(task=task, is_correct=bool(reward_of(task["task_id"])))
            for task in batch
            for _ in range(ROLLOUTS)
        ]


def test_rllm_trains_on_what_is_selected_and_a_checkpoint_takes_the_run_along(bots, tmp_path):
    with recipe("rllm.py", bots, tmp_path, trainer=source("RLLM_SOURCE")) as module:
        tasks = [{"task_id": name} for name in task_ids()]
        selector = module.Selector(None, "rllm", ids=task_ids())
        loader = module.SelectedTaskDataLoader(tasks, BATCH, selector)
        backend = type("BotsBackend", (module.ReportsEpisodes, Backend), {"selector": selector})()
        states = []
        for batch in loader:
            asyncio.run(backend.generate_episodes(batch, None))
            asyncio.run(backend.generate_episodes(batch, None, is_validation=True))
            states.append(loader.state_dict())
        run = bots.run("rllm")
        assert (run.step, run.totals.rollouts, loader.epoch) == (POOL // BATCH, POOL * ROLLOUTS, 1)
        loader.load_state_dict(states[0])
        assert len(list(loader)) == POOL // BATCH - 1
        assert (bots.run("rllm").step, bots.run("rllm").epoch) == (1, 1)
        selector.client.close()
