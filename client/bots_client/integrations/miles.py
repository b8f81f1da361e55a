"""miles: a data source with prompts selected by the service, and the function that reports every group.

Pass both by their dotted path on miles' command line; see docs/trainers/miles.md.
"""

from argparse import Namespace

from miles.rollout.data_source import RolloutDataSource, RolloutDataSourceWithBuffer

from bots_client.integrations._selected_groups import SelectedGroups, log_metrics, report_all_samples

__all__ = ["ServiceDataSource", "ServiceRows", "log_metrics", "report_all_samples"]


class ServiceRows(SelectedGroups, RolloutDataSource):
    """Groups of prompts, with the options and errors of `bots_client.integrations.slime.ServiceRows`."""

    def check_reporting(self, args: Namespace) -> None:
        if getattr(args, "fully_async", False):
            raise ValueError("--fully-async calls no hook with its groups, so none would be reported; leave it out")
        super().check_reporting(args)


class ServiceDataSource(RolloutDataSourceWithBuffer, ServiceRows):
    """The data source for --data-source-path: first the groups that miles returned, then selected ones."""
