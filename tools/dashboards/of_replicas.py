"""What is asked of Prometheus about the replicas that are chosen above a dashboard."""

AT = 'instance=~"$instance"'
JOB = f'job="bots", {AT}'


def quantile(which: float, name: str, more: str = "", by: str = "") -> str:
    """Return a quantile of a histogram in seconds, over all replicas."""
    buckets = f"rate(bots_{name}_duration_seconds_bucket{{{AT}{more}}}[$__rate_interval])"
    return f"histogram_quantile({which:g}, sum by (le{by}) ({buckets}))"


def latencies(route: str) -> dict[str, str]:
    """Return three quantiles of a route's latency, by what they are called."""
    named = {"half of them": 0.5, "19 of 20": 0.95, "99 of 100": 0.99}
    return {name: quantile(which, "http_request", f', route="{route}"') for name, which in named.items()}


def requests(more: str, by: str = "") -> str:
    """Return the rate of requests."""
    return f"sum by ({by}) (rate(bots_http_requests_total{{{AT}{more}}}[$__rate_interval]))"


def of_runs(name: str) -> str:
    """Return a gauge of each run that all replicas tell alike."""
    return f"max by (dataset, run) (bots_{name}{{{AT}}})"
