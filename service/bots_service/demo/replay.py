"""Replay the recorded run through the service, once for each way to select: see RUNS."""

from dataclasses import dataclass
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


class Replay:
    """A replay through the service, which holds all but the log losses.

    log_losses: of the success rates that each run predicted for all problems, before every tenth step.
    """

    def __init__(self, client: Client, recording: Recording, plan: Plan) -> None:
        """Create the dataset and the runs."""
        self.client, self.recording, self.plan = client, recording, plan
        self.dataset = f"rlvr-run-{len(recording)}"
        self.runs = {label: f"{label}{plan.suffix}" for label in RUNS}
        self.log_losses: dict[str, list[float]] = {label: [] for label in RUNS}
        client.create_dataset(
            self.dataset,
            recording.tasks(),
            reference_models=REFERENCE_MODELS,
            description="Problems of a recorded GRPO run (One-Shot-RLVR, Apache-2.0), created by bots demo",
        )
        for label, run in self.runs.items():
            settings: GivenSettings = {**RUNS[label], "seed": plan.seed}
            client.create_run(self.dataset, run, **settings)

    def take(self, step: int) -> None:
        """Let each run select and report. step: from 0."""
        solved = self.recording.roll_out(step, rollouts=ROLLOUTS, seed=self.plan.seed)
        shown = dict(zip(self.recording.ids, solved.tolist(), strict=True))
        for label, run in self.runs.items():
            if step % PREDICTED_EVERY == PREDICTED_EVERY // 2:
                predicted = predictions(self.client, self.dataset, run)
                self.log_losses[label].append(log_loss(predicted, self.recording.success_probabilities(step)))
            selection = self.client.select(self.dataset, self.plan.count, run=run)
            outcomes = [Outcome.counts(task, shown[task], ROLLOUTS) for task in selection.ids]
            self.client.report(self.dataset, outcomes, run=run, selection=selection)

    def summaries(self) -> dict[str, RunSummary]:
        """Return what the service says of the runs, as its page shows it, by the labels of RUNS."""
        return {label: self.client.summary(self.dataset, run) for label, run in self.runs.items()}

    def results(self) -> dict[str, Any]:
        """Return the results, as the service tells them."""
        return {
            "problems": len(self.recording),
            "with_both_references": len(self.recording.with_both_references()),
            "steps": self.plan.steps,
            "count": self.plan.count,
            "rollouts_per_task": ROLLOUTS,
            "seed": self.plan.seed,
            "dataset": self.dataset,
            "runs": [self._results_of(label, summary) for label, summary in self.summaries().items()],
        }

    def _results_of(self, label: str, summary: RunSummary) -> dict[str, Any]:
        shared, losses = ("run", "belief", "strategy", "reported", "effective", "rollouts"), self.log_losses[label]
        return {
            **{name: getattr(summary, name) for name in shared},
            f"effective_task_ratio_last_{RECENT}": summary.effective_task_ratio,
            "vs_uniform": summary.gain and summary.gain.factor,
            "rollouts_saved": summary.gain and summary.gain.rollouts_saved,
            "distinct_tasks": self.client.run(self.dataset, summary.run).coverage.distinct_tasks,
            "log_loss": sum(losses) / len(losses) if losses else None,
        }


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
