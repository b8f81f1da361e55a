"""`bots demo`: replay a recorded training run with BOTS and with uniform sampling."""

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated

import typer

from bots_service.cli.connection import AsJson, connected
from bots_service.cli.output import console, show

if TYPE_CHECKING:
    from bots_client import Client
    from bots_service.demo.recording import Recording
    from bots_service.demo.replay import Plan, ReplayedRun

REDRAW_EVERY_S = 0.1  # smooth to the eye
LOG_EVERY_STEPS = 100  # without a terminal


def demo(
    steps: Annotated[int, typer.Option(help="Number of steps to replay.", min=1, max=500)] = 500,
    count: Annotated[int, typer.Option(help="Tasks per step.", min=1, max=600)] = 32,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 0,
    both_references: Annotated[
        bool, typer.Option("--both-references", help="Use only the problems with both references.")
    ] = False,
    url: Annotated[str | None, typer.Option(help="Address of a service; by default the demo starts its own.")] = None,
    as_json: AsJson = False,
) -> None:
    """Replay a real GRPO run and compare uniform sampling, BOTS, and the tracker with two strategies.

    It runs twice: with all 890 problems, then with the 678 that have pass rates of both reference models.
    """
    from bots_service.demo.display import closing_table
    from bots_service.demo.recording import recorded_run
    from bots_service.demo.replay import Plan, summary

    whole = recorded_run()
    recordings = [whole.with_both_references()] if both_references else [whole, whole.with_both_references()]
    plan = Plan(steps, count, seed, suffix=f"-{token_hex(3)}" if url else "")
    with service_address(url) as address, connected(address) as client:
        replays = [replay_with_display(client, recording, plan) for recording in recordings]
    show({"replays": [summary(replay) for replay in replays]}, lambda: closing_table(replays), as_json=as_json)


@contextmanager
def service_address(url: str | None) -> Iterator[str]:
    """Yield the given address; without one, start a service, yield its address and stop it at the end."""
    from bots_service.demo.own_service import own_service

    if url is not None:
        yield url
        return
    terminal = console(stderr=True)
    with ExitStack() as stack:
        with terminal.status("starting a service") if terminal.is_terminal else nullcontext():
            address = stack.enter_context(own_service())
        yield address


def replay_with_display(client: "Client", recording: "Recording", plan: "Plan") -> "ReplayedRun":
    """Replay a recording and show its progress: live on a terminal, otherwise one line every 100 steps."""
    from rich.live import Live

    from bots_service.demo.display import live_panel, progress_line
    from bots_service.demo.replay import name_of, replayed

    terminal, drawn_at = console(stderr=True), -math.inf
    terminal.print(f"Follow it at {client.url}/#/datasets/{name_of(recording)}", highlight=False, soft_wrap=True)
    with Live(console=terminal, auto_refresh=False, transient=True) if terminal.is_terminal else nullcontext() as live:
        for replay in replayed(client, recording, plan):
            is_last = replay.steps_done == plan.steps
            if live is None:
                if is_last or replay.steps_done % LOG_EVERY_STEPS == 0:
                    terminal.print(progress_line(replay))
            elif is_last or time.monotonic() - drawn_at > REDRAW_EVERY_S:
                live.update(live_panel(replay), refresh=True)
                drawn_at = time.monotonic()
    return replay
