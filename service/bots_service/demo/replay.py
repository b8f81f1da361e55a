"""A recorded training run, replayed through the service once for each way to select (see RUNS), and a service for that.

The recorded run, a real GRPO one, did not react to what a replay selects. But it visited every problem about every 9
steps, so each problem's success probability is known well enough at every step. `data/SOURCE.md` says where the numbers
come from.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bots_client import Client, GivenSettings, Outcome, RunSummary, Task
from bots_service.core.arrays import Floats
from bots_service.errors import BotsError

# --- the recorded run -------------------------------------------------------------------------------------------------

STEPS = 500  # of the recorded run
VISITS_POOLED = 5  # 40 rollouts: one visit's 8 are too few, and more visits would blur what the model learned
VISITS_WEAK = 2  # the first two come before the model has learned much
REFERENCE_MODELS = ("qwen2.5-math-1.5b", "qwen2.5-math-7b")


@dataclass(frozen=True, slots=True)
class Recording:
    """Some problems of the run.

    solved: [N, V + 1] rollouts solved before each visit, summed; meaningless behind the last visit. visits: [N] how
    often each problem was visited. strong: [N] pass rate of the 7B model; NaN where unknown.
    """

    ids: tuple[str, ...]
    solved: NDArray[np.int64]
    visits: NDArray[np.int64]
    rollouts_per_visit: int
    strong: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.ids)

    def tasks(self) -> Iterator[Task]:
        """Yield the problems as a pool for the service: the model before training, and the 7B model where known."""
        weak = self.solved[:, VISITS_WEAK] / (VISITS_WEAK * self.rollouts_per_visit)
        for name, before, strong in zip(self.ids, weak.tolist(), self.strong.tolist(), strict=True):
            yield Task(name, (before, None if np.isnan(strong) else strong))

    def success_probabilities(self, step: int) -> NDArray[np.float64]:
        """Return [N] the share of solved rollouts in the 5 visits around a step, from 0 to 499.

        Visit j of n stands for the j-th of n equal parts of the run.
        """
        at_visit = (2 * step + 1) * self.visits // (2 * STEPS)  # where the middle of the step falls, in whole numbers
        first = np.clip(at_visit - VISITS_POOLED // 2, 0, self.visits - VISITS_POOLED)
        each = np.arange(len(self))
        solved = self.solved[each, first + VISITS_POOLED] - self.solved[each, first]
        return solved / (VISITS_POOLED * self.rollouts_per_visit)

    def roll_out(self, step: int, *, rollouts: int, seed: int) -> NDArray[np.int64]:
        """Return [N] how many of so many rollouts each problem would solve at a step.

        They depend on nothing else: every strategy that selects a problem at that step sees the same.
        """
        rng = np.random.default_rng([seed, step])
        return rng.binomial(rollouts, self.success_probabilities(step))


def recorded_run() -> Recording:
    """Return all 890 problems."""
    with (files("bots_service.demo") / "data/rlvr_run.npz").open("rb") as file, np.load(file) as arrays:
        successes = np.maximum(arrays["successes"], 0)  # -1: no such visit
        return Recording(
            ids=tuple(arrays["task_id"].tolist()),
            solved=np.pad(successes.cumsum(axis=1, dtype=np.int64), ((0, 0), (1, 0))),
            visits=arrays["visits"].astype(np.int64),
            rollouts_per_visit=int(arrays["rollouts_per_visit"]),
            strong=arrays["reference_qwen25_math_7b"].astype(np.float64),
        )


# --- the replay -------------------------------------------------------------------------------------------------------

ROLLOUTS = 16  # per task and step, as in the paper
PREDICTED_EVERY = 10  # steps: reading the predictions for the whole pool takes as long as a step
LEAST_PREDICTION = 1e-3  # and at most 1 less that, as one certain mistake would outweigh everything else

# The runs by their names: belief and strategy. Uniform sampling looks at no belief; the last one is what a new run has.
RUNS: dict[str, GivenSettings] = {
    "uniform": {"belief": "bots", "strategy": "uniform"},
    "bots-thompson": {"belief": "bots", "strategy": "thompson"},
    "tracker-thompson": {"belief": "tracker", "strategy": "thompson"},
    "tracker-pass": {"belief": "tracker", "strategy": "pass"},
}


class Replay:
    """A replay through the service, which holds all but the log losses.

    steps: how many of the run's 500, from the first one. count: of tasks, in each step.
    seed: of every draw, the service's and the rollouts'. suffix: of the runs' names, so that replays don't meet.
    log_losses: of the success rates that each run predicted for all problems, before every tenth step.
    """

    def __init__(
        self, client: Client, recording: Recording, *, steps: int, count: int, seed: int, suffix: str = ""
    ) -> None:
        self.client, self.recording = client, recording
        self.steps, self.count, self.seed = steps, count, seed
        self.dataset = f"rlvr-run-{len(recording)}"
        self.runs = {label: f"{label}{suffix}" for label in RUNS}
        self.log_losses: dict[str, list[float]] = {label: [] for label in RUNS}
        client.create_dataset(
            self.dataset,
            recording.tasks(),
            reference_models=REFERENCE_MODELS,
            description="Problems of a recorded GRPO run (One-Shot-RLVR, Apache-2.0), created by bots demo",
        )
        for label, run in self.runs.items():
            settings: GivenSettings = {**RUNS[label], "seed": seed}
            client.create_run(self.dataset, run, **settings)

    def take(self, step: int) -> None:
        """Let each run select and report. step: from 0."""
        solved = self.recording.roll_out(step, rollouts=ROLLOUTS, seed=self.seed)
        shown = dict(zip(self.recording.ids, solved.tolist(), strict=True))
        for label, run in self.runs.items():
            if step % PREDICTED_EVERY == PREDICTED_EVERY // 2:
                predicted = np.array(
                    [task.mean for task in self.client.tasks(self.dataset, run)]
                )  # in the pool's order
                self.log_losses[label].append(log_loss(predicted, self.recording.success_probabilities(step)))
            selection = self.client.select(self.dataset, self.count, run=run)
            outcomes = [Outcome.counts(task, shown[task], ROLLOUTS) for task in selection.ids]
            self.client.report(self.dataset, outcomes, run=run, selection=selection)

    def results(self) -> dict[str, Any]:
        """Return the results, as the service tells them."""
        return {
            "problems": len(self.recording),
            "steps": self.steps,
            "count": self.count,
            "rollouts_per_task": ROLLOUTS,
            "seed": self.seed,
            "dataset": self.dataset,
            "runs": [self._results_of(label, self.client.summary(self.dataset, self.runs[label])) for label in RUNS],
        }

    def _results_of(self, label: str, summary: RunSummary) -> dict[str, Any]:
        shared, losses = ("run", "belief", "strategy", "reported", "effective", "rollouts"), self.log_losses[label]
        return {
            **{name: getattr(summary, name) for name in shared},
            "effective_task_ratio": summary.effective / summary.reported,
            "effective_task_ratio_last_50": summary.effective_task_ratio,
            "vs_uniform": summary.gain and summary.gain.factor,
            "rollouts_saved": summary.gain and summary.gain.rollouts_saved,
            "distinct_tasks": self.client.run(self.dataset, summary.run).coverage.distinct_tasks,
            "log_loss": sum(losses) / len(losses) if losses else None,
        }


def log_loss(predicted: Floats, probabilities: Floats) -> float:
    """Return the mean cross-entropy, in nats, of [N] predicted success rates and what they are in fact."""
    q = np.clip(predicted, LEAST_PREDICTION, 1 - LEAST_PREDICTION)
    return float(-np.mean(probabilities * np.log(q) + (1 - probabilities) * np.log1p(-q)))


# --- a service of the demo's own --------------------------------------------------------------------------------------

START_S = 90.0  # a cold, busy machine reads numpy, scipy and pyarrow from a slow disk
STOP_S = 10.0
POLL_S = 0.05
ADDRESS = re.compile(r"BOTS listens on (http://\S+) ")


class OwnServiceError(BotsError):
    """The demo's own service ended, or was not ready in time."""


@contextmanager
def own_service(kept_in: Path | None = None) -> Iterator[str]:
    """Start a service; yield its URL once it is ready, and stop it at the end, whatever ends the demo.

    kept_in: folder for its database and its log, which stay there; None: they go with it.
    """
    with ended_by_signals(), nullcontext(kept_in) if kept_in else TemporaryDirectory(prefix="bots-demo-") as folder:
        log = Path(folder).absolute() / "service.log"
        database = Path(folder).absolute() / "bots.db"
        serve = ["-m", "bots_service", "serve", "--port", "0", "--database-url", f"sqlite:///{database}"]
        # Not the settings of the user's own service: they could change the numbers.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BOTS_")}
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, *serve], env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        try:
            yield _url_of(process, log)
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _url_of(process: subprocess.Popen[bytes], log: Path) -> str:
    give_up = time.monotonic() + START_S
    while time.monotonic() < give_up and process.poll() is None:
        if said := ADDRESS.search(log.read_text("utf-8", "replace")):
            return said[1]
        time.sleep(POLL_S)
    *_, last = ["it said nothing", *filter(str.strip, log.read_text("utf-8", "replace").splitlines())]
    happened = f"was not ready within {START_S:g} s" if process.returncode is None else f"ended ({process.returncode})"
    raise OwnServiceError(f"the demo's own service {happened}: {last}")


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let a closing terminal or a supervisor end the block as Ctrl-C does, so that what it started is stopped."""

    def leave(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    signals = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    before = {number: signal.signal(number, leave) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
