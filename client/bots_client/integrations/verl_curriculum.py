"""verl 0.5 to 0.7: a curriculum sampler that asks the selector and tells it what came of each batch.

data.sampler.class_path=pkg://bots_client.integrations.verl_curriculum data.sampler.class_name=BotsSampler
data.dataloader_num_workers=0 +data.bots.dataset=gsm8k
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sized
from typing import Any

from omegaconf import DictConfig
from verl import DataProto
from verl.experimental.dataset.sampler import AbstractCurriculumSampler

from bots_client import InvalidRequestError
from bots_client.integrations.verl_data import rows_by_id, wanted_of

COLUMNS = {"data_source", "extra_info", "reward_model"}  # the others go into the rollouts and don't come back


class BotsSampler(AbstractCurriculumSampler):
    """The rows that the selector chooses, a batch at a time; an epoch is as many draws as there are rows.

    Each batch that verl hands back closes a step. The loader's state carries the selector's, and a resumed loader draws
    nothing that it does not train on.

    Args:
        data_source: verl's own dataset, or another with its `dataframe`.
        data_config: verl's `data`, with `bots` in it.

    Raises:
        ValueError: the configuration does not fit, or a row lacks an id of its own.
    """

    def __init__(self, data_source: Sized, data_config: DictConfig) -> None:
        wanted = wanted_of(data_config)
        self._columns = wanted.columns
        if lost := {name.partition(".")[0] for name in self._columns.id_columns} - COLUMNS:
            kept = ", ".join(sorted(COLUMNS))
            raise ValueError(f"data.bots.id_key names {', '.join(lost)}; verl gives back only what stands in {kept}")
        self._rows = rows_by_id(data_source.dataframe, self._columns)  # type: ignore[attr-defined]  # no protocol says so
        self._batch_size: int = data_config.get("gen_batch_size") or data_config.train_batch_size
        self.selector = wanted.selector(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[int]:
        for _ in range(len(self) // self._batch_size):
            for task in self.selector.next(self._batch_size).ids:
                yield self._rows[task]

    def update(self, batch: DataProto) -> None:
        """Report the groups of a batch: the belief learns "acc" where the reward function gave one.

        Otherwise it learns what verl optimises, the summed token scores; whether these differ makes a group effective.
        """
        columns = {name: batch.non_tensor_batch[name] for name in COLUMNS & batch.non_tensor_batch.keys()}
        groups: defaultdict[str, list[int]] = defaultdict(list)
        for place in range(len(batch)):
            try:
                task = self._columns.id_of({name: values[place] for name, values in columns.items()})
            except InvalidRequestError:  # as of a row that something else made up
                continue
            groups[task].append(place)
        scores: list[float] = batch.batch["token_level_scores"].sum(-1).tolist()
        solved = batch.non_tensor_batch.get("acc")
        for task, places in groups.items():
            successes = None if solved is None else sum(float(solved[place]) for place in places)
            self.selector.observe(task, [scores[place] for place in places], successes=successes)
        self.selector.step()

    def state_dict(self) -> dict[str, Any]:
        """Return where the run stands, for the checkpoint."""
        return self.selector.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the run back to where it stood at the checkpoint."""
        self.selector.load_state_dict(state)
