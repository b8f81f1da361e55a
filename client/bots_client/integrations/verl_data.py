"""What both adapters for verl do: read the key `bots` of its data configuration, find the tasks' ids in rows, log."""

import functools
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal

from omegaconf import DictConfig, OmegaConf
from verl.utils.tracking import Tracking

from bots_client import InvalidRequestError, ResilientClient, Selector, TaskColumns

STEP = "training/global_step"  # among what verl logs of a training step, and not of a validation


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What stands under `data.bots`.

    dataset, run: whose belief decides; made where they are missing.
    id_key: where a row holds its task's id; what follows a dot is looked up inside the column. Several places are
        joined by ":".
    id_from: "columns", or "content" for the hash of what stands there, as `TaskColumns` has it.
    url: of the service; None: BOTS_URL, else http://127.0.0.1:8000. The key is always BOTS_API_KEY of the environment.
    tags: only tasks that bear one of them.
    uniform_share: share of the tasks drawn with no regard to the belief, in [0, 1].
    prompts_per_step: of one training step; None: data.train_batch_size.
    """

    dataset: str
    run: str = "default"
    id_key: str | list[str] = "extra_info.index"
    id_from: Literal["columns", "content"] = "columns"
    url: str | None = None
    tags: tuple[str, ...] | None = None
    uniform_share: float | None = None
    prompts_per_step: int | None = None

    @property
    def columns(self) -> TaskColumns:
        """How a row tells its task's id."""
        return TaskColumns(id=self.id_key, id_from=self.id_from)

    def selector(self, ids: Iterable[str]) -> Selector:
        """Return the selector of a trainer whose rows have these ids; verl draws in one process only.

        Its dataset holds them afterwards, and verl logs its metrics.
        """
        selector = Selector(
            ResilientClient(self.url),
            self.dataset,
            self.run,
            ids=ids,
            tags=self.tags,
            uniform_share=self.uniform_share,
            rank=0,
        )
        selector.register()
        log_metrics_of(selector)
        return selector


def wanted_of(data: DictConfig) -> Wanted:
    """Return what stands under `bots` in verl's data configuration.

    Raises:
        ValueError: there is no dataset, or a key is none of ours.
    """
    given: Any = OmegaConf.to_container(data.get("bots") or OmegaConf.create({}), resolve=True)
    known = {field.name for field in fields(Wanted)}
    if unknown := given.keys() - known:
        raise ValueError(f"data.bots has {', '.join(sorted(unknown))}; it may have {', '.join(sorted(known))}")
    if not given.get("dataset"):
        raise ValueError("data.bots.dataset is missing; pass +data.bots.dataset= with the name of the pool of tasks")
    return Wanted(**given)


def rows_by_id(rows: Any, columns: TaskColumns) -> dict[str, int]:
    """Return the place of each task's row.

    Args:
        rows: a `datasets.Dataset`, as verl filtered it.
        columns: how a row tells its task's id.

    Raises:
        ValueError: a row has no id, or two have the same. verl takes 0 for an index that is missing.
    """
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
        if places.setdefault(task, place) != place:
            raise ValueError(
                f"rows {places[task]} and {place} both have the id {task!r}, and a task needs its own. Where several"
                f" files count from 0, pass data.bots.id_key=[data_source,extra_info.index], or"
                f" data.bots.id_key=prompt with data.bots.id_from=content"
            )
    return places


def log_metrics_of(selector: Selector) -> None:
    """Have verl log a selector's metrics with those of each training step, in this process.

    verl shows the metrics of a step to no hook, and the dataset to no logger, so its logger's method is wrapped.
    """
    log = Tracking.log

    @functools.wraps(log)
    def log_more(self: Tracking, data: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        if STEP in data:
            data = {**data, **selector.metrics()}
        getattr(log, "__wrapped__", log)(self, data, *args, **kwargs)  # of a selector before, only verl's own

    Tracking.log = log_more
