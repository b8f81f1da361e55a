"""`bots demo`: replay a recorded training run with BOTS and with uniform sampling."""

import math
import os
import sys
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
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
LOOK_EVERY_S = 1.0  # at the summaries: the service must compute each again
LOG_EVERY_STEPS = 100  # without a terminal


def demo(
    *,
    steps: Annotated[int, typer.Option(help="Number of steps to replay.", min=1, max=500)] = 500,
    count: Annotated[int, typer.Option(help="Tasks per step.", min=1, max=600)] = 32,
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 0,
    both_references: Annotated[
        bool, typer.Option("--both-references", help="Use only the problems with both references.")
    ] = False,
    url: Annotated[
        str | None, typer.Option(help="Address of a service; by default the demo starts its own.", metavar="URL")
    ] = None,
    exit_: Annotated[bool, typer.Option("--exit", help="End after the replay; don't keep the page open.")] = False,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Don't open the page in a browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """Replay a real GRPO run and compare ways to select tasks: uniform sampling, two beliefs, two strategies.

    It runs twice: with all 890 problems, then with the 678 that have pass rates of both reference models.

    Then the page stays open until you press Ctrl-C, if stdout is a terminal and the demo started its own service.
    """
    from bots_service.cli.replay_display import closing_table, headline
    from bots_service.demo.recording import recorded_run
    from bots_service.demo.replay import Plan, results

    whole, is_watched = recorded_run(), sys.stdout.isatty() and not as_json
    recordings = [whole.with_both_references()] if both_references else [whole, whole.with_both_references()]
    plan = Plan(steps, count, seed, suffix=f"-{token_hex(3)}" if url else "")
    browse = webbrowser.open if is_watched and not no_browser and has_browser() else None
    with service_address(url) as address, connected(address) as client:
        replays = [replay_with_display(client, recordings[0], plan, browse)]
        replays += [replay_with_display(client, recording, plan) for recording in recordings[1:]]
        show({"replays": [results(replay) for replay in replays]}, lambda: closing_table(replays), as_json=as_json)
        if as_json:
            return
        stays = is_watched and not exit_ and url is None
        page = f" The page is still open at {address} (press Ctrl-C to stop)." if stays else ""
        console().print("", f"{headline(replays[0])}{page}", sep="\n")
        if stays:
            wait_until_ended()


def wait_until_ended() -> None:
    """Return once the person presses Ctrl-C, or somebody else ends this process."""
    with suppress(KeyboardInterrupt, SystemExit):
        while True:
            time.sleep(3600)


def has_browser() -> bool:
    """Say whether a page can be opened where the person sits: not over ssh, not without a display."""
    if any(os.environ.get(name) for name in ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")):
        return False
    if sys.platform not in ("darwin", "win32") and not any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY"))):
        return False
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    return type(browser) is not webbrowser.GenericBrowser  # it would take over this terminal


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


def replay_with_display(
    client: "Client", recording: "Recording", plan: "Plan", browse: Callable[[str], object] | None = None
) -> "ReplayedRun":
    """Replay a recording and show its progress: live on a terminal, otherwise one line every 100 steps.

    Args:
        browse: opens the page at its address once there is something to see; None: nothing does.
    """
    from rich.live import Live

    from bots_service.cli.replay_display import LivePanel, progress_line
    from bots_service.demo.replay import name_of, replayed

    terminal, drawn_at, looked_at = console(stderr=True), -math.inf, -math.inf
    page = f"{client.url}/#/datasets/{name_of(recording)}"
    terminal.print(f"Follow it at {page}", highlight=False, soft_wrap=True)
    with Live(console=terminal, auto_refresh=False, transient=True) if terminal.is_terminal else nullcontext() as live:
        for replay in replayed(client, recording, plan):
            if browse is not None and replay.steps_done == 1:
                browse(page)
            is_last, now = replay.steps_done == plan.steps, time.monotonic()
            logs = live is None and replay.steps_done % LOG_EVERY_STEPS == 0
            if is_last or logs or (live is not None and now - looked_at > LOOK_EVERY_S):
                replay.look(client)
                looked_at = now
            if live is None and (is_last or logs):
                terminal.print(progress_line(replay))
            elif live is not None and (is_last or now - drawn_at > REDRAW_EVERY_S):
                live.update(LivePanel(replay), refresh=True)
                drawn_at = now
    return replay
