"""`bots demo`: replay a recorded training run, and compare ways to select tasks."""

import sys
import time
from contextlib import nullcontext, suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bots_service.cli.connection import AsJson, connected
from bots_service.cli.output import console, count, progress_line, show, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bots_client import Client
    from bots_service.demo.replay import Plan

COLUMNS = (
    "run  effective\ntask ratio=effective_task_ratio  last 50\nsteps=effective_task_ratio_last_50"
    "  vs\nuniform=vs_uniform  tasks\nmet=distinct_tasks  log\nloss=log_loss"
)
EXPLANATION = (
    "Tasks met: different problems that the run selected. Log loss: of the success rates predicted for all problems, "
    "before every 10th step. Each run is named by its belief and its strategy; uniform sampling looks at no belief. "
    "Where thompson finds more, that is no better training: it returns to the same few tasks near 50% success, and a "
    "model that trains on few tasks may unlearn the others (docs/tracker.md)."
)


def demo(
    *,
    steps: Annotated[int, typer.Option(help="Number of steps to replay.", min=1, max=500)] = 500,
    tasks: Annotated[int, typer.Option("--count", help="Tasks per step.", min=1, max=600)] = 32,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 0,
    url: Annotated[
        str | None, typer.Option(help="Address of a service; by default the demo starts its own.", metavar="URL")
    ] = None,
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
        stays = sys.stdout.isatty() and url is None
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

    head = "{steps} steps of a real GRPO run, {count} tasks a step, {rollouts_per_task} rollouts each"
    return Group(Text(head.format(**results), style="bold"), "", table(COLUMNS, results["runs"]), "", EXPLANATION)


def headline(results: dict[str, Any]) -> str:
    """Return the gain of what new runs get, the last of the runs."""
    *_, default = results["runs"]
    if default["vs_uniform"] is None:
        return "Uniform sampling found no effective task."
    return (
        f"{default['run']}, which new runs get, found {default['vs_uniform'] - 1:+.0%} effective tasks for the same"
        f" {count(default['rollouts'])} rollouts, compared with uniform sampling."
    )
