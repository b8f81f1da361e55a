"""How a comparison stands: a bar for each job on a terminal, a line now and then in a log."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from examples.grpo_cpu.compare import Done

LINES = 5  # for each job, in a log


@contextmanager
def shown_progress(terminal: Console) -> Iterator[Callable[[Done], None]]:
    """Give what to call with each job's progress."""
    if not terminal.is_terminal:
        yield lambda done: log(terminal, done)
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=terminal) as bars:
        of_job: dict[str, TaskID] = {}

        def show(done: Done) -> None:
            if done.job not in of_job:
                of_job[done.job] = bars.add_task(done.job, total=done.of)
            bars.update(of_job[done.job], completed=done.steps)

        yield show


def log(terminal: Console, done: Done) -> None:
    """Write a line when another fifth of a job is done."""
    if done.steps * LINES // done.of > (done.steps - 1) * LINES // done.of:
        terminal.print(f"{done.job}: step {done.steps} of {done.of}", highlight=False)
