"""The selector in TRL's GRPOTrainer."""

import hashlib
import json
import logging
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import broadcast_object_list, gather_object
from transformers import TrainerCallback
from transformers.trainer import TRAINER_STATE_NAME
from trl import GRPOTrainer

from bots_client import RequestError, Selector
from bots_client.integrations.rewards import flush, guarded
from bots_client.integrations.torch import SelectedTasks, SelectorSampler

ROUNDING = 1e-6  # relative: sums of equal rewards may differ by this much, because TRL's are float32
STATE_FILE = "bots_selector.json"  # in each checkpoint's folder

EVALUATED = re.compile("eval_reward|eval_rewards/.*/mean")  # of an evaluation's logs

logger = logging.getLogger("bots_client")


class SelectorCallback(TrainerCallback):
    """Saves a selector's state with each checkpoint, and loads it when training resumes: the run then rewinds.

    Sends the mean rewards of evaluations, and says that training ended. Works with any Hugging Face Trainer. To resume
    from a folder that was moved or renamed, call `resume_from`; `SelectsTasks` does this.

    tasks: the stream that a GRPOTrainer reads, so that rows skipped on resuming are not selected.
    """

    def __init__(self, selector: Selector, tasks: SelectedTasks | None = None) -> None:
        self._selector = selector
        self._tasks = tasks
        self._checkpoint: Path | None = None

    def resume_from(self, checkpoint: str | Path) -> None:
        self._checkpoint = Path(checkpoint)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_more: Any) -> None:  # noqa: ARG002 - a hook's
        checkpoint, self._checkpoint = self._checkpoint, None
        if state.global_step == 0:
            return
        folder = checkpoint or _folder(args, state)
        file = folder / STATE_FILE
        if file.exists():
            saved = json.loads(file.read_text("utf-8"))
            self._selector.load_state_dict(saved, step=state.global_step, checkpoint=_digest(folder))
        elif state.is_world_process_zero:  # only it rewinds; other processes may use another disk
            logger.warning("there is no %s: the run is not rewound to the checkpoint", file)
        if self._tasks is not None and not args.ignore_data_skip:
            self._tasks.skip(_rows_consumed(args, state))

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_more: Any) -> None:  # noqa: ARG002 - a hook's
        means = {name: value for name, value in (logs or {}).items() if EVALUATED.fullmatch(name)}
        if means and state.is_world_process_zero:
            self._selector.evaluate(means)

    def on_train_end(self, args: Any, state: Any, control: Any, **_more: Any) -> None:  # noqa: ARG002 - a hook's
        if state.is_world_process_zero:
            flush()
            self._selector.finish()

    def on_save(self, args: Any, state: Any, control: Any, **_more: Any) -> None:  # noqa: ARG002 - a hook's
        """Save the selector's state with the checkpoint, once the rewards of its steps are reported."""
        if state.is_world_process_zero:
            flush()  # else a resumed run would forget the last step, which the checkpoint has learned from
            folder = _folder(args, state)
            saved = self._selector.state_dict(step=state.global_step, checkpoint=_digest(folder))
            try:
                (folder / STATE_FILE).write_text(json.dumps(saved), "utf-8")
            except OSError as error:  # a hyperparameter search saves elsewhere; training must continue
                logger.warning(
                    "the selector's state is not in the checkpoint, so resuming will not rewind the run: %s", error
                )


def _folder(args: Any, state: Any) -> Path:
    return Path(args.output_dir) / f"checkpoint-{state.global_step}"


def _digest(checkpoint: Path) -> str | None:
    """Return a digest of the trainer's state, which logs its losses, so that it identifies a checkpoint anywhere."""
    try:
        return hashlib.sha256((checkpoint / TRAINER_STATE_NAME).read_bytes()).hexdigest()
    except OSError:
        return None


def _rows_consumed(args: Any, state: Any) -> int:
    """Return how many rows of its stream a GRPOTrainer has consumed: each generation batch reads its rows once."""
    batches = state.global_step * args.gradient_accumulation_steps
    generations = batches // (args.num_iterations * args.steps_per_generation)
    return int(generations * args.generation_batch_size // args.num_generations)


if TYPE_CHECKING:
    from trl import GRPOTrainer as _Trainer
else:
    _Trainer = object  # ms-swift's trainer is a possible base too


class SelectsTasks(_Trainer):
    """A mixin that makes a GRPO trainer of TRL's family train on selected tasks; list it before the trainer.

    It selects, logs, saves and resumes. A subclass passes the rewards to `observe_rewards`, and calls `close_step` when
    all rewards of a generation batch are known; see `SelectedGRPOTrainer`.

    Args:
        selector: the job's selector; with several processes it must share its selections (`share=from_rank_zero`).
        task_column: the column of the training dataset with the tasks' ids.
        success: names of the reward functions that measure success, in the run's reward range; the first one that
            applies to a group is used. None: those with a weight, in order.

    Raises:
        ValueError: the training dataset has no such column, can't be indexed, or would drop the column; or a reward
            function in `success` does not exist.
    """

    def __init__(
        self,
        *args: Any,
        selector: Selector,
        task_column: str = "task_id",
        success: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        self._selector = selector
        self._task_column = task_column
        self._selector_callback = SelectorCallback(selector)
        super().__init__(*args, **kwargs)
        if task_column not in (getattr(self.train_dataset, "column_names", None) or []):
            raise ValueError(f"the training dataset has no column {task_column!r} with the tasks' ids")
        if isinstance(self.train_dataset, torch.utils.data.IterableDataset) or self.args.remove_unused_columns:
            raise ValueError(
                "selecting tasks needs a dataset with indexed rows, and reporting needs their ids: pass a "
                "datasets.Dataset, and remove_unused_columns=False"
            )
        if self.accelerator.num_processes > 1 and not selector.is_shared:
            raise ValueError(
                "several processes must train on the same tasks; pass share=from_rank_zero to the Selector"
            )
        self._criteria = self._places_of(success)
        self._register()
        self.add_callback(self._selector_callback)

    def _register(self) -> None:
        """Register on the main process, and raise what it raises on all: the others would wait for it without end."""
        failure: list[Exception | None] = [None]
        if self.accelerator.is_main_process:
            try:
                self._selector.register()
            except (RequestError, ValueError) as error:
                failure = [error]
        broadcast_object_list(failure)
        if failure[0] is not None:
            raise failure[0]

    def _places_of(self, success: Sequence[str] | None) -> list[int]:
        names: list[str] = self.reward_func_names
        if success is None:
            return [place for place, weight in enumerate(self.reward_weights.tolist()) if weight]
        if unknown := [name for name in success if name not in names]:
            raise ValueError(f"success names {', '.join(unknown)}; the reward functions are {', '.join(names)}")
        return [names.index(name) for name in success]

    def _get_train_sampler(self, *args: Any, **kwargs: Any) -> SelectorSampler:
        pattern = super()._get_train_sampler(*args, **kwargs)
        self._selector_sampler = SelectorSampler(
            self._selector,
            ids=list(self.train_dataset[self._task_column]),
            count=pattern.batch_size,
            copies=pattern.mini_repeat_count,
            passes=pattern.repeat_count,
        )
        return self._selector_sampler

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        """Prepare to resume here: the trainer knows its step, and has not started to load data."""
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self._selector_callback.resume_from(checkpoint)
            if not self.args.ignore_data_skip:
                self._selector_sampler.skip(self._consumed_in_epoch())

    def _consumed_in_epoch(self) -> int:
        """Return how many positions of this epoch the checkpoint has consumed, over all processes."""
        sampler, accumulated = self._selector_sampler, self.args.gradient_accumulation_steps
        positions_per_batch = sampler.chunk // sampler.passes
        steps_in_epoch = math.ceil(len(sampler) // positions_per_batch / accumulated)
        return int(self.state.global_step % steps_in_epoch * accumulated * positions_per_batch)

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Log the selector's metrics with the trainer's."""
        if self.model.training:
            logs.update(self._selector.metrics())
        super().log(logs, *args, **kwargs)

    def observe_rewards(
        self, tasks: Iterable[str], rewards_per_func: torch.Tensor, lengths: Iterable[int] | None = None
    ) -> None:
        """Record the rewards of the rollouts; all processes must call it, with the task of each of their own rollouts.

        rewards_per_func: [rollouts of all processes, reward functions]; NaN where a function does not apply.
        lengths: how many tokens each rollout of this process generated; None: not known.
        """
        all_tasks = gather_object(list(tasks))
        all_lengths = None if lengths is None else gather_object(list(lengths))
        if not self.accelerator.is_main_process:
            return
        places: dict[str, list[int]] = {}
        for place, task in enumerate(all_tasks):
            places.setdefault(task, []).append(place)
        rewards = rewards_per_func.cpu().double()
        for task, of_task in places.items():
            tokens = None if all_lengths is None else sum(all_lengths[place] for place in of_task)
            with guarded(f"rewards of task {task}"):
                self._observe_group(task, rewards[of_task], tokens)

    def _observe_group(self, task: str, rewards: torch.Tensor, tokens: int | None) -> None:
        """Record the rewards of a group, [rollouts, reward functions]; the belief learns from one criterion."""
        rewards = rewards.where(rewards.isfinite(), math.nan)
        applies = ~rewards.isnan()
        criterion = next((place for place in self._criteria if applies[:, place].any()), None)
        if criterion is None:
            self._selector.observe(task, [None] * len(rewards), tokens=tokens)
            return
        scored = self._optimised(rewards)[applies.any(dim=1)]  # TRL drops rollouts to which no function applies
        spread = float(scored.max() - scored.min())
        self._selector.observe(
            task,
            rewards[:, criterion].round(decimals=6),  # float32 turns 0.2 into 0.200000003
            effective=spread > ROUNDING * max(1.0, float(scored.abs().max())),
            tokens=tokens,
        )

    def _optimised(self, rewards: torch.Tensor) -> torch.Tensor:
        """Return the rewards from which the group's advantages are computed, up to shift and scale."""
        if getattr(self, "multi_objective_aggregation", "sum_then_normalize") == "normalize_then_sum":
            centred = rewards - rewards.nanmean(dim=0)
            rewards = centred / (centred.square().nanmean(dim=0).sqrt() + 1e-4)
        return (rewards * self.reward_weights.cpu()).nansum(dim=1)

    def close_step(self) -> None:
        """Report the recorded outcomes and close the training step."""
        if self.accelerator.is_main_process:
            self._selector.step()


class SelectedGRPOTrainer(SelectsTasks, GRPOTrainer):
    """TRL's GRPOTrainer on selected tasks, with the additional arguments of `SelectsTasks`.

    The dataset is a `datasets.Dataset` with the tasks' ids in a column. The main process reports whole groups: the
    belief learns from one reward function, and a group is effective if its weighted sums of all reward functions
    differ. Checkpoints include the selector's state, and `resume_from_checkpoint` rewinds the run.
    """

    def _calculate_rewards(
        self, inputs: list[dict[str, Any]], prompts: Any, completions: Any, completion_ids_list: list[list[int]]
    ) -> torch.Tensor:
        rewards_per_func = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        if self.model.training:
            tasks = (str(row[self._task_column]) for row in inputs)
            self.observe_rewards(tasks, rewards_per_func, map(len, completion_ids_list))
            self.close_step()
        return rewards_per_func
