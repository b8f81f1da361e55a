"""Of the training dashboard: whether the belief is right, and what went astray."""

from tools.dashboards.board import Row
from tools.dashboards.of_runs import grown, newest, predicted, share
from tools.dashboards.panels import Panel, Steps

COIN: Steps = ((None, "green"), (0.25, "orange"), (0.3, "red"))  # above 0.3 BotsBeliefDrifted fires
COIN_LOG: Steps = ((None, "green"), (0.693, "orange"))  # ln 2

BELIEF = Row(
    "Whether the belief is right",
    [
        Panel(
            "Calibration",
            {
                "came": share("calibration_solved_rollouts", "calibration_rollouts", "$__range", "bin"),
                "predicted": predicted(),
            },
            "Success rate of the rollouts by the one that was predicted, over the time shown. Far apart: the"
            " references may no longer describe the model; see capability.",
            "percentunit",
            kind="barchart",
            by="bin",
            most=1,
            colors={"came": "blue", "predicted": "orange"},
        ),
        Panel(
            "Brier score",
            {"{{run}}": share("prediction_squared_error", "rollouts")},
            "Mean squared error of the predicted success rates; always predicting a half scores 0.25. Selecting near"
            " one half brings it near 0.25, so don't compare strategies by it. Above 0.3: do two models share a run?",
            "none",
            steps=COIN,
        ),
        Panel(
            "Log loss",
            {"{{run}}": share("prediction_log_loss", "rollouts")},
            "As the Brier score, but more sensitive to predictions near 0 and 1; a coin scores 0.69.",
            "none",
            steps=COIN_LOG,
        ),
    ],
)

ODDITIES = Row(
    "By tag, and what went astray",
    [
        Panel(
            "Tags",
            {
                "effective": share("tag_effective_tasks", "tag_reported_tasks", "$__range", "tag"),
                "success rate": share("tag_solved_rollouts", "tag_rollouts", "$__range", "tag"),
                "share of the tasks": f"{grown('tag_reported_tasks', '$__range', 'tag')}"
                f" / ignoring (tag) group_left () {grown('reported_tasks', '$__range', '')}",
            },
            "Over the time shown. A tag with few effective tasks and a high success rate is too easy by now, with a low"
            " one too hard; a task with two tags counts for both.",
            "percentunit",
            kind="table",
            by="tag",
        ),
        Panel(
            "Effective task ratio by tag",
            {"{{tag}}": share("tag_effective_tasks", "tag_reported_tasks", by="tag")},
            "One tag falls while others don't: its tasks are used up; add some that are harder or easier.",
            "percentunit",
            most=1,
        ),
        Panel(
            "Alarms of the verifier guard",
            {"alarms of {{run}}": newest("verifier_alarms")},
            "Above 0: all rollouts of a tag, or of the whole run, fail or succeed at once. Check the verifier; then"
            " rewind the run to the step before.",
            "short",
        ),
        Panel(
            "Trust in predictions",
            {"{{predictor}}, {{run}}": newest("prediction_slope", "predictor")},
            "The slope that the belief has learnt for each column of predictions: 1 where tasks differ as it says, 0"
            " where it tells nothing, below 0 where it has them the wrong way round.",
            "none",
        ),
        Panel(
            "Late, expired, fenced, duplicate, reused",
            {
                "late outcomes": grown("late_outcomes", by=""),
                "expired outcomes": grown("expired_outcomes", by=""),
                "fenced reports": grown("fenced_reports", by=""),
                "duplicate reports": grown("duplicate_reports", by=""),
                "reused tasks": grown("reused_tasks", by=""),
            },
            "Over the window. Late: a pipelined trainer, or slow workers. Expired: wasted; report sooner. Fenced long"
            " after a rewind: an old worker still runs. Duplicate: clients time out. Reused: a trainer"
            " resumed and asked for its tasks first, or the pool is small.",
            "short",
            colors={"expired outcomes": "red"},
        ),
    ],
)
