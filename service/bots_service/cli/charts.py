"""`bots curve`, `bots calibration`: how a run goes, and how far its beliefs can be trusted."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from bots_service.cli.connection import AsJson, Dataset, RunName, Url, connected
from bots_service.cli.output import count, number, show, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bots_client import Curve

POINTS_SHOWN = 20
STEPS_TOLD = 200


def curve(
    dataset: Dataset,
    run: RunName = "default",
    points: Annotated[int, typer.Option(help="At most so many.", min=1, max=2000)] = POINTS_SHOWN,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show a run's history in few points, each of them some steps taken together."""
    with connected(url) as client:
        found = client.curve(dataset, run, points=points)
    nothing = f"no step of run {run} is closed yet"
    show(found, lambda: _drawn(found) if found.points else nothing, as_json=as_json)


def calibration(
    dataset: Dataset,
    run: RunName = "default",
    steps: Annotated[int, typer.Option(help="Of so many of the last steps.", min=1, max=1000)] = STEPS_TOLD,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show what was predicted before the last steps beside what came."""
    with connected(url) as client:
        found = client.calibration(dataset, run, steps=steps)
    rows = (
        (
            f"{number(one.low, 1)} to {number(one.high, 1)}",
            count(one.rollouts),
            number(one.mean_prediction),
            number(one.success_rate),
        )
        for one in found.bins
    )
    nothing = f"no closed step of run {run} tells anything yet"
    show(
        found,
        lambda: table("predicted  >rollouts  >mean prediction  >success rate", rows) if found.steps else nothing,
        as_json=as_json,
    )


def _drawn(found: "Curve") -> "RenderableType":
    """Return the points as a table, on a terminal with their effective task ratios as a line above it."""
    rows = (
        (
            f"{count(one.first_step)} to {count(one.last_step)}",
            count(one.reported),
            number(one.effective_task_ratio),
            number(one.success_rate),
            number(one.capability),
            number(one.brier),
        )
        for one in found.points
    )
    shown = table("steps  >tasks  >ETR  >success rate  >capability  >Brier", rows)
    if not sys.stdout.isatty():
        return shown
    from rich.console import Group

    from bots_service.demo.display import mark

    ratios = (one.effective_task_ratio for one in found.points)
    return Group("ETR " + "".join(" " if ratio is None else mark(ratio) for ratio in ratios), shown)
