"""verl 0.7 to 0.9: a dataset of selected rows, and a reward function that reports.

data.custom_cls.path=pkg://bots_client.integrations.verl data.custom_cls.name=BotsDataset
+data.bots.dataset=gsm8k data.shuffle=false data.dataloader_num_workers=0
reward.custom_reward_function.path=pkg://bots_client.integrations.verl
"""

import functools
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar

import ray
from omegaconf import DictConfig, OmegaConf
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.utils.reward_score import default_compute_score
from verl.utils.tracking import Tracking

from bots_client import InvalidRequestError, ResilientClient, Selection, Selector, TaskColumns
from bots_client._http import is_loopback
from bots_client._models import SelectedTask
from bots_client.integrations._task_buffer import TaskBuffer
from bots_client.integrations.rewards import Rollouts, looked_at, score_and_success

VALIDATION = "val-core/"  # what verl measures on data.val_files; of each source its own metric
STEP = "training/global_step"  # verl logs it for training steps, not for validations

logger = logging.getLogger("bots_client")
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options under `data.bots`; docs/trainers/verl.md explains them."""

    dataset: str
    run: str = "default"
    id_key: str | list[str] = "extra_info.index"
    id_from: Literal["columns", "content"] = "columns"
    skip_repeats: bool = False
    url: str | None = None
    tags: tuple[str, ...] | None = None
    reward_range: tuple[float, float] | None = None
    group_size: int | None = None
    prompts_per_step: int | None = None

    @property
    def columns(self) -> TaskColumns:
        return TaskColumns(id=self.id_key, id_from=self.id_from)

    def selector(self, ids: Iterable[str]) -> Selector:
        """Return a selector for rows with these ids; verl samples in one process only.

        Adds the tasks to the dataset, and makes verl log the selector's metrics.
        """
        selector = Selector(
            ResilientClient(self.url),
            self.dataset,
            self.run,
            ids=ids,
            tags=self.tags,
            reward_range=self.reward_range,
            rank=0,
        )
        selector.register()
        log_metrics_of(selector)
        return selector


def wanted_of(data: DictConfig) -> Wanted:
    """Return the options under `bots` in verl's data configuration; a ValueError if they are not valid."""
    given: Any = OmegaConf.to_container(data.get("bots") or OmegaConf.create({}), resolve=True)
    known = {field.name for field in fields(Wanted)}
    if unknown := given.keys() - known:
        raise ValueError(
            f"data.bots has the unknown keys {', '.join(sorted(unknown))}; known are {', '.join(sorted(known))}"
        )
    if not given.get("dataset"):
        raise ValueError("data.bots.dataset is missing; pass +data.bots.dataset= with the name of the dataset")
    return Wanted(**given)


def rows_by_id(rows: Any, wanted: Wanted) -> dict[str, int]:
    """Return the index of each task's row in a `datasets.Dataset`; with `skip_repeats` of the first row with its id.

    A ValueError if a row has no id, or two have the same: verl uses 0 for a missing index.
    """
    columns = wanted.columns
    outer = {name.partition(".")[0] for name in columns.id_columns}
    if missing := outer - set(rows.column_names):
        raise ValueError(
            f"the rows have no column {missing.pop()!r}, only {', '.join(rows.column_names)}; see data.bots.id_key"
        )
    places: dict[str, int] = {}
    for place, row in enumerate(rows.select_columns(sorted(outer))):
        try:
            task = columns.id_of(row, place)
        except InvalidRequestError as error:
            raise ValueError(f"row {place}: {error}; see data.bots.id_key") from error
        if places.setdefault(task, place) != place and not wanted.skip_repeats:
            raise ValueError(
                f"rows {places[task]} and {place} both have the id {task!r}; ids must be unique. Pass"
                " data.bots.skip_repeats=true, which keeps the first row of each id, or another data.bots.id_key"
            )
    if len(places) < len(rows):
        logger.warning("skipped %d of %d rows: repeated ids", len(rows) - len(places), len(rows))
    return places


def log_metrics_of(selector: Selector) -> None:
    """Make verl log a selector's metrics with those of each training step, and send it what validations found.

    verl has no hook, so this wraps its logger.
    """
    log = getattr(Tracking.log, "without_selector", Tracking.log)  # of verl alone, if there was a selector before

    @functools.wraps(log)
    def log_more(self: Tracking, data: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        if STEP in data:
            data = {**data, **selector.metrics()}
        if found := {name: value for name, value in data.items() if name.startswith(VALIDATION)}:
            selector.evaluate(found)
        log(self, data, *args, **kwargs)

    log_more.without_selector = log  # type: ignore[attr-defined]
    Tracking.log = log_more


class Origin(NamedTuple):
    """Where a row was selected, for reward workers; selection_id is "" if the service was away.

    group_size: number of rollouts of its group, if they may end in different steps.
    """

    url: str
    dataset: str
    run: str
    selection_id: str
    group_size: int | None = None


class BotsDataset(RLHFDataset):
    """verl's dataset with selected rows for training; rows for validation are unchanged.

    The prompts of a training step are one selection, even if the loader fetches them one by one; an epoch selects as
    many tasks as there are. A step closes at the first fetch after `prompts_per_step` prompts, with the evidence
    that the reward function has reported by then; the rest is late evidence. The loader's state has the selector's.
    The service's dataset is created from the rows that verl kept; its other tasks are never selected.

    Attributes:
        selector: None in the dataset for validation.

    Raises ValueError: the configuration is unsuitable, or a row has no unique id.
    """

    def __init__(
        self, data_files: Any, tokenizer: Any, config: DictConfig, processor: Any = None, max_samples: int = -1
    ) -> None:
        super().__init__(data_files, tokenizer, config, processor, max_samples)
        self.selector: Selector | None = None
        if _paths(config.train_files) == _paths(config.val_files):
            raise ValueError("data.train_files and data.val_files are the same; rename one of them")
        if _paths(data_files) == _paths(config.val_files):
            return
        if config.dataloader_num_workers != 0:
            raise ValueError(
                "data.dataloader_num_workers must be 0: workers would select tasks before the evidence is known"
            )
        wanted = wanted_of(config)
        self._prompts_per_step: int = wanted.prompts_per_step or config.train_batch_size
        if self._prompts_per_step < 1:
            raise ValueError("data.train_batch_size is 0; pass +data.bots.prompts_per_step=")
        self._rows = rows_by_id(self.dataframe, wanted)
        self.selector = wanted.selector(self._rows)
        _check_reach(self.selector.client.direct.url)
        self._task_buffer = TaskBuffer(self.selector, self._prompts_per_step)
        self._group_size = wanted.group_size
        self._prompts = 0
        self._made_at: tuple[int, int, bool] | None = None

    def __len__(self) -> int:
        return super().__len__() if self.selector is None else len(self._rows)

    def __getitems__(self, positions: list[int]) -> list[dict[str, Any]]:
        if self.selector is None:
            return [self[position] for position in positions]
        if self._prompts >= self._prompts_per_step:
            self._close_step(self.selector)
        self._prompts += len(positions)
        return [
            self._chosen(task, selection, self.selector) for task, selection in self._task_buffer.take(len(positions))
        ]

    def state_dict(self) -> dict[str, Any]:
        """Close the step, then return the selector's state for the checkpoint."""
        if self.selector is None:
            return {}
        self._close_step(self.selector)
        return self.selector.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if self.selector is not None:
            self.selector.load_state_dict(state)
            self._task_buffer.clear()
            self._prompts = 0

    def _chosen(self, task: SelectedTask, selection: Selection, selector: Selector) -> dict[str, Any]:
        row: dict[str, Any] = self[self._rows[task.id]]
        origin = self._origin_of(selection, selector)._asdict()
        ids = {"task_id": task.id, "selection_id": selection.selection_id}
        row["extra_info"] = {**row["extra_info"], **ids, "bots": origin}
        return row

    def _origin_of(self, selection: Selection, selector: Selector) -> Origin:
        """Return the origin to report with: that of the step's first selection, so that one report covers the step.

        Evidence counts for the step of its selection. verl refills dropped groups with further selections.
        """
        made_at = (selection.epoch, selection.step, selection.is_local)
        if self._made_at != made_at:
            self._made_at = made_at
            url = selector.client.direct.url
            self._origin = Origin(url, selector.dataset, selector.run, selection.selection_id, self._group_size)
        return self._origin

    def _close_step(self, selector: Selector) -> None:
        self._prompts = 0
        selector.close_step()


@functools.cache
def _client_of(url: str) -> ResilientClient:
    return ResilientClient(url)


def _reporting_of(origin: Origin) -> tuple[ResilientClient, dict[str, Any]]:
    about = {"dataset": origin.dataset, "run": origin.run, "selection": origin.selection_id, "close_step": False}
    return _client_of(origin.url), about


_rollouts = Rollouts(_reporting_of)


def _take(result: Any, given: Mapping[str, Any]) -> None:
    extra_info = given.get("extra_info")
    if not extra_info or "bots" not in extra_info:
        return
    origin, rewards = Origin(**extra_info["bots"]), score_and_success(result)
    _rollouts.add(origin, extra_info["task_id"], *rewards, group_size=origin.group_size)


def reporting(score: Callable[P, R]) -> Callable[P, R]:
    """Return verl's `reward.custom_reward_function`, which may be a coroutine, as one that also reports each rollout.

        @reporting
        def compute_score(data_source, solution_str, ground_truth, extra_info=None):
            return float(ground_truth in solution_str)

    The belief learns from the result's "acc", in [0, 1], or its "score", or the result itself, in the run's reward
    range. A group is effective if verl's optimised values differ: the scores, or the results. None and NaN are not
    evidence. The function never waits for the service. Rollouts of validation are not reported.
    """
    return looked_at(score, _take, _rollouts.queue)


compute_score = reporting(default_compute_score)
"""verl's default reward function for the row's `data_source`, with reports."""


def _check_reach(url: str) -> None:
    """Raise ValueError if the URL is a loopback address, which reward workers on other nodes can't use."""
    if ray.is_initialized() and sum(node["Alive"] for node in ray.nodes()) > 1 and is_loopback(url):
        raise ValueError(
            f"data.bots.url is {url}, which reward workers on other nodes can't reach; pass"
            " data.bots.url= with a host that every node reaches"
        )


def _paths(files: str | Iterable[str]) -> list[str]:
    return [files] if isinstance(files, str) else list(files)
