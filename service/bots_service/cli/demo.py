"""`bots demo`: replay a recorded training run, and compare ways to select tasks."""

import sys
import time
from contextlib import nullcontext, suppress
from secrets import token_hex
from typing import Annotated, Any

import typer

from bots_service.cli.connection import AsJson, connected
from bots_service.cli.output import console, progress_line, show, table, written

HEAD = "{steps} steps of a real GRPO run, {count} tasks a step, {rollouts_per_task} rollouts each"
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
    from rich.console import Group

    from bots_service.demo.replay import Replay, own_service, recorded_run

    with nullcontext(url) if url else own_service() as address, connected(address) as client:
        suffix = f"-{token_hex(3)}" if url else ""
        replay = Replay(client, recorded_run(), steps=steps, count=tasks, seed=seed, suffix=suffix)
        console(stderr=True).print(f"Follow it at {client.url}/#/datasets/{replay.dataset}", soft_wrap=True)
        with progress_line() as advance:
            for step in range(1, steps + 1):
                replay.take(step - 1)
                advance(step / steps, f"step {step} of {steps}")
        results = replay.results()
        stays = sys.stdout.isatty() and not url and not as_json
        page = f" The page is still open at {address} (press Ctrl-C to stop)." if stays else ""
        compared = table(COLUMNS, results["runs"])
        readable = Group(HEAD.format(**results), "", compared, "", EXPLANATION, "", f"{headline(results)}{page}")
        show(results, readable, as_json=as_json)
        with suppress(KeyboardInterrupt, SystemExit):
            while stays:
                time.sleep(3600)


def headline(results: dict[str, Any]) -> str:
    """Return the gain of what new runs get, the last of the runs."""
    *_, default = results["runs"]
    if default["vs_uniform"] is None:
        return "Uniform sampling found no effective task."
    return (
        f"{default['run']}, which new runs get, found {default['vs_uniform'] - 1:+.0%} effective tasks for the same"
        f" {written(default['rollouts'])} rollouts, compared with uniform sampling."
    )
