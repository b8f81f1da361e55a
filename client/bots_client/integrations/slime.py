"""slime: a data source whose prompts the service chose, and the function that reports every group.

Both are named by their dotted path on slime's command line; docs/trainers/slime.md shows it.
"""

import copy
import json
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from slime.rollout.data_source import RolloutDataSource, RolloutDataSourceWithBuffer
from slime.utils.types import Sample

from bots_client import ResilientClient, Selector

TASK_ID, SELECTION_ID = "task_id", "selection_id"  # of Sample.metadata
EVIDENCE = (Sample.Status.COMPLETED, Sample.Status.TRUNCATED)


class ServiceRows(RolloutDataSource):
    """Groups of the prompts that the service chose, out of all that slime read from --prompt-data.

    Its options are entries of the file of --custom-config-path:
        bots_dataset: of the service, with a task for each prompt.
        bots_url: of the service; default BOTS_URL, which must then reach slime's ray actors.
        bots_run: default "default".
        bots_options: others of `Selector`, such as tags.

    Raises:
        ValueError: there are no prompts, or one's metadata hold no task_id of its own.
    """

    def __init__(self, args: Namespace) -> None:
        super().__init__(args)
        if self.dataset is None:
            raise ValueError("the service selects out of --prompt-data, with slime's global dataset; there is none")
        ids = [_id_of(row) for row in self.dataset.samples]
        self.rows = dict(zip(ids, self.dataset.samples, strict=True))
        self.selector = Selector(
            ResilientClient(getattr(args, "bots_url", None), seed=args.rollout_seed),
            args.bots_dataset,
            getattr(args, "bots_run", "default"),
            ids=ids,
            **getattr(args, "bots_options", {}),
        )
        # Groups handed out and not yet reported, by their number: those that slime cancels are never seen again.
        self.open: dict[int, dict[str, str]] = {}

    def get_samples(self, num_samples: int) -> list[list[Sample]]:
        """Return a group of samples for each of so many tasks; their metadata tell the task and its selection."""
        selection = self.selector.next(num_samples)
        return [self._group(task, selection.selection_id) for task in selection.ids]

    def _group(self, task: str, selection_id: str) -> list[Sample]:
        origin = {TASK_ID: task, SELECTION_ID: selection_id}
        group = [copy.deepcopy(self.rows[task]) for _ in range(self.args.n_samples_per_prompt)]
        for sample in group:
            sample.group_index, sample.index = self.sample_group_index, self.sample_index
            sample.metadata |= origin
            self.sample_index += 1
        self.open[self.sample_group_index] = origin
        self.sample_group_index += 1
        return group

    def report(self, groups: Iterable[list[Any]]) -> None:
        """Report what the groups of one rollout showed, and close its step.

        Samples that were aborted or failed are evidence of nothing. Without partial rollouts slime cancels what is
        still running at the end: those tasks may be selected again.
        """
        for group in groups:
            rollouts = list(_rollouts(group))
            first = rollouts[0][0]
            origin = self.open.pop(first.group_index, first.metadata)
            self._tell(origin, [_reward(rollout, self.args) for rollout in rollouts if _finished(rollout)])
        if not self.args.partial_rollout:
            for origin in self.open.values():
                self._tell(origin, [])
            self.open.clear()
        self.selector.step()

    def _tell(self, origin: dict[str, Any], rewards: list[float]) -> None:
        if rewards:
            self.selector.observe(origin[TASK_ID], rewards, selection=origin[SELECTION_ID])
        else:
            self.selector.abort(origin[TASK_ID], selection=origin[SELECTION_ID])

    def save(self, rollout_id: int) -> None:
        """Save slime's own state, and beside it what the service needs to rewind."""
        super().save(rollout_id)
        path = _state_file(self.args.save, rollout_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.selector.state_dict()), encoding="utf-8")

    def load(self, rollout_id: int | None = None) -> None:
        """Load slime's own state and rewind to what was saved with it; nothing was at a fresh start."""
        super().load(rollout_id)
        if self.args.load is not None and (path := _state_file(self.args.load, rollout_id)).exists():
            self.selector.load_state_dict(json.loads(path.read_text(encoding="utf-8")))


class ServiceDataSource(RolloutDataSourceWithBuffer, ServiceRows):
    """The data source for --data-source-path: first what slime put back, then what the service chose.

    slime's class with a buffer takes what that holds, and the rest from the next class, which here is `ServiceRows`.
    """


def report_all_samples(args: Namespace, all_samples: list[list[Any]], data_source: Any) -> None:  # noqa: ARG001 - slime's
    """Report every group of a rollout, the filtered ones too: for --rollout-all-samples-process-path.

    Args:
        args: slime's.
        all_samples: its groups.
        data_source: a `ServiceRows`, or its method `get_samples`, which is what slime hands over.
    """
    getattr(data_source, "__self__", data_source).report(all_samples)


def _id_of(row: Sample) -> str:
    if TASK_ID not in row.metadata:
        raise ValueError(f"the metadata of a prompt hold no {TASK_ID}: {str(row.prompt)[:80]!r}")
    return str(row.metadata[TASK_ID])


def _rollouts(group: list[Any]) -> Iterator[list[Sample]]:
    """Yield each rollout of a group as its samples: one, or several where a custom generate function made them so."""
    for rollout in group:
        yield rollout if isinstance(rollout, list) else [rollout]


def _finished(rollout: list[Sample]) -> bool:
    return all(sample.status in EVIDENCE and sample.reward is not None for sample in rollout)


def _reward(rollout: list[Sample], args: Namespace) -> float:
    """Return the sum over its samples, as slime's guide has a rollout's reward divided among them."""
    return sum(float(sample.get_reward_value(args)) for sample in rollout)


def _state_file(folder: str, rollout_id: int | None) -> Path:
    return Path(folder) / "rollout" / f"bots_state_{rollout_id}.json"
