"""The dashboard for those who run the service: whether it answers, how fast, and what it depends on."""

from tools.dashboards.board import Row, dashboard, variable, window
from tools.dashboards.panels import Panel, Steps

AT = 'instance=~"$instance"'
JOB = f'job="bots", {AT}'
YES: Steps = ((None, "red"), (1, "green"))
SLOW: Steps = ((None, "green"), (0.25, "orange"), (0.5, "red"))
FAILING: Steps = ((None, "green"), (0.001, "orange"), (0.01, "red"))  # above 1 % BotsErrorBudgetBurns fires
UP_OR_DOWN = {"1": "up", "0": "down"}
TRAINING = ', route=~"/select|/report"'


def quantile(which: float, name: str, more: str = "") -> str:
    """Return a quantile of a histogram in seconds, over all replicas."""
    buckets = f"rate(bots_{name}_duration_seconds_bucket{{{AT}{more}}}[$__rate_interval])"
    return f"histogram_quantile({which:g}, sum by (le) ({buckets}))"


def latencies(route: str) -> dict[str, str]:
    """Return three quantiles of a route's latency, by what they are called."""
    named = {"half of them": 0.5, "19 of 20": 0.95, "99 of 100": 0.99}
    return {name: quantile(which, "http_request", f', route="{route}"') for name, which in named.items()}


def requests(more: str, by: str = "") -> str:
    """Return the rate of requests."""
    return f"sum by ({by}) (rate(bots_http_requests_total{{{AT}{more}}}[$__rate_interval]))"


FAILED = requests(TRAINING + ', status=~"5.."')

WELL = Row(
    "Health",
    [
        Panel(
            "Replicas up",
            {"answer": f"sum(up{{{JOB}}})", "want requests": f"sum(min by (instance) (bots_ready{{{AT}}}))"},
            "Fewer want requests than answer: one starts, drains, or has no store left. Fewer answer than there should"
            " be: BotsDown tells which.",
            "short",
            kind="stat",
            height=5,
            steps=YES,
        ),
        Panel(
            "Stores",
            {"{{store}}": f"min by (store) (bots_store_up{{{AT}}})"},
            "Down for any replica. sql: reports get 503; redis: each replica continues alone. Run bots doctor.",
            "none",
            kind="stat",
            height=5,
            steps=YES,
            names=UP_OR_DOWN,
        ),
        Panel(
            "Failed selects and reports",
            {"fail": f"({FAILED} or vector(0)) / {requests(TRAINING)}"},
            "Share with status 5xx. 503 while requests wait is overload: add a replica. Else look at the stores, and at"
            " the log, which has each one's request_id.",
            "percentunit",
            kind="stat",
            height=5,
            steps=FAILING,
        ),
    ],
)

REQUESTS = Row(
    "Requests",
    [
        Panel(
            "Latency of select",
            latencies("/select"),
            "Grows with waiting requests: add a replica. Grows with the draw: profiles, tags and the batch.",
            "s",
            steps=SLOW,
        ),
        Panel(
            "Latency of report",
            latencies("/report"),
            "A report waits for SQL's disk. Grows while the fold doesn't: look at PostgreSQL.",
            "s",
            steps=SLOW,
        ),
        Panel(
            "Draw and fold",
            {"draw": quantile(0.95, "draw"), "fold": quantile(0.95, "fold")},
            "19 of 20 take no longer. The draw grows with the pool and the batch, the fold with recently tried tasks.",
            "s",
        ),
        Panel(
            "Requests by route",
            {"{{method}} {{route}}": requests("", "method, route")},
            "(none): addresses that there are not; a client is set wrongly.",
            "reqps",
        ),
        Panel(
            "Error responses",
            {"{{status}}": requests(', status!~"2.."', "status")},
            "5xx: see the log. 409: reports from before a rewind. 422: a trainer sends what can't be true. 401, 403:"
            " its key. 499: clients leave; are their time-outs too short?",
            "reqps",
        ),
        Panel(
            "Waiting",
            {"{{instance}}": f"sum by (instance) (bots_waiting_requests{{{AT}}})"},
            "Selects and reports that wait for their turn. Stays above 0: add a replica.",
            "short",
        ),
        Panel(
            "Degraded answers",
            {"{{instance}}": f"sum by (instance) (increase(bots_degraded_answers_total{{{AT}}}[$window]))"},
            "Selects and reports answered without the shared store, over the window. Above 0: look at the stores.",
            "short",
        ),
    ],
)

PROCESSES = Row(
    "The processes",
    [
        Panel(
            "Processor",
            {"{{instance}}": f"sum by (instance) (rate(process_cpu_seconds_total{{{JOB}}}[$__rate_interval]))"},
            "Cores that are kept busy. A process uses one at most, nearly: near 1, add replicas.",
            "none",
        ),
        Panel(
            "Memory",
            {"{{instance}}": f"sum by (instance) (process_resident_memory_bytes{{{JOB}}})"},
            "Twice BOTS_CACHE_BYTES plus about 1 GiB is usual. More: fewer bytes for the cache, or more memory.",
            "bytes",
        ),
        Panel(
            "Open files",
            {"{{instance}}": f"max by (instance) (process_open_fds{{{JOB}}} / process_max_fds{{{JOB}}})"},
            "Share of what the process may open: connections, mostly. Near 1 it refuses new ones: raise LimitNOFILE.",
            "percentunit",
            most=1,
            steps=((None, "green"), (0.8, "orange")),
        ),
    ],
)

OPERATIONS = dashboard(
    "bots-operations",
    "BOTS: operations",
    "Whether the service answers, how fast, and what it depends on. docs/signals.md says more.",
    [
        variable("instance", "replica", "label_values(bots_build_info, instance)"),
        window("1m", "5m", "15m", "1h", chosen="5m"),
    ],
    [WELL, REQUESTS, PROCESSES],
)
