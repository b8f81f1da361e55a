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

    docs/trainers/slime.md explains its options, entries of the file of --custom-config-path that begin with "bots_".
    """

    def check_reporting(self, args: Namespace) -> None:
        function = args.rollout_function_path
        if function.startswith("slime.rollout.fully_async_rollout."):
            raise ValueError(
                f"--rollout-function-path {function} calls no hook with its groups, so none would be reported; pass"
                f" --rollout-function-path {FULLY_ASYNC}"
            )
        if function != FULLY_ASYNC:
            super().check_reporting(args)

    def tasks_per_selection(self, args: Namespace) -> int:
        # Fully asynchronous rollouts request them one by one.
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
