"""vime: a data source with prompts selected by the service, and the function that reports every group.

Pass both by their dotted path on vime's command line; see docs/trainers/vime.md.
"""

from argparse import Namespace
from collections.abc import Iterable
from typing import Any

from vime.data.data_source import RolloutDataSource, RolloutDataSourceWithBuffer

from bots_client.integrations._selected_groups import SelectedGroups, log_metrics, report_all_samples

__all__ = ["ServiceDataSource", "ServiceRows", "log_metrics", "report_all_samples"]


class ServiceRows(SelectedGroups, RolloutDataSource):
    """Groups of prompts, with the options and errors of `bots_client.integrations.slime.ServiceRows`."""

    def check_reporting(self, args: Namespace) -> None:
        if args.rollout_data_transport == "straw":
            raise ValueError(
                "--rollout-data-transport straw takes prompts from a queue of its own, so none would be selected;"
                " pass --rollout-data-transport object-store"
            )
        function = args.rollout_function_path
        if function.startswith("vime.rollout.fully_async_rollout."):
            raise ValueError(
                f"--rollout-function-path {function} calls no hook with its groups, so none would be reported;"
                " leave it out"
            )
        super().check_reporting(args)


class ServiceDataSource(RolloutDataSourceWithBuffer, ServiceRows):
    """The data source for --data-source-path: first the groups that vime returned, then selected ones."""

    between_rollouts = False

    def report(self, groups: Iterable[list[Any]], *, is_all: bool) -> None:
        super().report(groups, is_all=is_all)
        self.between_rollouts = True

    def get_samples(self, num_samples: int) -> list[list[Any]]:
        if self.between_rollouts:  # of the groups that it aborts, vime returns those alone that have begun
            self.between_rollouts = False
            self.abort_all_but({group[0].group_index for group in self.buffer})
        return super().get_samples(num_samples)
