"""Trinity-RFT 0.6: a data selector that uses the service, and an operator that counts the actual rollouts.

Pass both by their dotted path in Trinity's configuration; see docs/trainers/trinity.md.
"""

from collections.abc import Sequence
from typing import Any

from trinity.buffer.operators.mappers.pass_rate_calculator import PassRateCalculator
from trinity.buffer.selector.selector import BaseSelector
from trinity.common.config import DataSelectorConfig
from trinity.common.constants import SELECTOR_METRIC
from trinity.common.experience import Experience

from bots_client import ResilientClient, Selector
from bots_client.integrations.rewards import SplitRollouts, differ, guarded


class ServiceSelector(BaseSelector):
    """Selects rows of a taskset with the service; docs/trainers/trinity.md explains `data_selector.kwargs`.

    Those that are not explained there are arguments of `Selector`.

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
        rewards: Sequence[Sequence[float | None]] | None = None,
        successes: Sequence[float | None] | None = None,
        tokens: Sequence[int] | None = None,
    ) -> None:
        """Report the outcomes of a batch of rows, given by their indices, and close its step.

        values: mean reward of each row, in the run's reward range; used only without rewards. A row whose mean lies
            between 0 and 1 is then effective, as in Trinity's own `selection/valid_ratio`.
        rewards, successes, tokens: from `RolloutCounter`, of each row's rollouts, of the row, and how many tokens they
            generated. Without successes the rewards say how far its task was solved.
        """
        unknown = [None] * len(indices)
        rows = zip(indices, values, rewards or unknown, successes or unknown, tokens or unknown, strict=True)
        for row, value, own, solved, cost in rows:
            shown = ([value] * self.rollouts, 0 < value < 1) if own is None else (own, None)
            self.selector.observe(self.ids[row], shown[0], successes=solved, effective=shown[1], tokens=cost)
        self.selector.step()

    def state_dict(self) -> dict[str, Any]:
        return {"bots": self.selector.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if "bots" in state_dict:  # not in that of a fresh start
            self.selector.load_state_dict(state_dict["bots"])


class RolloutCounter(PassRateCalculator):
    """Trinity's `pass_rate_calculator`, which also gives the reward of each rollout, and counts their tokens.

    Its metrics include `bots/effective_task_ratio`, the share of tasks whose rewards differ.

    success: the experience's metric with the degree of success, in [0, 1]; None: its reward.
    rollout_reward: of a rollout with several experiences, such as those of its turns; see `SplitRollouts`.
    """

    def __init__(self, success: str | None = None, rollout_reward: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.success = success
        self.split = SplitRollouts(rollout_reward, option="rollout_reward")

    def process(self, exps: list[Experience]) -> tuple[list[Experience], dict[str, Any]]:
        """Return the experiences unchanged; next to `indices` the metrics have `rewards`, `successes` and `tokens`."""
        exps, metrics = super().process(exps)
        with guarded("rewards of a batch"):
            self._add_rewards(exps, metrics)
        return exps, metrics

    def _add_rewards(self, exps: list[Experience], metrics: dict[str, Any]) -> None:
        groups: dict[tuple[int, int], dict[str, list[Experience]]] = {}
        for exp in exps:
            place = exp.info["task_index"]
            groups.setdefault((place["taskset_id"], place["index"]), {}).setdefault(exp.eid.rid, []).append(exp)
        measured = {place: self._measured(list(rollouts.values())) for place, rollouts in groups.items()}
        for taskset, metric in metrics[SELECTOR_METRIC].items():
            places = [(taskset, row) for row in metric["indices"]]
            metric["rewards"] = [measured[place][0] for place in places]
            metric["successes"] = [measured[place][1] for place in places]
            metric["tokens"] = [
                sum(_generated(exp) for rollout in groups[place].values() for exp in rollout) for place in places
            ]
        if groups:
            effective = [differ(rewards) for rewards, _ in measured.values()]
            metrics["bots/effective_task_ratio"] = sum(effective) / len(effective)

    def _measured(self, rollouts: list[list[Experience]]) -> tuple[list[float | None], float | None]:
        rewards = [[exp.reward for exp in rollout] for rollout in rollouts]
        if self.success is None:
            return self.split.measured(rewards, None)
        metrics = [[(exp.metrics or {}).get(self.success) for exp in rollout] for rollout in rollouts]
        return self.split.measured(rewards, metrics)


def _generated(exp: Experience) -> int:
    """Return how many tokens the model generated in an experience, without those of prompts, users and tools."""
    if exp.action_mask is not None:
        return int(exp.action_mask.sum())
    return len(exp.tokens) - int(exp.prompt_length)
