"""Replay the recorded run twice, step by step: tasks chosen by BOTS, and uniformly. Both through the service."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bots_client import Client, Outcome, Receipt
from bots_service.demo.recording import REFERENCE_MODELS, Recording

RECENT = 50  # steps; fewer are too noisy to see where the run stands
ROLLOUTS = 16  # per task and step, as in the paper


@dataclass(frozen=True, slots=True)
class Plan:
    """How to replay.

    steps: the first so many of the run's 500.
    count: tasks per step.
    seed: of every draw, the service's and the rollouts'.
    suffix: of the names of the runs, so that replays on one service don't meet.
    """

    steps: int
    count: int
    seed: int
    suffix: str = ""


@dataclass(slots=True)
class Course:
    """The results of the steps of one run so far.

    run: its name; reported, effective: tasks of each step; capabilities: after each step, None where not known.
    """

    run: str
    reported: list[int] = field(default_factory=list)
    effective: list[int] = field(default_factory=list)
    capabilities: list[float | None] = field(default_factory=list)

    def add(self, receipt: Receipt) -> None:
        """Append a step that was closed."""
        self.reported.append(receipt.reported)
        self.effective.append(receipt.effective)
        self.capabilities.append(receipt.capability)

    def effective_task_ratio(self, steps: int | None = None) -> float:
        """Return the share of tasks with a gradient: some of their rollouts succeeded and some failed.

        Args:
            steps: look at the last so many; None: at all.
        """
        first = 0 if steps is None else max(len(self.reported) - steps, 0)
        return sum(self.effective[first:]) / max(sum(self.reported[first:]), 1)

    @property
    def capability(self) -> float | None:
        """Where the model stands along the references after the last step."""
        return self.capabilities[-1] if self.capabilities else None


@dataclass(frozen=True, slots=True)
class ReplayedRun:
    """A replay under way.

    problems: how many there are; referenced: how many of them have both references.
    """

    plan: Plan
    dataset: str
    problems: int
    referenced: int
    bots: Course
    uniform: Course

    @property
    def steps_done(self) -> int:
        """How many steps both runs have closed."""
        return len(self.uniform.reported)

    @property
    def ratio(self) -> float | None:
        """How many times uniform's effective task ratio BOTS reaches; None where uniform found no effective task."""
        uniform = self.uniform.effective_task_ratio()
        return self.bots.effective_task_ratio() / uniform if uniform else None

    @property
    def rollouts_spent(self) -> int:
        """How many rollouts each of the two runs took."""
        return sum(self.bots.reported) * ROLLOUTS

    @property
    def rollouts_saved(self) -> int | None:
        """How many more rollouts uniform choice would need for as many effective tasks as BOTS found."""
        return None if self.ratio is None else round(self.rollouts_spent * (self.ratio - 1))


def replayed(client: Client, recording: Recording, plan: Plan) -> Iterator[ReplayedRun]:
    """Yield the replay after every step; the same object grows."""
    dataset = name_of(recording)
    client.create_dataset(
        dataset,
        recording.tasks(),
        reference_models=REFERENCE_MODELS,
        description="Problems of a recorded GRPO run (One-Shot-RLVR, Apache-2.0), made by `bots demo`",
    )
    replay = ReplayedRun(
        plan,
        dataset,
        problems=len(recording),
        referenced=len(recording.with_both_references()),
        bots=Course(f"bots{plan.suffix}"),
        uniform=Course(f"uniform{plan.suffix}"),
    )
    client.create_run(dataset, replay.bots.run, strategy="thompson", seed=plan.seed)
    client.create_run(dataset, replay.uniform.run, strategy="uniform", seed=plan.seed)
    for step in range(plan.steps):
        solved = recording.roll_out(step, rollouts=ROLLOUTS, seed=plan.seed)
        shown = dict(zip(recording.ids, solved.tolist(), strict=True))
        for course in (replay.bots, replay.uniform):
            course.add(train(client, dataset, course.run, plan.count, shown))
        yield replay


def name_of(recording: Recording) -> str:
    """Return what the dataset of a recording's problems is called."""
    return f"rlvr-run-{len(recording)}"


def train(client: Client, dataset: str, run: str, count: int, shown: dict[str, int]) -> Receipt:
    """Do one training step: select, roll out, report.

    Args:
        client: of the service.
        dataset: the pool.
        run: whose belief decides and learns.
        count: tasks to select.
        shown: of each problem, how many rollouts it solves at this step.
    """
    selection = client.select(dataset, count, run=run)
    outcomes = [Outcome.counts(task, shown[task], ROLLOUTS) for task in selection.ids]
    return client.report(dataset, outcomes, run=run, selection=selection)


def summary(replay: ReplayedRun) -> dict[str, Any]:
    """Return the results of a replay."""
    return {
        "problems": replay.problems,
        "with_both_references": replay.referenced,
        "steps": replay.steps_done,
        "count": replay.plan.count,
        "rollouts_per_task": ROLLOUTS,
        "seed": replay.plan.seed,
        "dataset": replay.dataset,
        "bots": _course(replay.bots),
        "uniform": _course(replay.uniform),
        "ratio": replay.ratio,
        "rollouts_spent": replay.rollouts_spent,
        "rollouts_saved": replay.rollouts_saved,
    }


def _course(course: Course) -> dict[str, Any]:
    known = [capability for capability in course.capabilities if capability is not None]
    return {
        "run": course.run,
        "reported": sum(course.reported),
        "effective": sum(course.effective),
        "effective_task_ratio": course.effective_task_ratio(),
        f"effective_task_ratio_last_{RECENT}": course.effective_task_ratio(RECENT),
        "capability": course.capability,
        "capability_least": min(known, default=None),
        "capability_most": max(known, default=None),
    }
