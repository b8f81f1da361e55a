"""`python -m examples.finetune`: a comparison, as one command that can be stopped and started again."""

import shutil
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from statistics import fmean
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.markdown import Markdown

from benchmarks.machine import commit, cores, memory_bytes, processor
from bots_client import Client
from bots_service.demo.replay import own_service
from examples.finetune.chart import draw_chart
from examples.finetune.course import Record, finished_runs
from examples.finetune.dry_run import killed
from examples.finetune.lockstep import CHECKPOINT, PATIENCE_S, Trainer, train
from examples.finetune.plan import ARMS, BASE, COMPARISONS, LARGE, Job, Plan
from examples.finetune.table import tables

RESULTS = "results.jsonl"
CHECKPOINT_EVERY_S = 240.0
DRY_SEEDS = 2
# Runs of LARGE that one NVIDIA H200 trained in so many minutes, together, with an older loop of the same form, its
# warm-up of four seeds included: 36 runs, 371 of 400 steps.
MEASURED_RUNS, MEASURED_STEPS, MEASURED_MINUTES = 36, 371, 7.0

TERMINAL = Console(stderr=True, highlight=False, soft_wrap=True)


def run(
    plan: Annotated[str, typer.Option(help=f"What is compared: {', '.join(COMPARISONS)}.")] = "replication",
    seeds: Annotated[str, typer.Option(help="Like 20-35 or 1,4,7-9; by default those registered for each arm.")] = "",
    arms: Annotated[str, typer.Option(help=f"Of {', '.join(ARMS)}; by default those registered.")] = "",
    budget: Annotated[float, typer.Option(help="Minutes after which it stops with a checkpoint.")] = float("inf"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Try every part on tiny models, a kill included.")] = False,
    output: Annotated[Path | None, typer.Option(help="Folder for all results; else one in build/finetune.")] = None,
    url: Annotated[str | None, typer.Option(help="Address of a service; by default the example starts one.")] = None,
) -> None:
    """Finetune many small models by GRPO in lockstep, once for each seed and each way of choosing tasks.

    Started again with the same options, the command continues at its last checkpoint. At the end each run is a line of
    results.jsonl in the output folder, and tables.md and chart.svg are there, too.
    """
    if plan not in COMPARISONS or COMPARISONS[plan].plan.loop != "torch":
        known = ", ".join(name for name, one in COMPARISONS.items() if one.plan.loop == "torch")
        raise typer.BadParameter(f"{plan}: this code runs {known}", param_hint="--plan")
    comparison = COMPARISONS[plan]
    jobs = comparison.jobs(seeds_named(seeds), arms_named(arms, list(comparison.seeds)))
    folder = output or Path("build/finetune") / (f"{plan}-dry" if dry_run else plan)
    sizes = comparison.plan
    if dry_run:
        tell_duration(sizes, len(jobs))
        sizes, jobs = sizes.made_small(), first_seeds(jobs)
        shutil.rmtree(folder, ignore_errors=True)
    try:
        before = finished_runs(folder / RESULTS, sizes)
    except ValueError as error:
        raise typer.BadParameter(f"{error}: name another folder", param_hint="--output") from error
    done = {Job(record.course.seed, record.course.arm) for record in before}
    if missing := [job for job in jobs if job not in done]:
        carry_out(sizes, missing, folder, url=url, minutes=budget, is_dry=dry_run)
    finish(folder, sizes)


def first_seeds(jobs: Sequence[Job]) -> list[Job]:
    """Return the runs of the first two seeds."""
    seeds = sorted({job.seed for job in jobs})[:DRY_SEEDS]
    return [job for job in jobs if job.seed in seeds]


def tell_duration(plan: Plan, runs: int) -> None:
    """Say how long a plan takes on a GPU: an estimate, by the work of its rollouts."""
    if plan.device != "cuda":
        TERMINAL.print("No estimate for a processor: the lines of a run say how long the rest takes.")
        return
    share = runs * plan.work / (MEASURED_RUNS * LARGE.work * MEASURED_STEPS / LARGE.steps)
    TERMINAL.print(
        f"An estimate, not a measurement: {runs} runs of {plan.steps} steps take {share * MEASURED_MINUTES:.0f} "
        f"minutes on one H100 or H200. Basis: {MEASURED_RUNS} runs of {MEASURED_STEPS} steps took "
        f"{MEASURED_MINUTES:.0f} minutes on an H200; rollouts and weights are taken in proportion."
    )


def carry_out(plan: Plan, jobs: Sequence[Job], folder: Path, *, url: str | None, minutes: float, is_dry: bool) -> None:
    """Carry out runs, and write their results; exit where the time ends before them."""
    if url and not is_ready(url):
        TERMINAL.print(f"no BOTS service is ready at {url}; start it, or leave --url out")
        raise typer.Exit(1)  # now, not after minutes of warm-up
    if plan.device == "cuda" and not torch.cuda.is_available():
        TERMINAL.print("this plan needs a GPU, and torch finds none; --dry-run needs none")
        raise typer.Exit(1)
    database = folder / "service"
    database.mkdir(parents=True, exist_ok=True)
    head, differs = commit()
    machine = describe_machine(plan.device)
    # The service of a command that was killed may still be there, and holds the database.
    known = database / "address"
    left = known.read_text("utf-8") if known.exists() else ""
    url = url or (left if left and is_ready(left) else None)
    with nullcontext(url) if url else own_service(database) as address:
        known.write_text(address, "utf-8")
        TERMINAL.print(f"Follow it at {address}")
        if is_dry:
            seen = killed(plan, jobs, address, folder)
            TERMINAL.print(f"Killed it after {seen} checkpoints, to go on from the last.")
        with Client(address, deadline_s=PATIENCE_S) as client:
            courses = train(
                plan,
                jobs,
                client=client,
                folder=folder,
                budget_s=60 * minutes,
                checkpoint_every_s=CHECKPOINT_EVERY_S,
                on_step=Progress(plan),
            )
    if courses is None:
        TERMINAL.print("The time is over; the same command goes on from here.")
        raise typer.Exit(0)
    with (folder / RESULTS).open("a", encoding="utf-8") as file:
        file.writelines(Record(head + "+" * differs, machine, plan, course).as_line() for course in courses)
    (folder / CHECKPOINT).unlink(missing_ok=True)


class Progress:
    """Says how far the runs are, at each evaluation of the first one."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._began, self._seen, self._first = plan, time.monotonic(), 0, 0

    def __call__(self, trainer: Trainer) -> None:
        """Take a look after a step."""
        steps = trainer.runs[0].notes.steps
        self._first = self._first or steps
        if steps // self._plan.evaluate_every == self._seen or steps == self._first:
            return
        self._seen = steps // self._plan.evaluate_every
        means: dict[str, list[float]] = {}
        for run in trainer.runs:
            means.setdefault(run.job.arm, []).append(run.notes.accuracy)
        rate = (time.monotonic() - self._began) / (steps - self._first)
        TERMINAL.print(
            f"step {steps}: {', '.join(f'{arm} {fmean(found):.3f}' for arm, found in means.items())}; "
            f"about {rate * (self._plan.steps - steps) / 60:.0f} minutes remain"
        )


def describe_machine(device: str) -> dict[str, object]:
    """Return what the comparison is run on, without saying whose machine it is."""
    accelerator = {"accelerator": torch.cuda.get_device_name()} if device == "cuda" else {}
    memory = {"cores": cores(), "memory_gib": round(memory_bytes() / 2**30, 1)}
    return {"processor": processor(), **memory, **accelerator, "torch": torch.__version__}


def is_ready(url: str) -> bool:
    """Ask the service whether it can be used."""
    with Client(url) as client:
        return client.is_ready()


def finish(folder: Path, plan: Plan) -> None:
    """Write tables and chart of all runs in a folder, and print the tables."""
    records = finished_runs(folder / RESULTS, plan)
    if all(record.course.arm != BASE for record in records):
        TERMINAL.print(f"no tables: they compare with {BASE}, of which there is no run")
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
