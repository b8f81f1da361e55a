"""Replay the recorded run through the service, once for each way to select: see RUNS."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from bots_client import Client, GivenSettings, Outcome, RunSummary
from bots_service.core.arrays import Floats
from bots_service.demo.recording import REFERENCE_MODELS, Recording

RECENT = 50  # steps: over so many goes the effective task ratio of a summary
ROLLOUTS = 16  # per task and step, as in the paper
PREDICTED_EVERY = 10  # steps: reading the predictions for the whole pool takes as long as a step
LEAST_PREDICTION = 1e-3  # and at most 1 less that, as one certain mistake would outweigh everything else

# The runs by their names: belief and strategy. Uniform sampling looks at no belief.
RUNS: dict[str, GivenSettings] = {
    "uniform": {"belief": "bots", "strategy": "uniform"},
    "bots-thompson": {"belief": "bots", "strategy": "thompson"},
    "tracker-thompson": {"belief": "tracker", "strategy": "thompson"},
    "tracker-pass": {"belief": "tracker", "strategy": "pass"},
}
DEFAULT = "tracker-pass"  # what a new run has


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

    run: its name.
    log_losses: of the success rates predicted for all problems, before every tenth step.
    met: every problem that it selected so far.
    """

    run: str
    log_losses: list[float] = field(default_factory=list)
    met: set[str] = field(default_factory=set)

    @property
    def log_loss(self) -> float | None:
        """The mean log loss of the predictions for all problems; None before the first."""
        return sum(self.log_losses) / len(self.log_losses) if self.log_losses else None


@dataclass(slots=True)
class ReplayedRun:
    """A replay under way.

    problems: how many there are; referenced: how many of them have both references.
    courses: by the labels of RUNS.
    steps_done: how many steps all runs have closed.
    summaries: what the service says of the runs, as its page shows it, by the same labels; empty until `look`.
    """

    plan: Plan
    dataset: str
    problems: int
    referenced: int
    courses: dict[str, Course]
    steps_done: int = 0
    summaries: dict[str, RunSummary] = field(default_factory=dict)

    def look(self, client: Client) -> None:
        """Read the summaries of the runs."""
        for label, course in self.courses.items():
            self.summaries[label] = client.summary(self.dataset, course.run)


def replayed(client: Client, recording: Recording, plan: Plan) -> Iterator[ReplayedRun]:
    """Yield the replay after every step; the same object grows."""
    replay = ReplayedRun(
        plan,
        dataset=name_of(recording),
        problems=len(recording),
        referenced=len(recording.with_both_references()),
        courses={label: Course(f"{label}{plan.suffix}") for label in RUNS},
    )
    client.create_dataset(
        replay.dataset,
        recording.tasks(),
        reference_models=REFERENCE_MODELS,
        description="Problems of a recorded GRPO run (One-Shot-RLVR, Apache-2.0), created by bots demo",
    )
    for label, course in replay.courses.items():
        settings: GivenSettings = {**RUNS[label], "seed": plan.seed}
        client.create_run(replay.dataset, course.run, **settings)
    for step in range(plan.steps):
        solved = recording.roll_out(step, rollouts=ROLLOUTS, seed=plan.seed)
        shown = dict(zip(recording.ids, solved.tolist(), strict=True))
        for course in replay.courses.values():
            if step % PREDICTED_EVERY == PREDICTED_EVERY // 2:
                predicted = predictions(client, replay.dataset, course.run)
                course.log_losses.append(log_loss(predicted, recording.success_probabilities(step)))
            selection = client.select(replay.dataset, plan.count, run=course.run)
            course.met.update(selection.ids)
            outcomes = [Outcome.counts(task, shown[task], ROLLOUTS) for task in selection.ids]
            client.report(replay.dataset, outcomes, run=course.run, selection=selection)
        replay.steps_done = step + 1
        yield replay


def name_of(recording: Recording) -> str:
    """Return what the dataset of a recording's problems is called."""
    return f"rlvr-run-{len(recording)}"


def predictions(client: Client, dataset: str, run: str) -> Floats:
    """Return [N] the success rates that a run expects now, in the pool's order."""
    with pa.ipc.open_stream(b"".join(client.tasks_arrow(dataset, run))) as stream:
        return np.asarray(stream.read_all()["mean"])


def log_loss(predicted: Floats, probabilities: Floats) -> float:
    """Return the expected log loss of a rollout of each task: the mean cross-entropy, in nats.

    Args:
        predicted: [N] success rates.
        probabilities: [N] what they are in fact.
    """
    q = np.clip(predicted, LEAST_PREDICTION, 1 - LEAST_PREDICTION)
    return float(-np.mean(probabilities * np.log(q) + (1 - probabilities) * np.log1p(-q)))


def results(replay: ReplayedRun) -> dict[str, Any]:
    """Return the results of a replay, as the service's summaries tell them."""
    return {
        "problems": replay.problems,
        "with_both_references": replay.referenced,
        "steps": replay.steps_done,
        "count": replay.plan.count,
        "rollouts_per_task": ROLLOUTS,
        "seed": replay.plan.seed,
        "dataset": replay.dataset,
        "runs": [results_of(replay.summaries[label], course) for label, course in replay.courses.items()],
    }


def results_of(summary: RunSummary, course: Course) -> dict[str, Any]:
    """Return the results of a run."""
    shared = ("belief", "strategy", "reported", "effective", "rollouts")
    return {
        "run": course.run,
        **{name: getattr(summary, name) for name in shared},
        f"effective_task_ratio_last_{RECENT}": summary.effective_task_ratio,
        "vs_uniform": summary.gain and summary.gain.factor,
        "rollouts_saved": summary.gain and summary.gain.rollouts_saved,
        "distinct_tasks": len(course.met),
        "log_loss": course.log_loss,
    }
