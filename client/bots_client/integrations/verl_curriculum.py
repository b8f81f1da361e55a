"""verl 0.5 to 0.7: a curriculum sampler that selects each batch and reports its outcomes.

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
from bots_client.integrations.rewards import counted, differ, guarded
from bots_client.integrations.verl import rows_by_id, wanted_of

SMALLEST = 1e-6  # difference of token scores, which are float32, that gives a gradient
COLUMNS = {"data_source", "extra_info", "reward_model"}  # verl returns only these with the rollouts


class BotsSampler(AbstractCurriculumSampler):
    """Rows selected in batches; an epoch selects as many tasks as there are.

    Each batch that verl returns closes a step. The loader's state includes the selector's, and a resumed loader selects
    nothing that it does not train on. A ValueError if the configuration is unsuitable, or a row has no unique id.

    data_source: verl's own dataset, or another with its `dataframe`.
    data_config: verl's `data`, with `bots` in it.
    """

    def __init__(self, data_source: Sized, data_config: DictConfig) -> None:
        wanted = wanted_of(data_config)
        self._columns = wanted.columns
        if wanted.group_size is not None:
            raise ValueError("data.bots.group_size needs verl 0.9: here a step's groups are reported whole")
        if lost := {name.partition(".")[0] for name in self._columns.id_columns} - COLUMNS:
            kept = ", ".join(sorted(COLUMNS))
            raise ValueError(f"data.bots.id_key has {', '.join(lost)}; verl returns only the columns {kept}")
        self._rows = rows_by_id(data_source.dataframe, wanted)  # type: ignore[attr-defined]  # no protocol says so
        self._batch_size: int = data_config.get("gen_batch_size") or data_config.train_batch_size
        self.selector = wanted.selector(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[int]:
        for _ in range(len(self) // self._batch_size):
            for task in self.selector.next(self._batch_size).ids:
                yield self._rows[task]

    def update(self, batch: DataProto) -> None:
        """Report the groups of a batch; the belief learns from "acc" if the reward function returned it, in [0, 1].

        Of a function that returns a number, "acc" is that number, in the run's reward range. Without "acc" the belief
        learns from verl's optimised values, the summed token scores. A group is effective if these differ.
        """
        with guarded("rewards of a batch"):
            self._observe(batch)
        self.selector.step()

    def _observe(self, batch: DataProto) -> None:
        columns = {name: batch.non_tensor_batch[name] for name in COLUMNS & batch.non_tensor_batch.keys()}
        groups: defaultdict[str, list[int]] = defaultdict(list)
        for place in range(len(batch)):
            try:
                task = self._columns.id_of({name: values[place] for name, values in columns.items()})
            except InvalidRequestError:  # for example a row from another source
                continue
            groups[task].append(place)
        scores: list[float] = batch.batch["token_level_scores"].sum(-1).tolist()
        found = batch.non_tensor_batch.get("acc")
        is_number = found is not None and "score" not in batch.non_tensor_batch  # of a mapping, verl keeps all entries
        for task, places in groups.items():
            optimised = [scores[place] for place in places]
            if found is None:
                self.selector.observe(task, optimised)
                continue
            rewards, successes = counted((scores[place], found[place]) for place in places)
            if is_number:
                self.selector.observe(task, [found[place] for place in places], effective=differ(rewards, SMALLEST))
            else:
                self.selector.observe(task, rewards, successes=successes)

    def state_dict(self) -> dict[str, Any]:
        return self.selector.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.selector.load_state_dict(state)
