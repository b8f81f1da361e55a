"""`bots compare-beliefs`: which belief fits a run."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from bots_service.cli.connection import AsJson, Dataset, RunName, Url, connected
from bots_service.cli.output import count, number, show, table
from bots_service.cli.progress import progress_line

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bots_client import BeliefComparison, Client, ComparedBelief, ComparisonProgress

WAIT_S = 1.0  # for each answer: the progress moves as often


def compare_beliefs(
    dataset: Dataset,
    run: RunName = "default",
    steps: Annotated[
        int, typer.Option(help="Number of steps to compare, counted from the last.", min=1, max=20_000)
    ] = 5000,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Compare a run's belief with others on the run's own outcomes, and show which one predicts best.

    Takes about 10 seconds per 1,000 steps. Differences are to this run, with 95 % intervals.
    """
    with connected(url) as client:
        found = _awaited(client, dataset, run, steps)
    show(found, lambda: _readable(found), as_json=as_json)


def _awaited(client: "Client", dataset: str, run: str, steps: int) -> "BeliefComparison":
    """Return the comparison once the service has computed it, and show how far it is meanwhile."""
    with progress_line(run) as advance:
        return _polled(
            lambda seq: client.comparison(dataset, run, steps=steps, seq=seq, wait_s=WAIT_S),
            lambda seen: advance(seen.folded / seen.entries if seen.entries else None, "comparing"),
        )


def _polled(
    ask: "Callable[[int | None], ComparisonProgress]", show_progress: "Callable[[ComparisonProgress], object]"
) -> "BeliefComparison":
    seen = ask(None)
    while seen.comparison is None:
        show_progress(seen)
        seen = ask(seen.seq)
    return seen.comparison


def _readable(found: "BeliefComparison") -> "RenderableType":
    """Return the comparison for people: the table, what it covers, and what to do."""
    from rich.console import Group

    if not found.beliefs:
        return found.advice
    columns = "belief  >log loss  >difference  >Brier  >calibration error  >slope"
    notes = [f"steps with outcomes: {count(found.steps)}, rollouts: {count(found.rollouts)}"]
    if found.restarted:
        notes.append(f"begins after step {count(found.begins_after)} with fresh beliefs")
    shown = table(columns, map(_row, found.beliefs), caption="; ".join(notes))
    return Group(shown, "", *found.remarks, found.advice)


def _row(belief: "ComparedBelief") -> tuple[str, ...]:
    difference = belief.log_loss_difference
    shown = "-" if difference is None else f"{difference.mean:+.3f} ({difference.low:+.3f} to {difference.high:+.3f})"
    return (
        belief.name,
        number(belief.log_loss, 4),
        shown,
        number(belief.brier, 4),
        number(belief.calibration_error),
        number(belief.calibration_slope, 2),
    )
