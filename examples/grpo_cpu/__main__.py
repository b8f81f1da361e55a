"""`python -m examples.grpo_cpu`: the comparison, as one command."""

import json
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from bots_client import Client
from bots_service.demo.own_service import own_service
from examples.grpo_cpu.compare import compare
from examples.grpo_cpu.plan import SMALL, Plan
from examples.grpo_cpu.progress import shown_progress
from examples.grpo_cpu.results import Results, describe_machine
from examples.grpo_cpu.table import tables


def run(
    seeds: Annotated[int, typer.Option(help="How many, each with a run of either kind.", min=1)] = 6,
    first_seed: Annotated[int, typer.Option(help="The others follow it.", min=0)] = 0,
    steps: Annotated[int | None, typer.Option(help="GRPO steps of each run; else 800, or 40.", min=1)] = None,
    small: Annotated[bool, typer.Option("--small", help="Only show that all works, in a minute or two.")] = False,
    output: Annotated[Path, typer.Option(help="Folder for models, database and results.json.")] = Path("data/grpo_cpu"),
    url: Annotated[str | None, typer.Option(help="Address of a service; by default the demo starts one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print results.json instead of tables.")] = False,
) -> None:
    """Finetune a small language model by GRPO: on the tasks that BOTS chooses, and on uniformly chosen ones."""
    terminal = Console(stderr=True)
    plan = SMALL if small else Plan()
    plan = plan if steps is None else replace(plan, steps=steps)
    if url and not is_ready(url):
        terminal.print(f"no BOTS service is ready at {url}; start it, or leave --url out", highlight=False)
        raise typer.Exit(1)  # now, not after minutes of warm-up
    output.mkdir(parents=True, exist_ok=True)
    machine = describe_machine()
    with nullcontext(url) if url else own_service(output) as address, shown_progress(terminal) as show:
        terminal.print(f"Follow it at {address}", highlight=False, soft_wrap=True)
        chosen = range(first_seed, first_seed + seeds)
        # A name of its own: what an earlier comparison left in the database stays as it is.
        courses = compare(plan, chosen, url=address, folder=output, suffix=f"-{token_hex(3)}", on_progress=show)
    results = Results(machine, plan, courses)
    content = json.dumps(results.as_json()) + "\n"
    (output / "results.json").write_text(content, "utf-8")
    if as_json:
        typer.echo(content, nl=False)
    else:
        Console().print(Markdown(tables(results)))
    if kept := sum(course.kept for course in courses):
        terminal.print(f"{kept} reports wait in {output}: the service was not there to take them")


def is_ready(url: str) -> bool:
    """Ask the service whether it can be used."""
    with Client(url) as client:
        return client.is_ready()


if __name__ == "__main__":
    typer.run(run)
