"""What both adapters for verl read: the key `bots` of its data configuration, and the ids of the tasks in its rows."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from omegaconf import DictConfig, OmegaConf

from bots_client import ResilientClient, Selector


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What stands under `data.bots`.

    dataset, run: whose belief decides.
    id_key: where a row holds its task's id; what follows a dot is looked up inside the column.
    url: of the service; None: BOTS_URL, else http://127.0.0.1:8000. The key is always BOTS_API_KEY of the environment.
    tags: only tasks that bear one of them.
    uniform_share: share of the tasks drawn with no regard to the belief, in [0, 1].
    prompts_per_step: of one training step; None: data.train_batch_size.
    """

    dataset: str
    run: str = "default"
    id_key: str = "extra_info.index"
    url: str | None = None
    tags: tuple[str, ...] | None = None
    uniform_share: float | None = None
    prompts_per_step: int | None = None

    def selector(self, ids: Iterable[str]) -> Selector:
        """Return the selector of a trainer whose rows have these ids; verl draws in one process only."""
        return Selector(
            ResilientClient(self.url),
            self.dataset,
            self.run,
            ids=ids,
            tags=self.tags,
            uniform_share=self.uniform_share,
            rank=0,
        )


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


def rows_by_id(rows: Any, id_key: str) -> dict[str, int]:
    """Return the place of each task's row.

    Args:
        rows: a `datasets.Dataset`.
        id_key: as in `Wanted`.

    Raises:
        ValueError: a row has no id, or two have the same. verl takes 0 for an index that is missing.
    """
    column, *inside = id_key.split(".")
    if column not in rows.column_names:
        raise ValueError(
            f"the rows have no column {column!r}, only {', '.join(rows.column_names)}; see data.bots.id_key"
        )
    places: dict[str, int] = {}
    for place, value in enumerate(rows[column]):
        task = id_in(value, inside)
        if task is None:
            raise ValueError(f"row {place} has no {id_key} that is a text or a whole number; see data.bots.id_key")
        if places.setdefault(task, place) != place:
            raise ValueError(f"rows {places[task]} and {place} both have {id_key} {task!r}; a task needs its own")
    return places


def id_in(value: Any, inside: Iterable[str]) -> str | None:
    """Return the id that a row's column holds, None where there is none."""
    for name in inside:
        value = value.get(name) if isinstance(value, dict) else None
    return str(value) if isinstance(value, str | int) and value != "" else None
