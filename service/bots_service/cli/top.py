"""`bots top`: all runs in the terminal, live."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from bots_service.cli.connection import AsJson, Url, connected, dataset_names
from bots_service.cli.output import console, show

if TYPE_CHECKING:
    from bots_client import Overview

SHOWN = 50  # runs, where no terminal limits them
REFUSED = (401, 403)


class StatusFilter(StrEnum):
    """What a run may be doing; the statuses of the API."""

    NEW = "new"
    RUNNING = "running"
    STALLED = "stalled"
    IDLE = "idle"


class Order(StrEnum):
    """What runs are sorted by; "-" in front turns it round."""

    ATTENTION = "attention"
    NAME = "name"
    CREATED = "created"
    LAST_STEP = "last_step"
    STEP = "step"
    ETR = "effective_task_ratio"
    VS_UNIFORM = "vs_uniform"
    ROLLOUTS = "rollouts"


def order(text: str) -> str:
    """Return an order of runs as the API names it.

    Raises:
        typer.BadParameter: there is no such order.
    """
    if text.removeprefix("-") not in set(Order):
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(Order)}, with or without a leading -")
    return text


def top(
    *,
    search: Annotated[
        str | None, typer.Option(help='Only runs whose "dataset/run" contains this text, ignoring case.')
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Only runs of this dataset.", metavar="NAME", autocompletion=dataset_names)
    ] = None,
    status: Annotated[StatusFilter | None, typer.Option(help="Only runs with this status.")] = None,
    attention: Annotated[bool, typer.Option("--attention", help="Only runs that need attention.")] = False,
    sort: Annotated[
        str,
        typer.Option(help=f"Sort by {', '.join(Order)}; a leading - sorts descending.", metavar="ORDER", parser=order),
    ] = "-attention",
    limit: Annotated[
        int | None, typer.Option(help="Maximum number of runs.", min=1, max=1000, show_default="as many as fit")
    ] = None,
    every: Annotated[float, typer.Option(help="Seconds between two refreshes.", min=0.1)] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print the runs once and exit.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Watch all runs, live: status, verdict, effective task ratio (ETR), gain over uniform sampling.

    Runs that need attention come first. The ETR is over the last 50 steps, and the tick on its bar is what uniform
    sampling reaches in them. The gain is over all steps. Without a terminal, it prints the runs once.

    Press q or Ctrl-C to quit.
    """
    from bots_service.cli.top_table import page_text
    from bots_service.demo.own_service import ended_by_signals

    with connected(url) as client:
        ask = partial(
            client.overview, search=search, dataset=dataset, status=status, attention=attention or None, sort=sort
        )
        if once or as_json or not sys.stdout.isatty():
            found = ask(limit=limit or SHOWN)
            show(found, lambda: page_text(found, now=time.time()), as_json=as_json)
            return
        with ended_by_signals(), suppress(KeyboardInterrupt):
            watch(ask, client.url, limit, every)


def watch(ask: "Callable[..., Overview]", address: str, limit: int | None, every_s: float) -> None:
    """Show the runs until q or Ctrl-C is pressed; a service that goes away is waited for.

    Raises:
        BotsClientError: the service did not answer at first, or the key is refused.
    """
    from rich.live import Live

    from bots_client import BotsClientError
    from bots_service.cli.top_table import ROWS_BESIDES, screen

    terminal, found, lost = console(), None, None
    with Live(console=terminal, screen=True, auto_refresh=False) as live, keyboard() as pressed_within:
        while True:
            try:
                found = ask(limit=limit or max(terminal.height - ROWS_BESIDES, 1))
                lost = None
            except BotsClientError as error:
                if found is None or error.status in REFUSED:
                    raise
                lost = lost or datetime.now().astimezone()
            live.update(screen(found, address, lost, now=time.time()), refresh=True)
            if pressed_within(every_s) == "q":
                return


@contextmanager
def keyboard() -> Iterator[Callable[[float], str]]:
    """Yield a function that returns the key pressed within so many seconds, "" if none; keys are not echoed."""
    try:
        import select
        import termios
        import tty
    except ImportError:  # Windows: Ctrl-C alone
        yield asleep
        return
    if not sys.stdin.isatty():
        yield asleep
        return

    def pressed_within(seconds: float) -> str:
        return sys.stdin.read(1) if select.select([sys.stdin], [], [], seconds)[0] else ""

    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield pressed_within
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def asleep(seconds: float) -> str:
    """Wait, where no key can be read."""
    time.sleep(seconds)
    return ""
