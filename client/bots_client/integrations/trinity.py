"""Trinity-RFT 0.6: a data selector that uses the service, and an operator that counts the actual rollouts.

Pass both by their dotted path in Trinity's configuration; see docs/trainers/trinity.md.
"""

import math
from collections.abc import Sequence
from typing import Any

from trinity.buffer.operators.mappers.pass_rate_calculator import PassRateCalculator
from trinity.buffer.selector.selector import BaseSelector
from trinity.common.config import DataSelectorConfig
from trinity.common.constants import SELECTOR_METRIC
from trinity.common.experience import Experience

from bots_client import ResilientClient, Selector

SMALLEST = 1e-9  # difference of rewards that gives a gradient; the service's value


class ServiceSelector(BaseSelector):
    """Selects rows of a taskset with the service.

    Its options are in `data_selector.kwargs`:
        dataset: name of the dataset; created from the taskset's tasks if it doesn't exist.
        rollouts: per task, as in `algorithm.repeat_times`; `RolloutCounter` corrects it if some were lost.
        id_key: the column with the tasks' ids.
        url: of the service; default BOTS_URL.
    All others are arguments of `Selector`, such as run, tags or uniform_share.

    Raises:
        ValueError: two rows have the same id.
        KeyError: dataset, rollouts or id_key is missing.
    """

    def __init__(self, data_source: Any, config: DataSelectorConfig) -> None:
        super().__init__(data_source, config)
        options = dict(config.kwargs)
        self.rollouts = int(options.pop("rollouts"))
        self.ids = [str(task) for task in data_source.dataset[options.pop("id_key")]]
        self.row_of = {task: row for row, task in enumerate(self.ids)}
        client = ResilientClient(options.pop("url", None))
        self.selector = Selector(client, options.pop("dataset"), ids=self.ids, **options)
        self.selector.register()

    def get_indices(self, batch_size: int, return_extra_info: bool = False) -> Any:
        """Return the rows to train on next; with return_extra_info, also their selection."""
        selection = self.selector.next(batch_size)
        rows = [self.row_of[task] for task in selection.ids]
        return (rows, {"selection_id": selection.selection_id}) if return_extra_info else rows

    def feedback(
        self,
        indices: Sequence[int],
        values: Sequence[float],
        rollouts: Sequence[int] | None = None,
        effective: Sequence[bool] | None = None,
        tokens: Sequence[int] | None = None,
    ) -> None:
        """Report the outcomes of a batch and close its step.

        Args:
            indices: rows.
            values: mean reward of each row, in the run's reward range; a value that is not finite is not evidence.
            rollouts: number of rollouts in each mean, from `RolloutCounter`; default: the option.
            effective: whether the rewards of each row differ, from `RolloutCounter`; default: whether the mean is
                between 0 and 1, as in Trinity's own `selection/valid_ratio`.
            tokens: how many tokens the rollouts of each row generated, from `RolloutCounter`; default: not known.

        Raises:
            ValueError: the numbers of rows and values differ.
        """
        counts = [self.rollouts] * len(indices) if rollouts is None else rollouts
        differ = [0 < value < 1 for value in values] if effective is None else effective
        spent = [None] * len(indices) if tokens is None else tokens
        for row, value, count, differs, cost in zip(indices, values, counts, differ, spent, strict=True):
            self.selector.observe(self.ids[row], [value] * count, effective=differs, tokens=cost)
        self.selector.step()

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint as JSON values."""
        return {"bots": self.selector.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Rewind to a checkpoint; Trinity's state of a fresh start changes nothing."""
        if "bots" in state_dict:
            self.selector.load_state_dict(state_dict["bots"])


class RolloutCounter(PassRateCalculator):
    """Trinity's `pass_rate_calculator`, which also reports the rollouts, their tokens and whether the rewards differ.

    Its metrics include `bots/effective_task_ratio`, the share of tasks whose rewards differ.

    Args:
        success: the experience's metric with the degree of success, in [0, 1]; None: its reward.
    """

    def __init__(self, success: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.success = success

    def process(self, exps: list[Experience]) -> tuple[list[Experience], dict[str, Any]]:
        """Return the experiences unchanged; next to `indices` the metrics have `rollouts`, `tokens` and `effective`."""
        exps, metrics = super().process(exps)
        groups: dict[tuple[int, int], list[Experience]] = {}
        for exp in exps:
            place = exp.info["task_index"]
            groups.setdefault((place["taskset_id"], place["index"]), []).append(exp)
        for taskset, metric in metrics[SELECTOR_METRIC].items():
            of_tasks = [groups[taskset, row] for row in metric["indices"]]
            # A rollout with several turns has several experiences.
            metric["rollouts"] = [len({exp.eid.rid for exp in group}) for group in of_tasks]
            metric["tokens"] = [sum(map(_generated, group)) for group in of_tasks]
            metric["effective"] = [_differ(group) for group in of_tasks]
            if self.success is not None:
                metric["values"] = [_mean(group, self.success) for group in of_tasks]
        if groups:
            metrics["bots/effective_task_ratio"] = sum(map(_differ, groups.values())) / len(groups)
        return exps, metrics


def _generated(exp: Experience) -> int:
    """Return how many tokens the model generated in an experience, without those of prompts, users and tools."""
    if exp.action_mask is not None:
        return int(exp.action_mask.sum())
    return len(exp.tokens) - int(exp.prompt_length)


def _differ(group: Sequence[Experience]) -> bool:
    rewards = [float(exp.reward) for exp in group]
    return max(rewards) - min(rewards) > SMALLEST


def _mean(group: Sequence[Experience], metric: str) -> float:
    """Return the mean of a metric; NaN if an experience does not have it."""
    values = [float((exp.metrics or {}).get(metric, math.nan)) for exp in group]
    return math.fsum(values) / len(values)
