"""The dashboard for training teams: what selecting gains, where each run stands, and whether its belief is right."""

from tools.dashboards.board import Row, dashboard, variable, window
from tools.dashboards.panels import Panel, Steps

OF = 'dataset="$dataset", run=~"$run"'
EFFECTIVE: Steps = (
    (None, "red"),
    (0.2, "orange"),
    (0.4, "green"),
)  # below a fifth BotsEffectiveTaskRatioCollapsed fires
OUTCOMES = {"effective": "green", "equal rewards, solved": "blue", "equal rewards, not solved": "orange"}
GAIN: Steps = ((None, "red"), (1.0, "orange"), (1.2, "green"))
COIN: Steps = ((None, "green"), (0.25, "orange"), (0.3, "red"))
ALARM: Steps = ((None, "green"), (1, "red"))


def grown(name: str, over: str = "$window", by: str = "run") -> str:
    """Return by how much a counter grew, over all replicas."""
    return f"sum by ({by}) (increase(bots_{name}_total{{{OF}}}[{over}]))"


def share(part: str, whole: str, over: str = "$window") -> str:
    """Return the growth of one counter over that of another; where neither grew, there is none."""
    return f"{grown(part, over)} / {grown(whole, over)}"


def newest(name: str) -> str:
    """Return a gauge that all replicas tell alike."""
    return f"max by (run) (bots_{name}{{{OF}}})"


UNIFORM = newest("uniform_effective_task_ratio")
RATIO = share("effective_tasks", "reported_tasks")
CAME = share("effective_tasks", "reported_tasks", "$__range")
# Runs of the dataset that sample uniformly, chosen above the dashboard or not; and what they came to, all together.
BASELINES = 'max by (run) (bots_run_info{dataset="$dataset", strategy="uniform"})'
MEASURED = " / ".join(
    f'(sum(sum by (run) (increase(bots_{name}_total{{dataset="$dataset"}}[$__range])) * {BASELINES}){least})'
    # Where none of them reported, the divisor is empty and not 0: what is modelled stands in.
    for name, least in (("effective_tasks", ""), ("reported_tasks", " > 0"))
)
MODELLED = f"avg_over_time(({UNIFORM} > 0)[$__range:])"
# A run that samples uniformly gains nothing over itself.
TIMES = f"(({CAME}) / on () group_left () ({MEASURED}) or ({CAME}) / {MODELLED}) unless on (run) {BASELINES}"
SAVED = f"{grown('rollouts', '$__range')} * (({TIMES}) - 1)"
# One of them where replicas don't agree yet, or Prometheus would refuse to answer.
STRATEGY = f"on (run) group_left (strategy) topk by (run) (1, max by (run, strategy) (bots_run_info{{{OF}}}))"

GAINS = Row(
    "What selecting gains",
    [
        Panel(
            "Effective task ratio",
            {"{{run}}": RATIO},
            "Share of the tasks whose rollouts got different rewards: only those give a gradient. Below a fifth nearly"
            " all rollouts are wasted: see Outcomes whether the pool is too easy or too hard, or the verifier broke.",
            "percentunit",
            kind="stat",
            height=5,
            steps=EFFECTIVE,
        ),
        Panel(
            "vs uniform",
            {"{{run}}": TIMES},
            "Over the time shown: how many times as many tasks are effective. Measured by the dataset's runs of"
            " strategy uniform; without any, modelled on the run's belief. Near 1 selecting no longer pays: nearly all"
            " tasks are of use, or none.",
            "suffix: times",
            kind="stat",
            height=5,
            steps=GAIN,
        ),
        Panel(
            "Rollouts saved",
            {"{{run}}": SAVED},
            "Over the time shown: how many rollouts more uniform sampling would have needed for as many effective"
            " tasks, measured or modelled as in the panel before. Below 0: look at the calibration.",
            "short",
            kind="stat",
            height=5,
            steps=((None, "red"), (0, "green")),
        ),
        Panel(
            "Effective task ratio over time",
            {"{{run}}": RATIO, "{{run}}, uniform (estimate)": UNIFORM},
            "Observed ratio, and the estimate for uniform sampling. If they approach each other, the pool is used up:"
            " add tasks of the missing difficulty.",
            "percentunit",
            width=24,
            most=1,
        ),
    ],
)

STANDING = Row(
    "Where the runs stand",
    [
        Panel(
            "Runs",
            {
                "effective": f"{share('effective_tasks', 'reported_tasks', '$__range')} * {STRATEGY}",
                "uniform sampling (estimate)": UNIFORM,
                "success rate": share("solved_rollouts", "rollouts", "$__range"),
            },
            "Over the time shown, with each run's strategy. A run of strategy uniform should come to the estimate"
            " for uniform sampling; if it does not, the belief is wrong.",
            "percentunit",
            kind="table",
            by="run",
            width=12,
        ),
        Panel(
            "Outcomes",
            {
                "effective": grown("effective_tasks", by=""),
                "equal rewards, solved": grown("all_solved_tasks", by=""),
                "equal rewards, not solved": f"{grown('reported_tasks', by='')} - {grown('effective_tasks', by='')}"
                f" - {grown('all_solved_tasks', by='')}",
            },
            "Tasks of closed steps, over the window. Equal rewards give no gradient. Solved grows fastest (a success"
            " rate of at least 0.5): add harder tasks. Not solved: add easier ones, or check that the verifier works.",
            "short",
            width=12,
            stacked=True,
            colors=OUTCOMES,
        ),
        Panel(
            "Success rate",
            {"{{run}}": share("solved_rollouts", "rollouts")},
            "Successes over rollouts. BOTS holds it near the target, so a jump says that the verifier or the checkpoint"
            " changed.",
            "percentunit",
            most=1,
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
            "Narrow runs and alarms of the verifier guard",
            {"{{run}}, narrow": newest("narrow"), "{{run}}, alarms": newest("verifier_alarms")},
            "Narrow: few tasks take most visits; use the strategy pass. Alarms: all rollouts of a tag, or of the whole"
            " run, fail or succeed at once; check the verifier.",
            "short",
            steps=ALARM,
        ),
    ],
)

SPEED = Row(
    "At work",
    [
        Panel(
            "Tasks a minute",
            {"{{run}}": f"60 * sum by (run) (rate(bots_reported_tasks_total{{{OF}}}[$__rate_interval]))"},
            "Tasks of closed steps. Stalls while selections continue: the trainer stalls between them, or its"
            " reports are lost.",
            "cpm",
        ),
        Panel(
            "Tasks in flight",
            {"{{run}}": newest("leased_tasks")},
            "Tasks that were handed out and not reported. Grows without end: workers die before they report; their"
            " leases end after lease_seconds.",
            "short",
        ),
        Panel(
            "Since the last selection and report",
            {
                "{{run}}, selection": f"time() - {newest('last_selection_timestamp_seconds')}",
                "{{run}}, report": f"time() - {newest('last_report_timestamp_seconds')}",
            },
            "Grows for a run that should be at work: its trainer stalls. After half an hour with tasks in flight"
            " BotsRunStalled fires.",
            "s",
            steps=((None, "green"), (1800, "orange")),
        ),
        Panel(
            "Steps of the current history",
            {"{{run}}": newest("step")},
            "Falls: the run was rewound.",
            "short",
        ),
        Panel(
            "Expired, fenced, duplicate",
            {
                "expired outcomes": grown("expired_outcomes", by=""),
                "fenced reports": grown("fenced_reports", by=""),
                "duplicate reports": grown("duplicate_reports", by=""),
            },
            "Over the window. Expired: wasted; report sooner. Fenced long after a rewind: an old worker still runs."
            " Duplicate: clients time out.",
            "short",
            colors={"expired outcomes": "red"},
        ),
    ],
)

TRAINING = dashboard(
    "bots-training",
    "BOTS: training",
    "What selecting gains, where each run stands, and whether its belief is right. docs/signals.md says more.",
    [
        variable("dataset", "dataset", "label_values(bots_reports_total, dataset)", multi=False),
        variable("run", "run", 'label_values(bots_reports_total{dataset="$dataset"}, run)'),
        window("5m", "15m", "30m", "1h", "6h", chosen="30m"),
    ],
    [GAINS, STANDING, SPEED],
)
