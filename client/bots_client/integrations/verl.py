"""verl 0.9: a dataset that asks the selector, a reward function that reports, a snapshot at each checkpoint.

data.custom_cls.path=pkg://bots_client.integrations.verl data.custom_cls.name=BotsDataset
+data.bots.dataset=gsm8k data.shuffle=false data.dataloader_num_workers=0
reward.custom_reward_function.path=pkg://bots_client.integrations.verl
trainer.checkpoint_callback_class=bots_client.integrations.verl.BotsSnapshots
"""

import functools
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, ParamSpec, TypeVar

import ray
from omegaconf import DictConfig
from verl.trainer.ppo.checkpoint_callback import CheckpointCallback
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.utils.reward_score import default_compute_score

from bots_client import BotsClientError, Client, Outcome, ResilientClient, Selection, Selector
from bots_client._config import is_loopback
from bots_client.integrations._task_buffer import TaskBuffer
from bots_client.integrations.rewards import Rollouts, looked_at, score_and_success
from bots_client.integrations.verl_data import rows_by_id, wanted_of

logger = logging.getLogger("bots_client")
P = ParamSpec("P")
R = TypeVar("R")


class Origin(NamedTuple):
    """Where a row was chosen, as reward workers are told; selection_id is "" where the service was away."""

    url: str
    dataset: str
    run: str
    selection_id: str


class BotsDataset(RLHFDataset):
    """verl's dataset, whose rows for training are those that the selector chooses; those for validation are as ever.

    Each training step's prompts are one selection, also where the loader fetches them one by one: an epoch is as many
    draws as there are rows. A step closes with the first fetch after `prompts_per_step` prompts, on the evidence that
    the reward function reported until then; what comes later is late evidence. The loader's state has the selector's.
    The service's dataset is made of the rows that verl kept; its other tasks are never selected.

    Attributes:
        selector: None in the dataset for validation.

    Raises:
        ValueError: the configuration does not fit, or a row lacks an id of its own.
    """

    def __init__(
        self, data_files: Any, tokenizer: Any, config: DictConfig, processor: Any = None, max_samples: int = -1
    ) -> None:
        super().__init__(data_files, tokenizer, config, processor, max_samples)
        self.selector: Selector | None = None
        if _paths(config.train_files) == _paths(config.val_files):
            raise ValueError("data.train_files and data.val_files are the same; give one of them another name")
        if _paths(data_files) == _paths(config.val_files):
            return
        if config.dataloader_num_workers != 0:
            raise ValueError("data.dataloader_num_workers must be 0, or tasks would be chosen ahead of what is known")
        wanted = wanted_of(config)
        self._prompts_per_step: int = wanted.prompts_per_step or config.train_batch_size
        if self._prompts_per_step < 1:
            raise ValueError("data.train_batch_size is 0; pass +data.bots.prompts_per_step=")
        self._rows = rows_by_id(self.dataframe, wanted.columns)
        self.selector = wanted.selector(self._rows)
        _check_reach(self.selector.client.direct.url)
        self._task_buffer = TaskBuffer(self.selector, self._prompts_per_step)
        self._prompts = 0
        self._made_at: tuple[int, int, bool] | None = None

    def __getitems__(self, positions: list[int]) -> list[dict[str, Any]]:
        """Return a row for each position; for training the selector says which."""
        if self.selector is None:
            return [self[position] for position in positions]
        if self._prompts >= self._prompts_per_step:
            self._close_step(self.selector)
        self._prompts += len(positions)
        return [
            self._chosen(task, selection, self.selector) for task, selection in self._task_buffer.take(len(positions))
        ]

    def state_dict(self) -> dict[str, Any]:
        """Return where the run stands, for the checkpoint, after closing the step."""
        if self.selector is None:
            return {}
        self._close_step(self.selector)
        return self.selector.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the run back to where it stood at the checkpoint."""
        if self.selector is not None:
            self.selector.load_state_dict(state)
            self._task_buffer.clear()
            self._prompts = 0

    def _chosen(self, task: str, selection: Selection, selector: Selector) -> dict[str, Any]:
        row: dict[str, Any] = self[self._rows[task]]
        told = {"selection_id": selection.selection_id, "bots": self._origin_of(selection, selector)._asdict()}
        row["extra_info"] = {**row["extra_info"], "task_id": task, **told}
        return row

    def _origin_of(self, selection: Selection, selector: Selector) -> Origin:
        """Return under which selection to report: the first of its step, so that one report serves a step's prompts.

        Evidence goes by the step at which its task was selected; refills for groups that verl drops are further ones.
        """
        made_at = (selection.epoch, selection.step, selection.is_local)
        if self._made_at != made_at:
            self._made_at = made_at
            url = selector.client.direct.url
            self._origin = Origin(url, selector.dataset, selector.run, selection.selection_id)
        return self._origin

    def _close_step(self, selector: Selector) -> None:
        self._prompts = 0
        selector.close_step()


@functools.cache
def _client_of(url: str) -> ResilientClient:
    return ResilientClient(url)


def _report(origin: Origin, outcomes: list[Outcome]) -> None:
    client = _client_of(origin.url)
    client.report(origin.dataset, outcomes, run=origin.run, selection=origin.selection_id, close_step=False)


_rollouts = Rollouts(_report)


def _take(result: Any, given: Mapping[str, Any]) -> None:
    extra_info = given.get("extra_info")
    if not extra_info or "bots" not in extra_info:
        return
    _rollouts.add(Origin(**extra_info["bots"]), extra_info["task_id"], *score_and_success(result, "score", "acc"))


def reporting(score: Callable[P, R]) -> Callable[P, R]:
    """Return a reward function that also reports what each rollout earned.

        @reporting
        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            return float(ground_truth in solution_str)

    The belief learns the "acc" of a result that has one, in [0, 1], else its "score", else the result, in the run's
    reward range. A group is effective if what verl optimises differs: the scores, else the results. None and NaN are
    no evidence. It never waits for the service. Rollouts of validation are not reported.

    Args:
        score: as verl's `reward.custom_reward_function` wants it, a coroutine function or not.
    """
    return looked_at(score, _take)


compute_score = reporting(default_compute_score)
"""verl's own choice by `data_source`, reported."""


class BotsSnapshots(CheckpointCallback):
    """Has the service store the state of the run at each checkpoint, so that going back to it has less to replay.

    A service that is away costs a warning: the checkpoint holds all that going back needs.

    Raises:
        ValueError: the data configuration names no dataset.
    """

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config)
        self._wanted = wanted_of(config.data)

    def on_save(self, *_: Any, global_step: int, **_more: Any) -> None:
        """Ask for a snapshot."""
        try:
            with Client(self._wanted.url) as client:
                client.snapshot(self._wanted.dataset, self._wanted.run)
        except BotsClientError as error:
            logger.warning("no snapshot of the run at step %d: %s", global_step, error)


def _check_reach(url: str) -> None:
    """Raise ValueError if reward workers on other nodes would look for the service on theirs."""
    if ray.is_initialized() and sum(node["Alive"] for node in ray.nodes()) > 1 and is_loopback(url):
        raise ValueError(
            f"data.bots.url is {url}, where reward workers on other nodes would find nothing; pass"
            " data.bots.url= with a host that every node reaches"
        )


def _paths(files: str | Iterable[str]) -> list[str]:
    return [files] if isinstance(files, str) else list(files)
