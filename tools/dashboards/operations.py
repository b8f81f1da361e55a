"""The dashboard for those who run the service: whether it answers, how fast, what it leans on, what it holds."""

from tools.dashboards.board import Row, dashboard, variable, window
from tools.dashboards.of_replicas import AT, JOB, latencies, quantile, requests
from tools.dashboards.panels import Panel, Steps
from tools.dashboards.stores import PROCESSES, STORES

YES: Steps = ((None, "red"), (1, "green"))
NONE_IS_GOOD: Steps = ((None, "green"), (1, "orange"))
SLOW: Steps = ((None, "green"), (0.25, "orange"), (0.5, "red"))  # above half a second BotsSelectsSlow fires
FAILING: Steps = ((None, "green"), (0.001, "orange"), (0.01, "red"))  # above 1 % BotsErrorBudgetBurns fires
UP_OR_DOWN = {"1": "up", "0": "down"}
TRAINING = ', route=~"/select|/report"'
FAILED = requests(TRAINING + ', status=~"5.."')

WELL = Row(
    "Is all well?",
    [
        Panel(
            "Replicas that answer",
            {"answer": f"sum(up{{{JOB}}})", "want requests": f"sum(min by (instance) (bots_ready{{{AT}}}))"},
            "Fewer want requests than answer: one starts, drains, or has no store left. Fewer answer than there should"
            " be: BotsDown tells which.",
            "short",
            kind="stat",
            width=6,
            height=5,
            steps=YES,
        ),
        Panel(
            "Stores",
            {"{{store}}": f"min by (store) (bots_store_up{{{AT}}})"},
            "Down for any replica. sql: reports get 503; redis: each replica continues alone. Run bots doctor.",
            "none",
            kind="stat",
            width=6,
            height=5,
            steps=YES,
            names=UP_OR_DOWN,
        ),
        Panel(
            "Selects and reports that fail",
            {"fail": f"({FAILED} or vector(0)) / {requests(TRAINING)}"},
            "Share with status 5xx. 503 while requests wait is overload: add a replica. Else look at the stores, and at"
            " the log, which has each one's request_id.",
            "percentunit",
            kind="stat",
            width=6,
            height=5,
            steps=FAILING,
        ),
        Panel(
            "Alerts that fire",
            {"fire": 'count(ALERTS{alertname=~"Bots.+", alertstate="firing"}) or vector(0)'},
            "Prometheus's page Alerts tells which, and what to look at.",
            "short",
            kind="stat",
            width=6,
            height=5,
            steps=NONE_IS_GOOD,
        ),
    ],
)

REQUESTS = Row(
    "Requests",
    [
        Panel(
            "Latency of select",
            latencies("/select"),
            "Grows with waiting requests: add a replica. Grows with the draw below: profiles, tags and the batch.",
            "s",
            steps=SLOW,
        ),
        Panel(
            "Latency of report",
            latencies("/report"),
            "A report waits for SQL's disk. Grows while the fold below doesn't: look at PostgreSQL.",
            "s",
            steps=SLOW,
        ),
        Panel(
            "Latency by route",
            {"{{method}} {{route}}": quantile(0.95, "http_request", by=", method, route")},
            "19 of 20 requests take no longer. Imports and exports of large pools take long, and may.",
            "s",
        ),
        Panel(
            "Requests by route",
            {"{{method}} {{route}}": requests("", "method, route")},
            "(none): addresses that there are not; a client is set wrongly.",
            "reqps",
        ),
        Panel(
            "Answers that are no success",
            {"{{status}}": requests(', status!~"2.."', "status")},
            "5xx: see the log. 409: reports from before a rewind. 422: a trainer sends what can't be true. 401, 403:"
            " its key. 499: clients leave; are their time-outs too short?",
            "reqps",
        ),
        Panel(
            "Working and waiting",
            {
                "{{instance}} works on": f"sum by (instance) (bots_working_requests{{{AT}}})",
                "{{instance}} lets wait": f"sum by (instance) (bots_waiting_requests{{{AT}}})",
            },
            "Selects and reports in this moment. Waiting stays above 0: add a replica.",
            "short",
        ),
        Panel(
            "The parts of the work",
            {
                "draw": quantile(0.95, "draw"),
                "fold": quantile(0.95, "fold"),
                "catch up": quantile(0.95, "catch_up"),
            },
            "19 of 20 take no longer. Catching up takes far longer than the fold: Redis is slow, or the processes have"
            " too little processor time.",
            "s",
        ),
        Panel(
            "Cache hits",
            {
                "{{cache}}": f"sum by (cache) (rate(bots_cache_hits_total{{{AT}}}[$window]))"
                f" / (sum by (cache) (rate(bots_cache_hits_total{{{AT}}}[$window]))"
                f" + sum by (cache) (rate(bots_cache_misses_total{{{AT}}}[$window])))"
            },
            "Share of what was at hand. Datasets or states low: raise BOTS_CACHE_BYTES, or let the balancer keep a run"
            " at one replica (Bots-Run). Keys low: someone tries keys that don't exist, or exist no longer.",
            "percentunit",
            most=1,
        ),
        Panel(
            "Degraded answers",
            {"{{instance}}": f"sum by (instance) (increase(bots_degraded_answers_total{{{AT}}}[$window]))"},
            "Selects and reports answered without the shared store, over the window. Above 0: look at the stores.",
            "short",
        ),
    ],
)

OPERATIONS = dashboard(
    "bots-operations",
    "BOTS: operations",
    "Whether the service answers, how fast, what it leans on and what it keeps. docs/signals.md says more.",
    [
        variable("instance", "replica", "label_values(bots_build_info, instance)"),
        window("1m", "5m", "15m", "1h", chosen="5m"),
    ],
    [WELL, REQUESTS, STORES, PROCESSES],
)
