"""slime: a data source with prompts selected by the service, and the function that reports every group.

Pass both by their dotted path on slime's command line; see docs/trainers/slime.md.
"""

from argparse import Namespace
from typing import Any

from slime.rollout.base_types import RolloutFnTrainOutput
from slime.rollout.data_source import RolloutDataSource, RolloutDataSourceWithBuffer

from bots_client.integrations._selected_groups import SelectedGroups, log_metrics, report_all_samples

__all__ = ["ServiceDataSource", "ServiceRows", "generate_rollout_fully_async", "log_metrics", "report_all_samples"]

FULLY_ASYNC = f"{__name__}.generate_rollout_fully_async"


class ServiceRows(SelectedGroups, RolloutDataSource):
    """Groups of prompts selected by the service among those that slime read from --prompt-data and kept.

    Its options are entries of the file of --custom-config-path:
        bots_dataset: name of the dataset; created from the prompts if it doesn't exist.
        bots_url: of the service; default BOTS_URL, which must then reach slime's ray actors.
        bots_run: default "default".
        bots_success_key: for rewards that are mappings, the entry with the degree of success, in [0, 1];
            default "acc". Without it the reward is used, which must then be in the run's reward range.
        bots_rollout_reward: of a rollout that a generate function split into several samples: "sum", if its reward is
            divided among them, "last" or "max". Default: equal rewards are one; where they differ the last one counts,
            and this is logged.
        bots_options: other arguments of `Selector`, such as tags.
    """

    def check_reporting(self, args: Namespace) -> None:
        """Raise ValueError if no configured hook gets the groups."""
        function = args.rollout_function_path
        if function.startswith("slime.rollout.fully_async_rollout."):
            raise ValueError(
                f"--rollout-function-path {function} calls no hook with its groups, so none would be reported; pass"
                f" --rollout-function-path {FULLY_ASYNC}"
            )
        if function != FULLY_ASYNC:
            super().check_reporting(args)

    def tasks_per_selection(self, args: Namespace) -> int:
        """Return how many tasks to select at least at a time; fully asynchronous rollouts request them one by one."""
        return args.rollout_batch_size if args.rollout_function_path == FULLY_ASYNC else 1


class ServiceDataSource(RolloutDataSourceWithBuffer, ServiceRows):
    """The data source for --data-source-path: first the groups that slime returned, then selected ones.

    slime's class takes groups from its buffer first, then from the next class, here `ServiceRows`.
    """


def generate_rollout_fully_async(args: Namespace, rollout_id: int, data_source: Any, evaluation: bool = False) -> Any:
    """Call slime's function of this name, and report the groups: for --rollout-function-path.

    slime's own function calls no hook with its groups. It returns all finished groups eventually, and puts aborted ones
    back into the buffer.
    """
    from slime.rollout import fully_async_rollout  # imported here: it needs inference engines, the data source doesn't

    groups = fully_async_rollout.generate_rollout_fully_async(args, rollout_id, data_source, evaluation)
    data_source.report(groups, is_all=False)
    return RolloutFnTrainOutput(samples=groups, metrics={})
