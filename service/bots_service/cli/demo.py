"""`bots demo`: replay a recorded training run, and compare ways to select tasks."""

import math
import sys
import time
from contextlib import nullcontext, suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated

import typer

from bots_service.cli.connection import AsJson, connected
from bots_service.cli.output import console, count, number, progress_line, show, table, times

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bots_client import Client, RunSummary
    from bots_service.demo.recording import Recording
    from bots_service.demo.replay import Plan, ReplayedRun

LOOK_EVERY_S = 1.0  # at the summaries: the service must compute each again
COLUMNS = "run  >effective\ntask ratio  >last 50\nsteps  >vs\nuniform  >rollouts\nsaved  >tasks\nmet  >log\nloss"
EXPLANATION = (
    "Tasks met: different problems that the run selected. Log loss: of the success rates predicted for all problems, "
    "before every 10th step. Each run is named by its belief and its strategy; uniform sampling looks at no belief."
)


def demo(
    *,
    steps: Annotated[int, typer.Option(help="Number of steps to replay.", min=1, max=500)] = 500,
    tasks: Annotated[int, typer.Option("--count", help="Tasks per step.", min=1, max=600)] = 32,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 0,
    both_references: Annotated[
        bool, typer.Option("--both-references", help="Use only the problems with both references.")
    ] = False,
    url: Annotated[
        str | None, typer.Option(help="Address of a service; by default the demo starts its own.", metavar="URL")
    ] = None,
    exit_: Annotated[bool, typer.Option("--exit", help="End after the replay; don't keep the page open.")] = False,
    as_json: AsJson = False,
) -> None:
    """Replay a real GRPO run and compare ways to select tasks: uniform sampling, two beliefs, two strategies.

    It runs twice: with all 890 problems, then with the 678 that have pass rates of both reference models.

    Then the page stays open until you press Ctrl-C, if stdout is a terminal and the demo started its own service.
    """
    from bots_service.demo.own_service import own_service
    from bots_service.demo.recording import recorded_run
    from bots_service.demo.replay import Plan, results

    whole, is_watched = recorded_run(), sys.stdout.isatty() and not as_json
    recordings = [whole.with_both_references()] if both_references else [whole, whole.with_both_references()]
    plan = Plan(steps, tasks, seed, suffix=f"-{token_hex(3)}" if url else "")
    with nullcontext(url) if url else own_service() as address, connected(address) as client:
        replays = [replay_with_progress(client, recording, plan) for recording in recordings]
        show({"replays": [results(replay) for replay in replays]}, closing_table(replays), as_json=as_json)
        if as_json:
            return
        stays = is_watched and not exit_ and url is None
        page = f" The page is still open at {address} (press Ctrl-C to stop)." if stays else ""
        console().print("", f"{headline(replays[0])}{page}", sep="\n")
        with suppress(KeyboardInterrupt, SystemExit):
            while stays:
                time.sleep(3600)


def replay_with_progress(client: "Client", recording: "Recording", plan: "Plan") -> "ReplayedRun":
    """Replay a recording and show on stderr how far it is; without a terminal, only how it ended."""
    from bots_service.demo.replay import name_of, replayed

    terminal, looked_at, said = console(stderr=True), -math.inf, ""
    terminal.print(f"Follow it at {client.url}/#/datasets/{name_of(recording)}", soft_wrap=True)
    with progress_line() as advance:
        for replay in replayed(client, recording, plan):
            if replay.steps_done == plan.steps or time.monotonic() - looked_at > LOOK_EVERY_S:
                replay.look(client)
                looked_at = time.monotonic()
                ratios = (f"{label} {number(overall(summary))}" for label, summary in replay.summaries.items())
                said = f"step {replay.steps_done} of {plan.steps}: {', '.join(ratios)}"
            advance(replay.steps_done / plan.steps, said)
    if not terminal.is_terminal:
        terminal.print(f"{title_of(replay)}, {said}")
    return replay


def closing_table(replays: list["ReplayedRun"]) -> "RenderableType":
    """Return the results: a table for each replay, with a row for each run."""
    from rich.console import Group
    from rich.text import Text

    from bots_service.demo.replay import ROLLOUTS

    plan = replays[0].plan
    head = f"{plan.steps} steps of a real GRPO run, {plan.count} tasks a step, {ROLLOUTS} rollouts each"
    parts: list[RenderableType] = [Text(head, style="bold")]
    for replay in replays:
        rows = []
        for label, summary in replay.summaries.items():
            gain, course = summary.gain, replay.courses[label]
            saved = None if gain is None or gain.rollouts_saved is None else round(gain.rollouts_saved)
            factor = "baseline" if gain is None else times(gain.factor)
            ratios = number(overall(summary)), number(summary.effective_task_ratio)
            rows.append((label, *ratios, factor, count(saved), count(len(course.met)), number(course.log_loss)))
        parts += ["", Text(title_of(replay), style="bold"), table(COLUMNS, rows)]
    return Group(*parts, "", EXPLANATION)


def headline(replay: "ReplayedRun") -> str:
    """Return the gain of the default, and why a larger one is no better training."""
    from bots_service.demo.replay import DEFAULT

    gains = {label: summary.gain for label, summary in replay.summaries.items()}
    changes = {label: gain.factor - 1 for label, gain in gains.items() if gain is not None and gain.factor is not None}
    default = gains.get(DEFAULT)
    if default is None or DEFAULT not in changes:
        return "Uniform sampling found no effective task."
    said = (
        f"{DEFAULT}, which new runs get, found {changes[DEFAULT]:+.0%} effective tasks for the same"
        f" {count(default.rollouts_spent)} rollouts, compared with uniform sampling."
    )
    larger = [f"{label} ({change:+.0%})" for label, change in changes.items() if change > changes[DEFAULT]]
    if not larger:
        return said
    return (
        f"{said} {' and '.join(larger)} found more, but that is no better training: thompson returns to the same few"
        " tasks near 50% success, and a model that trains on few tasks may unlearn the others (docs/tracker.md)."
    )


def title_of(replay: "ReplayedRun") -> str:
    """Return which problems are replayed."""
    if replay.referenced == replay.problems:
        return f"{replay.problems} with both references"
    return f"all {replay.problems} problems"


def overall(summary: "RunSummary") -> float | None:
    """Return a run's effective task ratio over all its steps; None if nothing was reported."""
    return summary.effective / summary.reported if summary.reported else None
