"""What is asked of Prometheus about the runs that are chosen above a dashboard."""

OF = 'dataset="$dataset", run=~"$run"'
BINS = 10  # of the calibration


def grown(name: str, over: str = "$window", by: str = "run") -> str:
    """Return by how much a counter grew, over all replicas."""
    return f"sum by ({by}) (increase(bots_{name}_total{{{OF}}}[{over}]))"


def share(part: str, whole: str, over: str = "$window", by: str = "run") -> str:
    """Return the growth of one counter over that of another; where neither grew, there is none."""
    return f"{grown(part, over, by)} / {grown(whole, over, by)}"


def a_minute(name: str) -> str:
    """Return a counter's growth a minute, as it is right now."""
    return f"60 * sum by (run) (rate(bots_{name}_total{{{OF}}}[$__rate_interval]))"


def newest(name: str, by: str = "") -> str:
    """Return a gauge that all replicas tell alike. by: another label than run that tells its series apart."""
    return f"max by ({', '.join(filter(None, ('run', by)))}) (bots_{name}{{{OF}}})"


def predicted() -> str:
    """Return what a rollout of each bin is predicted to be worth: its middle, as series with the label bin."""
    ends = [place / BINS for place in range(BINS)]
    return " or ".join(f'label_replace(vector({end + 0.5 / BINS:g}), "bin", "{end}", "", "")' for end in ends)
