"""`python -m examples.grpo_fast`: the comparison, as one command."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.markdown import Markdown

from benchmarks.machine import commit
from bots_client import Client
from bots_service.demo.own_service import own_service
from examples.grpo_cpu.results import describe_machine
from examples.grpo_fast.compare import compare
from examples.grpo_fast.course import Record
from examples.grpo_fast.measures import mean_accuracy
from examples.grpo_fast.plan import ARMS, BASE, REGISTERED, SMALL, Plan
from examples.grpo_fast.table import tables


def run(
    seeds: Annotated[int, typer.Option(help="How many, each with a run of every arm.", min=1)] = 4,
    first_seed: Annotated[int, typer.Option(help="The others follow it.", min=0, max=500)] = 0,
    arms: Annotated[str, typer.Option(help=f"Separated by commas, of {', '.join(ARMS)}.")] = ",".join(REGISTERED),
    steps: Annotated[int | None, typer.Option(help="GRPO steps of each run; else 400, or 20.", min=1)] = None,
    small: Annotated[bool, typer.Option("--small", help="Only show that all works, in a minute or so.")] = False,
    output: Annotated[Path, typer.Option(help="Folder for warm-ups, database, results.")] = Path("build/grpo_fast"),
    url: Annotated[str | None, typer.Option(help="Address of a service; by default the example starts one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print each run as a line of JSON, and no table.")] = False,
) -> None:
    """Finetune a tiny model by GRPO, once for each way of choosing tasks; append each run to results.jsonl."""
    terminal = Console(stderr=True)
    chosen = arms_named(arms)
    plan = SMALL if small else Plan()
    plan = plan if steps is None else replace(plan, steps=steps)
    torch.set_num_threads(1)  # matrices this small gain nothing from more
    output.mkdir(parents=True, exist_ok=True)
    head, differs = commit()
    machine, courses = describe_machine(), []
    with nullcontext(url) if url else own_service(output) as address, Client(address) as client:
        terminal.print(f"Follow it at {address}", highlight=False, soft_wrap=True)
        wanted = range(first_seed, first_seed + seeds)
        # A name of its own: what an earlier comparison left in the database stays as it is.
        for course in compare(plan, wanted, chosen, client=client, folder=output, suffix=f"-{token_hex(3)}"):
            courses.append(course)
            record = Record(head + "+" * differs, machine, plan, course).as_line()
            with (output / "results.jsonl").open("a", encoding="utf-8") as file:
                file.write(record)
            if as_json:
                typer.echo(record, nl=False)
            reached = f"{course.accuracies[0]:.3f} to {course.accuracies[-1]:.3f}, mean {mean_accuracy(course):.4f}"
            terminal.print(f"seed {course.seed}, {course.arm}: {reached}, {course.seconds:.0f} s", highlight=False)
    if not as_json and BASE in chosen:
        Console().print(Markdown(tables(courses)))


def arms_named(names: str) -> list[str]:
    """Return the arms that are asked for, each once."""
    chosen = list(dict.fromkeys(name.strip() for name in names.split(",")))
    if unknown := [name for name in chosen if name not in ARMS]:
        raise typer.BadParameter(f"{', '.join(unknown)}: known are {', '.join(ARMS)}", param_hint="--arms")
    return chosen


if __name__ == "__main__":
    typer.run(run)
