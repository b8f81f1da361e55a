"""`python -m examples.finetune`: a comparison, as one command that can be stopped and started again."""

from contextlib import nullcontext
from pathlib import Path
from secrets import token_hex
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from benchmarks.machine import commit
from bots_client import Client
from bots_service.demo.replay import own_service
from examples.finetune.chart import draw_chart
from examples.finetune.course import Record, finished_runs
from examples.finetune.jobs import Job, Work, carry_out, runs_of
from examples.finetune.machine import accelerator_name, describe_machine
from examples.finetune.plan import ARMS, BASE, COMPARISONS, Plan
from examples.finetune.progress import Shown
from examples.finetune.table import tables

RESULTS = "results.jsonl"


def run(
    plan: Annotated[str, typer.Option(help=f"What is compared: {', '.join(COMPARISONS)}.")] = "additions",
    seeds: Annotated[str, typer.Option(help="Like 20-35 or 1,4,7-9; by default those registered for each arm.")] = "",
    arms: Annotated[str, typer.Option(help=f"Of {', '.join(ARMS)}; by default those registered.")] = "",
    processes: Annotated[int, typer.Option(help="Runs at a time, on a core each.", min=1)] = 2,
    small: Annotated[bool, typer.Option("--small", help="Only show that all works, in a minute or so.")] = False,
    output: Annotated[Path | None, typer.Option(help="Folder for all results; else one in build/finetune.")] = None,
    url: Annotated[str | None, typer.Option(help="Address of a service; by default the example starts one.")] = None,
) -> None:
    """Finetune a tiny model by GRPO, once for each seed and each way of choosing tasks.

    Each finished run is a line of results.jsonl in the output folder. Started again with the same plan, the command
    continues with the runs that are not there yet. At the end it writes tables.md and chart.svg to the same folder.
    """
    if plan not in COMPARISONS:
        raise typer.BadParameter(f"{plan}: known are {', '.join(COMPARISONS)}", param_hint="--plan")
    comparison = COMPARISONS[plan]
    sizes = comparison.small if small else comparison.plan
    chosen = seeds_named(seeds) or ([next(iter(comparison.seeds[BASE]))] if small else None)
    folder = output or Path("build/finetune") / (f"{plan}-small" if small else plan)
    runs = runs_of(comparison, chosen, arms_named(arms, list(comparison.seeds)))
    try:
        before = finished_runs(folder / RESULTS, sizes)
    except ValueError as error:
        raise typer.BadParameter(f"{error}: name another folder", param_hint="--output") from error
    done = {Job(record.course.seed, record.course.arm) for record in before}
    carry_on([job for job in runs if job not in done], sizes, folder, url=url, processes=processes)
    finish(folder, sizes)


def carry_on(runs: list[Job], plan: Plan, folder: Path, *, url: str | None, processes: int) -> None:
    """Carry out runs; append each to the results when it ends."""
    if not runs:
        return
    terminal = Console(stderr=True)
    if url and not is_ready(url):
        terminal.print(f"no BOTS service is ready at {url}; start it, or leave --url out", highlight=False)
        raise typer.Exit(1)  # now, not after minutes of warm-up
    if plan.device == "cuda" and accelerator_name() is None:
        terminal.print("this plan needs a GPU, and torch finds none; --small needs none", highlight=False)
        raise typer.Exit(1)
    # A database of its own: the service of a command that was killed may still be there, and holds the one before.
    database = folder / "service" / token_hex(3)
    database.mkdir(parents=True)
    head, differs = commit()
    machine, shown = describe_machine(plan.device), Shown(terminal, len(runs), plan.steps)
    with nullcontext(url) if url else own_service(database) as address, shown.bars:
        terminal.print(f"Follow it at {address}", highlight=False, soft_wrap=True)
        work = Work(plan, address, folder)
        for course in carry_out(runs, work, processes=processes, on_progress=shown.step):
            with (folder / RESULTS).open("a", encoding="utf-8") as file:
                file.write(Record(head + "+" * differs, machine, plan, course).as_line())
            shown.ended(course)


def is_ready(url: str) -> bool:
    """Ask the service whether it can be used."""
    with Client(url) as client:
        return client.is_ready()


def finish(folder: Path, plan: Plan) -> None:
    """Write tables and chart of all runs in a folder, and print the tables."""
    records = finished_runs(folder / RESULTS, plan)
    if all(record.course.arm != BASE for record in records):
        Console(stderr=True).print(f"no tables: they compare with {BASE}, of which there is no run")
        return
    text = tables([record.course for record in records], plan)
    (folder / "tables.md").write_text(text, encoding="utf-8")
    draw_chart(records, folder / "chart.svg")
    Console().print(Markdown(text))


def arms_named(names: str, registered: list[str]) -> list[str]:
    """Return the arms that are asked for, each once; without any, those registered."""
    chosen = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip())) or registered
    if unknown := [name for name in chosen if name not in registered]:
        raise typer.BadParameter(f"{', '.join(unknown)}: this plan has {', '.join(registered)}", param_hint="--arms")
    return chosen


def seeds_named(text: str) -> list[int]:
    """Return the numbers of a list like "1,4,7-9"."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, dash, last = part.partition("-")
        if not first.strip().isdigit() or (dash and not last.strip().isdigit()):
            raise typer.BadParameter(f"{part}: a seed is a number, several are like 20-35", param_hint="--seeds")
        found += range(int(first), int(last or first) + 1)
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    typer.run(run)
