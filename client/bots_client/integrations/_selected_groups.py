"""What adapters share: a buffer of selected tasks, and the groups of samples of slime, miles and vime.

The classes of these three have the same names and members; their adapters put them together with `SelectedGroups`.
"""

import copy
import json
from argparse import Namespace
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from bots_client import ResilientClient, Selection, Selector
from bots_client._models import SelectedTask
from bots_client.integrations.rewards import SplitRollouts, guarded

TASK_ID, SELECTION_ID = "task_id", "selection_id"  # of Sample.metadata
EVIDENCE = ("completed", "truncated")  # values of Sample.Status
Sample = Any  # the trainer's own


class TaskBuffer:
    """Selected tasks for trainers that request one at a time: selecting one takes as long as selecting a batch.

    batch: number of tasks per selection: those of a training step, because each step changes the belief.
    """

    def __init__(self, selector: Selector, batch: int) -> None:
        self._selector = selector
        self._batch = batch
        self._left: list[tuple[SelectedTask, Selection]] = []

    def take(self, count: int) -> list[tuple[SelectedTask, Selection]]:
        """Return `count` tasks, each with its selection."""
        while len(self._left) < count:
            wanted = max(self._batch, count - len(self._left))
            selection = self._selector.next(min(wanted, len(self._selector.ids)))
            self._left += [(task, selection) for task in selection.tasks]
        taken, self._left = self._left[:count], self._left[count:]
        return taken

    def clear(self) -> None:
        self._left = []


class SelectedGroups:
    """Groups of prompts selected by the service: goes before the trainer's `RolloutDataSource` among the bases.

    Raises:
        ValueError: there are no prompts, a prompt's metadata have no unique task_id, an option is not one, or no group
            would be reported.
    """

    args: Namespace
    dataset: Any
    sample_group_index: int
    sample_index: int

    def __init__(self, args: Namespace) -> None:
        self.check_reporting(args)
        self.split = SplitRollouts(getattr(args, "bots_rollout_reward", None), option="bots_rollout_reward")
        super().__init__(args)  # type: ignore[call-arg]  # the trainer's class
        if self.dataset is None:
            raise ValueError("pass --prompt-data, and keep the global dataset: the service selects from it")
        ids = [_id_of(row) for row in self.dataset.samples]
        self.rows = dict(zip(ids, self.dataset.samples, strict=True))
        self.selector = Selector(
            ResilientClient(getattr(args, "bots_url", None)),
            args.bots_dataset,
            getattr(args, "bots_run", "default"),
            ids=ids,
            **getattr(args, "bots_options", {}),
        )
        self.selector.register()
        self.task_buffer = TaskBuffer(self.selector, self.tasks_per_selection(args))
        _sources.append(self)
        # Groups handed out and not reported, by their number: a trainer does not return the groups that it cancels.
        self.open: dict[int, dict[str, str]] = {}

    def check_reporting(self, args: Namespace) -> None:
        """Raise ValueError if no configured hook gets the groups."""
        if args.rollout_all_samples_process_path is None:
            hook = f"{type(self).__module__}.report_all_samples"
            raise ValueError(f"no group would be reported; pass --rollout-all-samples-process-path {hook}")

    def tasks_per_selection(self, args: Namespace) -> int:
        """Return how many tasks to select at least at a time: rollouts request all groups at once."""
        del args
        return 1

    def get_samples(self, num_samples: int) -> list[list[Sample]]:
        """Return groups of samples, one per task; their metadata hold the task and its selection."""
        return [self._group(task.id, selection.selection_id) for task, selection in self.task_buffer.take(num_samples)]

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

    def report(self, groups: Iterable[list[Any]], *, is_all: bool) -> None:
        """Report the outcomes of a rollout's groups, and close its step. Aborted and failed samples are not evidence.

        is_all: all other groups were cancelled: their tasks are reported as aborted.
        """
        for group in groups:
            with guarded("rollouts of a group"):
                self._report_group(_rollouts(group))
        if is_all:
            self.abort_all_but(())
        self.selector.step()

    def abort_all_but(self, kept: Collection[int]) -> None:
        """Report the tasks of open groups as aborted, but for the numbers of those that the trainer takes up again."""
        for number in [number for number in self.open if number not in kept]:
            origin = self.open.pop(number)
            self.selector.abort(origin[TASK_ID], selection=origin[SELECTION_ID])

    def _report_group(self, rollouts: list[list[Sample]]) -> None:
        first = next(sample for rollout in rollouts for sample in rollout)
        origin = self.open.pop(first.group_index, first.metadata)
        rewards: list[float | None] = [None]
        successes: float | None = None
        with guarded("rewards of a group"):  # without them its lease ends all the same
            rewards, successes = self._measured(rollouts)
        self.selector.observe(
            origin[TASK_ID],
            rewards,
            successes=successes,
            tokens=sum(sample.response_length for rollout in rollouts for sample in rollout),
            selection=origin[SELECTION_ID],
        )

    def _measured(self, rollouts: list[list[Sample]]) -> tuple[list[float | None], float | None]:
        """Return the rewards of a group's rollouts, None for one that did not finish, and the number of successes.

        No successes where a finished rollout's reward does not have that entry.
        """
        finished = [rollout if all(map(_is_finished, rollout)) else [] for rollout in rollouts]
        rewards = [[sample.get_reward_value(self.args) for sample in each] for each in finished]
        key = getattr(self.args, "bots_success_key", "acc")
        if not all(isinstance(sample.reward, Mapping) and key in sample.reward for each in finished for sample in each):
            return self.split.measured(rewards, None)
        return self.split.measured(rewards, [[sample.reward[key] for sample in each] for each in finished])

    def save(self, rollout_id: int) -> None:
        """Save the trainer's own state, and next to it the selector's state."""
        super().save(rollout_id)  # type: ignore[misc]
        path = _state_file(self.args.save, rollout_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.selector.state_dict(step=rollout_id)), encoding="utf-8")

    def load(self, rollout_id: int | None = None) -> None:
        """Load the trainer's own state and rewind to the selector's state, if there is one."""
        super().load(rollout_id)  # type: ignore[misc]
        if self.args.load is not None and (path := _state_file(self.args.load, rollout_id)).exists():
            self.selector.load_state_dict(json.loads(path.read_text(encoding="utf-8")), step=rollout_id)
            self.task_buffer.clear()


def report_all_samples(args: Namespace, all_samples: list[list[Any]], data_source: Any) -> None:
    """Report every group of a rollout, including filtered ones: for --rollout-all-samples-process-path.

    data_source: a `SelectedGroups`, or its method `get_samples`, which the trainer passes.
    """
    # Without partial rollouts the trainer cancels running groups at the end, and returns them to nobody.
    getattr(data_source, "__self__", data_source).report(all_samples, is_all=not args.partial_rollout)


def log_metrics(
    _rollout_id: int, _args: Namespace, _samples: Any, metrics: dict[str, Any] | None, _rollout_time: float
) -> bool:
    """Add the selector's metrics, such as bots/effective_task_ratio: for --custom-rollout-log-function-path.

    Returns False, so that the trainer logs as usual.
    """
    if metrics is not None:  # None from a custom rollout function without metrics
        metrics.update(_sources[-1].selector.metrics())
    return False


_sources: list[SelectedGroups] = []  # nobody passes it to the logging function; a process has one


def _id_of(row: Sample) -> str:
    if TASK_ID not in row.metadata:
        raise ValueError(f"the metadata of a prompt have no {TASK_ID}: {str(row.prompt)[:80]!r}")
    return str(row.metadata[TASK_ID])


def _rollouts(group: list[Any]) -> list[list[Sample]]:
    """Return the samples of each rollout of a group: those of a list in it, and those that share a rollout_id."""
    rollouts: dict[str, list[Sample]] = {}
    for place, rollout in enumerate(group):
        samples = rollout if isinstance(rollout, list) else [rollout]
        shared = getattr(samples[0], "rollout_id", None) if samples else None
        rollouts.setdefault(f"place {place}" if shared is None else f"id {shared}", []).extend(samples)
    return list(rollouts.values())


def _is_finished(sample: Sample) -> bool:
    return sample.status.value in EVIDENCE and sample.reward is not None


def _state_file(folder: str, rollout_id: int | None) -> Path:
    return Path(folder) / "rollout" / f"bots_state_{rollout_id}.json"
