"""Of the training dashboard: what rollouts cost, as far as reports say it."""

from tools.dashboards.board import Row
from tools.dashboards.of_runs import grown, share
from tools.dashboards.panels import Panel

HOURS = "/ 3600"  # the unit of what was spent and saved; per effective task it is seconds, as on the page


def cost_row(times: str) -> Row:
    """Return the row.

    Args:
        times: how many times as many tasks are effective as by uniform sampling, over the time shown.
    """
    saved = {
        name: f"{grown(counter, '$__range')} * (({times}) - 1){unit}"
        for name, counter, unit in (("tokens", "tokens", ""), ("hours", "accelerator_seconds", f" {HOURS}"))
    }
    about = (
        "Over the time shown: how much more uniform sampling would have needed for as many effective tasks, by the gain"
        " above. A rollout of uniform sampling is taken to cost what these cost. Empty: no report said what it cost."
    )
    return Row(
        "What rollouts cost",
        [
            Panel(
                "Tokens per effective task",
                {"{{run}}": share("tokens", "tokens_effective_tasks")},
                "Tokens for each task that gave a gradient, wasted rollouts included. Grows: answers get longer, or"
                " fewer tasks are effective. Empty: no report said its tokens.",
                "short",
            ),
            Panel(
                "GPU seconds per effective task",
                {"{{run}}": share("accelerator_seconds", "accelerator_effective_tasks")},
                "Accelerator seconds for each task that gave a gradient, wasted rollouts included.",
                "short",
            ),
            Panel("Tokens saved", {"{{run}}": saved["tokens"]}, about, "short", kind="stat", height=5),
            Panel("GPU hours saved", {"{{run}}": saved["hours"]}, about, "short", kind="stat", height=5),
            Panel(
                "Rollouts whose tokens are known",
                {"{{run}}": share("tokens_rollouts", "rollouts")},
                "Below 1: some outcomes don't say their tokens; all numbers of this row leave those out.",
                "percentunit",
                kind="stat",
                height=5,
                most=1,
            ),
        ],
    )
