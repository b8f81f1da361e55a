"""How far a comparison is: bars with the time that remains on a terminal, a line for each run in a log."""

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from examples.finetune.course import Course
from examples.finetune.jobs import Done, Job
from examples.finetune.measures import mean_accuracy


class Shown:
    """What is shown during the runs.

    terminal: where.
    runs: how many there are to do; steps: of each.
    """

    def __init__(self, terminal: Console, runs: int, steps: int) -> None:
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        self.bars = Progress(*columns, console=terminal, disable=not terminal.is_terminal)
        self._terminal, self._runs, self._steps = terminal, runs, steps
        self._total = self.bars.add_task("all steps", total=runs * steps)
        self._of_job: dict[Job, TaskID] = {}
        self._ended, self._began = 0, time.monotonic()

    def step(self, done: Done) -> None:
        """Show how far a run is."""
        if done.job not in self._of_job:
            self._of_job[done.job] = self.bars.add_task(str(done.job), total=self._steps)
        bar = self._of_job[done.job]
        self.bars.update(self._total, advance=done.steps - next(t.completed for t in self.bars.tasks if t.id == bar))
        self.bars.update(bar, completed=done.steps, visible=done.steps < self._steps)

    def ended(self, course: Course) -> None:
        """Say what a run came to, and how long all others will take at this rate."""
        self._ended += 1
        remaining = (time.monotonic() - self._began) / self._ended * (self._runs - self._ended)
        self._terminal.print(
            f"{self._ended} of {self._runs}: seed {course.seed}, {course.arm}: "
            f"{course.accuracies[0]:.3f} to {course.accuracies[-1]:.3f}, mean {mean_accuracy(course):.4f}, "
            f"{course.seconds:.0f} s; about {remaining / 60:.0f} minutes remain",
            highlight=False,
            soft_wrap=True,
        )
