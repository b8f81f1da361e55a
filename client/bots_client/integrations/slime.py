"""slime: a data source with prompts selected by the service, and the function that reports every group.

Pass both by their dotted path on slime's command line; see docs/trainers/slime.md.
"""

import copy
import json
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, SupportsFloat

from slime.rollout.base_types import RolloutFnTrainOutput
from slime.rollout.data_source import RolloutDataSource, RolloutDataSourceWithBuffer
from slime.utils.types import Sample

from bots_client import ResilientClient, Selector
from bots_client.integrations._task_buffer import TaskBuffer

TASK_ID, SELECTION_ID = "task_id", "selection_id"  # of Sample.metadata
EVIDENCE = (Sample.Status.COMPLETED, Sample.Status.TRUNCATED)
FULLY_ASYNC = f"{__name__}.generate_rollout_fully_async"


class ServiceRows(RolloutDataSource):
    """Groups of prompts selected by the service among those that slime read from --prompt-data and kept.

    Its options are entries of the file of --custom-config-path:
        bots_dataset: name of the dataset; created from the prompts if it doesn't exist.
        bots_url: of the service; default BOTS_URL, which must then reach slime's ray actors.
        bots_run: default "default".
        bots_success_key: for rewards that are mappings, the entry with the degree of success, in [0, 1];
            default "acc". Without it the reward is used, which must then be in the run's reward range.
        bots_options: other arguments of `Selector`, such as tags.

    Raises:
        ValueError: there are no prompts, a prompt's metadata have no unique task_id, or no group would be reported.
    """

    def __init__(self, args: Namespace) -> None:
        _check_reporting(args)
        super().__init__(args)
        if self.dataset is None:
            raise ValueError("pass --prompt-data, and keep slime's global dataset: the service selects from it")
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
        # slime's other rollouts request all groups at once; unused ones would wait for the next rollout.
        self.task_buffer = TaskBuffer(
            self.selector, args.rollout_batch_size if args.rollout_function_path == FULLY_ASYNC else 1
        )
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
        """Report the outcomes of a rollout's groups, and close its step.

        Aborted and failed samples are not evidence.

        Args:
            groups: the groups at the end of the rollout.
            is_all: slime cancelled all other groups: their tasks are reported as aborted.
        """
        for group in groups:
            rollouts = list(_rollouts(group))
            first = rollouts[0][0]
            origin = self.open.pop(first.group_index, first.metadata)
            self._observe(origin, [rollout for rollout in rollouts if _finished(rollout)], tokens=_tokens(rollouts))
        if is_all:
            for origin in self.open.values():
                self._observe(origin, [])
            self.open.clear()
        self.selector.step()

    def _observe(self, origin: dict[str, Any], rollouts: list[list[Sample]], *, tokens: int | None = None) -> None:
        task, selection = origin[TASK_ID], origin[SELECTION_ID]
        if not rollouts:
            self.selector.abort(task, tokens=tokens, selection=selection)
            return
        rewards = [_reward(rollout, self.args) for rollout in rollouts]
        successes = _successes(rollouts, getattr(self.args, "bots_success_key", "acc"))
        self.selector.observe(task, rewards, successes=successes, tokens=tokens, selection=selection)

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

    Args:
        args: slime's.
        all_samples: its groups.
        data_source: a `ServiceRows`, or its method `get_samples`, which slime passes.
    """
    # Without partial rollouts slime cancels running groups at the end, and returns them to nobody.
    getattr(data_source, "__self__", data_source).report(all_samples, is_all=not args.partial_rollout)


def generate_rollout_fully_async(args: Namespace, rollout_id: int, data_source: Any, evaluation: bool = False) -> Any:
    """Call slime's function of this name, and report the groups: for --rollout-function-path.

    slime's own function calls no hook with its groups. It returns all finished groups eventually, and puts aborted ones
    back into the buffer.
    """
    from slime.rollout import fully_async_rollout  # imported here: it needs inference engines, the data source doesn't

    groups = fully_async_rollout.generate_rollout_fully_async(args, rollout_id, data_source, evaluation)
    data_source.report(groups, is_all=False)
    return RolloutFnTrainOutput(samples=groups, metrics={})


def log_metrics(
    _rollout_id: int, _args: Namespace, _samples: Any, metrics: dict[str, Any] | None, _rollout_time: float
) -> bool:
    """Add the selector's metrics, such as bots/effective_task_ratio: for --custom-rollout-log-function-path.

    Returns:
        False, so that slime logs as usual.
    """
    if metrics is not None:  # None from a custom rollout function without metrics
        metrics.update(_sources[-1].selector.metrics())
    return False


def _check_reporting(args: Namespace) -> None:
    """Raise ValueError if no configured hook gets the groups."""
    function = args.rollout_function_path
    if function.startswith("slime.rollout.fully_async_rollout."):
        raise ValueError(
            f"--rollout-function-path {function} calls no hook with its groups, so none would be reported; pass"
            f" --rollout-function-path {FULLY_ASYNC}"
        )
    if function != FULLY_ASYNC and args.rollout_all_samples_process_path is None:
        raise ValueError(
            f"no group would be reported; pass --rollout-all-samples-process-path {__name__}.report_all_samples"
        )


_sources: list[ServiceRows] = []  # slime does not pass it to the logging function; a process has one


def _id_of(row: Sample) -> str:
    if TASK_ID not in row.metadata:
        raise ValueError(f"the metadata of a prompt have no {TASK_ID}: {str(row.prompt)[:80]!r}")
    return str(row.metadata[TASK_ID])


def _rollouts(group: list[Any]) -> Iterator[list[Sample]]:
    """Yield the samples of each rollout of a group: one, or several from a custom generate function."""
    for rollout in group:
        yield rollout if isinstance(rollout, list) else [rollout]


def _tokens(rollouts: list[list[Sample]]) -> int:
    """Return how many tokens the rollouts of a group generated, those that did not finish included."""
    return sum(sample.response_length for rollout in rollouts for sample in rollout)


def _finished(rollout: list[Sample]) -> bool:
    return all(sample.status in EVIDENCE and sample.reward is not None for sample in rollout)


def _reward(rollout: list[Sample], args: Namespace) -> float:
    """Return the sum over the samples: by slime's guide, a rollout's reward is divided among them."""
    return sum(float(sample.get_reward_value(args)) for sample in rollout)


def _successes(rollouts: list[list[Sample]], key: str) -> float | None:
    """Return the number of successes by an entry of the rewards; None if a reward does not have it."""
    solved = [[_entry(sample.reward, key) for sample in rollout] for rollout in rollouts]
    if any(value is None for rollout in solved for value in rollout):
        return None
    # A rollout's samples share its success, or each has the whole value.
    return sum(min(1.0, sum(float(value or 0) for value in rollout)) for rollout in solved)


def _entry(reward: Any, key: str) -> SupportsFloat | None:
    value = reward.get(key) if isinstance(reward, Mapping) else None
    return value if isinstance(value, SupportsFloat) else None


def _state_file(folder: str, rollout_id: int | None) -> Path:
    return Path(folder) / "rollout" / f"bots_state_{rollout_id}.json"
