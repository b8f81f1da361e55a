"""Shared by both integrations of verl: the `bots` key of its data configuration, the ids of rows, and metrics."""

import functools
import logging
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal

from omegaconf import DictConfig, OmegaConf
from verl.utils.tracking import Tracking

from bots_client import InvalidRequestError, ResilientClient, Selector, TaskColumns

STEP = "training/global_step"  # verl logs it for training steps, not for validations

logger = logging.getLogger("bots_client")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options under `data.bots`.

    dataset, run: names; created if they don't exist.
    id_key: column of the task's id; dots lead into nested columns. Several columns are joined by ":".
    id_from: "columns", or "content" for a hash of the columns' values, as in `TaskColumns`.
    skip_repeats: leave out rows with an id that an earlier row has. False: that is an error.
    url: of the service; None: BOTS_URL, or http://127.0.0.1:8000. The API key is always the environment's BOTS_API_KEY.
    tags: only tasks with one of these tags.
    reward_range: lowest and highest possible reward, such as [-1, 1]; the run gets it. None: it keeps its own.
    group_size: verl's rollout.n once more, where rollouts of one prompt may end in different training steps, as in
        verl's asynchronous modes: a group then counts once, when all have come. None: they end in one step.
        Only verl 0.9 can do it.
    prompts_per_step: of one training step; None: data.train_batch_size.
    """

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
    """Make verl log a selector's metrics with those of each training step: it has no hook, so this wraps its logger."""
    log = getattr(Tracking.log, "without_selector", Tracking.log)  # of verl alone, if there was a selector before

    @functools.wraps(log)
    def log_more(self: Tracking, data: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        if STEP in data:
            data = {**data, **selector.metrics()}
        log(self, data, *args, **kwargs)

    log_more.without_selector = log  # type: ignore[attr-defined]
    Tracking.log = log_more
