"""`bots demo`: replay a recorded training run, and compare ways to select tasks."""

import sys
import time
from contextlib import nullcontext, suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bots_service.cli.connection import AsJson, connected
from bots_service.cli.output import console, count, number, progress_line, show, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bots_client import Client
    from bots_service.demo.replay import Plan

COLUMNS = (
    "run=label  effective\ntask ratio=ratio  last 50\nsteps=recent  vs\nuniform=vs_uniform  rollouts\nsaved=saved"
    "  tasks\nmet=distinct_tasks  log\nloss=log_loss"
)
EXPLANATION = (
    "Tasks met: different problems that the run selected. Log loss: of the success rates predicted for all problems, "
    "before every 10th step. Each run is named by its belief and its strategy; uniform sampling looks at no belief."
)


def demo(
    *,
    steps: Annotated[int, typer.Option(help="Number of steps to replay.", min=1, max=500)] = 500,
    tasks: Annotated[int, typer.Option("--count", help="Tasks per step.", min=1, max=600)] = 32,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 0,
    url: Annotated[
        str | None, typer.Option(help="Address of a service; by default the demo starts its own.", metavar="URL")
    ] = None,
    exit_: Annotated[bool, typer.Option("--exit", help="End after the replay; don't keep the page open.")] = False,
    as_json: AsJson = False,
) -> None:
    """Replay a real GRPO run and compare ways to select tasks: uniform sampling, two beliefs, two strategies.

    Then the page stays open until you press Ctrl-C, if stdout is a terminal and the demo started its own service.
    """
    from bots_service.demo.replay import Plan, own_service

    plan = Plan(steps, tasks, seed, suffix=f"-{token_hex(3)}" if url else "")
    with nullcontext(url) if url else own_service() as address, connected(address) as client:
        results = replay_with_progress(client, plan)
        show(results, closing_table(results), as_json=as_json)
        if as_json:
            return
        stays = sys.stdout.isatty() and not exit_ and url is None
        page = f" The page is still open at {address} (press Ctrl-C to stop)." if stays else ""
        console().print("", f"{headline(results)}{page}", sep="\n")
        with suppress(KeyboardInterrupt, SystemExit):
            while stays:
                time.sleep(3600)


def replay_with_progress(client: "Client", plan: "Plan") -> dict[str, Any]:
    """Return the results of a replay; show on stderr where to follow it, and how far it is."""
    from bots_service.demo.replay import Replay, recorded_run

    replay = Replay(client, recorded_run(), plan)
    console(stderr=True).print(f"Follow it at {client.url}/#/datasets/{replay.dataset}", soft_wrap=True)
    with progress_line() as advance:
        for step in range(1, plan.steps + 1):
            replay.take(step - 1)
            advance(step / plan.steps, f"step {step} of {plan.steps}")
    return replay.results()


def closing_table(results: dict[str, Any]) -> "RenderableType":
    """Return the results as a table with a row for each run."""
    from rich.console import Group
    from rich.text import Text

    from bots_service.demo.replay import RECENT, RUNS

    head = "{steps} steps of a real GRPO run, {count} tasks a step, {rollouts_per_task} rollouts each"
    rows = [
        run
        | {
            "label": label,
            "ratio": number(run["effective"] / run["reported"]),
            "recent": number(run[f"effective_task_ratio_last_{RECENT}"]),
            "vs_uniform": "baseline" if label == "uniform" else run["vs_uniform"] and f"{run['vs_uniform']:.2f}x",
            "saved": None if run["rollouts_saved"] is None else round(run["rollouts_saved"]),
            "log_loss": number(run["log_loss"]),
        }
        for label, run in zip(RUNS, results["runs"], strict=True)
    ]
    return Group(Text(head.format(**results), style="bold"), "", table(COLUMNS, rows), "", EXPLANATION)


def headline(results: dict[str, Any]) -> str:
    """Return the gain of the default, and why a larger one is no better training."""
    from bots_service.demo.replay import DEFAULT, RUNS

    runs = dict(zip(RUNS, results["runs"], strict=True))
    changes = {label: run["vs_uniform"] - 1 for label, run in runs.items() if run["vs_uniform"] is not None}
    if DEFAULT not in changes:
        return "Uniform sampling found no effective task."
    said = (
        f"{DEFAULT}, which new runs get, found {changes[DEFAULT]:+.0%} effective tasks for the same"
        f" {count(runs[DEFAULT]['rollouts'])} rollouts, compared with uniform sampling."
    )
    larger = [f"{label} ({change:+.0%})" for label, change in changes.items() if change > changes[DEFAULT]]
    if not larger:
        return said
    return (
        f"{said} {' and '.join(larger)} found more, but that is no better training: thompson returns to the same few"
        " tasks near 50% success, and a model that trains on few tasks may unlearn the others (docs/tracker.md)."
    )
