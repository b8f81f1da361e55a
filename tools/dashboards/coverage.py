"""Of the training dashboard: what share of the pool the runs meet, and how evenly."""

from tools.dashboards.board import Row
from tools.dashboards.of_runs import grown, newest
from tools.dashboards.panels import Panel, Steps

NARROW: Steps = ((None, "green"), (3, "red"))  # visits a met task; above it BotsSelectionNarrow fires
UNMET: Steps = ((None, "green"), (0.5, "orange"), (0.667, "red"))
TOP: Steps = ((None, "green"), (0.4, "orange"))

COVERAGE = Row(
    "How much of the pool the runs meet",
    [
        Panel(
            "Different tasks reported",
            {"{{run}}": newest("distinct_tasks")},
            "Stands still long before it reaches the pool's size: the run returns to few tasks, or the others are of no"
            " use by now.",
            "short",
        ),
        Panel(
            "New tasks",
            {"{{run}}": grown("new_tasks")},
            "Tasks that were reported for the first time, over the window. Falls to 0 once the whole pool was met.",
            "short",
        ),
        Panel(
            "Not met for a whole pass",
            {"{{run}}": newest("unmet_share")},
            "Share of the tasks that as many steps as a pass takes did not report. A shuffled pass has about 0.2,"
            " choice at random 0.37. Above 0.67 the run is narrow: use the strategy pass.",
            "percentunit",
            most=1,
            steps=UNMET,
        ),
        Panel(
            "Visits of a met task in a pass",
            {"{{run}}": newest("visits_per_met_task")},
            "How often as many steps as a pass takes reported each task that they reported. Above 3 the run is narrow:"
            " a model may unlearn the tasks that it no longer meets.",
            "none",
            steps=NARROW,
        ),
        Panel(
            "Visits of the most visited tenth",
            {"{{run}}": newest("top_tenth_share")},
            "Share of all visits that a tenth of the reported tasks took. Even visits give 0.1, choice at random about"
            " 0.2. Above 0.4: look at held-out accuracy.",
            "percentunit",
            most=1,
            steps=TOP,
        ),
        Panel(
            "Passes",
            {"{{run}}": newest("passes")},
            "Passes over the pool, for strategies that walk through it. Faster than before: fewer tasks are of use, so"
            " the walk passes over more of them.",
            "none",
        ),
    ],
)
