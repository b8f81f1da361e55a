"""slime: a data source with prompts selected by the service, and the functions that report every group.

Pass them by their dotted paths on slime's command line; see docs/trainers/slime.md.
"""

import copy
import json
from argparse import Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from slime.rollout.base_types import RolloutFnTrainOutput
from slime.rollout.data_source import RolloutDataSource, RolloutDataSourceWithBuffer

from bots_client import ResilientClient, Selector
from bots_client.integrations._task_buffer import TaskBuffer
from bots_client.integrations.rewards import SplitRollouts, guarded

TASK_ID, SELECTION_ID = "task_id", "selection_id"  # of Sample.metadata
EVIDENCE = ("completed", "truncated")  # values of Sample.Status
REPORT_ALL = f"{__name__}.report_all_samples"
FULLY_ASYNC = f"{__name__}.generate_rollout_fully_async"
Sample = Any  # slime's own


class ServiceRows(RolloutDataSource):
    """Groups of prompts selected by the service among those that slime read from --prompt-data and kept.

    docs/trainers/slime.md explains its options, entries of the file of --custom-config-path that begin with "bots_".

    Raises:
        ValueError: there are no prompts, a prompt's metadata have no unique task_id, an option is not one, or no group
            would be reported.
    """

    def __init__(self, args: Namespace) -> None:
        is_async = args.rollout_function_path == FULLY_ASYNC
        if not is_async:
            _check_reporting(args)
        self.split = SplitRollouts(getattr(args, "bots_rollout_reward", None), option="bots_rollout_reward")
        super().__init__(args)
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
        # Fully asynchronous rollouts request groups one by one, others all at once.
        self.task_buffer = TaskBuffer(self.selector, args.rollout_batch_size if is_async else 1)
        _sources.append(self)
        # Groups handed out and not reported, by their number: slime does not return the groups that it cancels.
        self.open: dict[int, dict[str, str]] = {}

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
        while is_all and self.open:
            _, origin = self.open.popitem()
            self.selector.abort(origin[TASK_ID], selection=origin[SELECTION_ID])
        self.selector.step()

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
        """Save slime's own state, and next to it the selector's state."""
        super().save(rollout_id)
        path = _state_file(self.args.save, rollout_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.selector.state_dict(step=rollout_id)), encoding="utf-8")

    def load(self, rollout_id: int | None = None) -> None:
        """Load slime's own state and rewind to the selector's state, if there is one."""
        super().load(rollout_id)
        if self.args.load is not None and (path := _state_file(self.args.load, rollout_id)).exists():
            self.selector.load_state_dict(json.loads(path.read_text(encoding="utf-8")), step=rollout_id)
            self.task_buffer.clear()


class ServiceDataSource(RolloutDataSourceWithBuffer, ServiceRows):
    """The data source for --data-source-path: first the groups that slime returned, then selected ones.

    slime's class takes groups from its buffer first, then from the next class, here `ServiceRows`.
    """


def report_all_samples(args: Namespace, all_samples: list[list[Any]], data_source: Any) -> None:
    """Report every group of a rollout, including filtered ones: for --rollout-all-samples-process-path.

    data_source: a `ServiceDataSource`, or its method `get_samples`, which slime passes.
    """
    # Without partial rollouts slime cancels running groups at the end, and returns them to nobody.
    getattr(data_source, "__self__", data_source).report(all_samples, is_all=not args.partial_rollout)


def log_metrics(
    _rollout_id: int, _args: Namespace, _samples: Any, metrics: dict[str, Any] | None, _rollout_time: float
) -> bool:
    """Add the selector's metrics, such as bots/effective_task_ratio: for --custom-rollout-log-function-path.

    Returns False, so that slime logs as usual.
    """
    if metrics is not None:  # None from a custom rollout function without metrics
        metrics.update(_sources[-1].selector.metrics())
    return False


def generate_rollout_fully_async(args: Namespace, rollout_id: int, data_source: Any, evaluation: bool = False) -> Any:
    """Call slime's function of this name, and report the groups: for --rollout-function-path.

    slime's own function calls no hook with its groups. It returns all finished groups eventually, and puts aborted ones
    back into the buffer.
    """
    from slime.rollout import fully_async_rollout  # imported here: it needs inference engines, the data source doesn't

    groups = fully_async_rollout.generate_rollout_fully_async(args, rollout_id, data_source, evaluation)
    data_source.report(groups, is_all=False)
    return RolloutFnTrainOutput(samples=groups, metrics={})


_sources: list[ServiceRows] = []  # nobody passes it to the logging function; a process has one


def _check_reporting(args: Namespace) -> None:
    """Raise ValueError if no configured hook gets the groups."""
    function = args.rollout_function_path
    if function.startswith("slime.rollout.fully_async_rollout."):
        raise ValueError(
            f"--rollout-function-path {function} calls no hook with its groups, so none would be reported; pass"
            f" --rollout-function-path {FULLY_ASYNC}"
        )
    if args.rollout_all_samples_process_path is None:
        raise ValueError(f"no group would be reported; pass --rollout-all-samples-process-path {REPORT_ALL}")


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
