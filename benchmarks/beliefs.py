"""Compares beliefs on public data, at a real service over HTTP.

    python -m benchmarks.beliefs [--pool recorded-run|reasoning-gym] [--seeds 10] [--quick] [--json]

Each run selects 32 tasks a step, sees 16 rollouts of each, and reports them. Prints tables with 95 % intervals.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.beliefs_tables import AS_MEASURED, BOTS, TRACKER, Score, tables
from benchmarks.public_pools import CASES, POOLS, PublicPool
from benchmarks.running import running_service
from bots_client import Client, GivenSettings, Outcome
from bots_service.core.arrays import Floats
from bots_service.demo.own_service import ended_by_signals

COUNT = 32  # tasks a step
ROLLOUTS = 16  # of each of them
CLIP = 1e-3  # predictions are clipped to [CLIP, 1 - CLIP]: one task that surprises must not decide a mean
READ_EVERY = 5  # steps between two readings of the whole pool; reading every step changed a mean by at most 0.0003
SEEDS = 10
QUICK_STEPS = 6

ARMS: dict[str, GivenSettings] = {
    "uniform": {"strategy": "uniform"},
    BOTS: {"strategy": "thompson"},
    "BOTS, capability: paper": {"strategy": "thompson", "capability": "paper"},
    TRACKER: {"strategy": "thompson", "belief": "tracker"},
}


@dataclass(frozen=True, slots=True)
class Trial:
    """A run to be made: a variant of a pool, an arm and a seed."""

    pool: PublicPool
    case: str
    arm: str
    seed: int

    @property
    def dataset(self) -> str:
        """What the pool is called at the service."""
        return f"{self.pool.name} {self.case}".replace(" ", "-")

    @property
    def run(self) -> str:
        """What the run is called at the service."""
        return f"{self.arm}-{self.seed}".replace(", ", "-").replace(": ", "-")


def main() -> None:
    """Make the runs; print what they measured."""
    options = read_options()
    trials = list(planned(options.pool, seeds=options.seeds, quick=options.quick))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("steps"))
    times = (TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn())
    scores = []
    progress = Progress(*columns, *times, console=Console(stderr=True))
    with ended_by_signals(), progress, running_service() as service:
        bar = progress.add_task("", total=sum(len(trial.pool.success) for trial in trials))
        with Client(service.url) as client:
            for trial in trials:
                progress.update(bar, description=f"{trial.dataset} {trial.run}")
                scores.append(measured(client, trial))
                progress.advance(bar, len(trial.pool.success))
                if options.json:
                    print(json.dumps(asdict(scores[-1])), flush=True)
    if not options.json:
        print(tables(scores))


def read_options() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.beliefs", description="Beliefs compared on public data."
    )
    parser.add_argument("--pool", choices=list(POOLS), help="only this pool")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"runs of each kind ({SEEDS})")
    parser.add_argument("--quick", action="store_true", help=f"one seed, {QUICK_STEPS} steps: does it run")
    parser.add_argument(
        "--json", action="store_true", help="a line of JSON for each run, once it is done, and no table"
    )
    return parser.parse_args()


def planned(pool: str | None, *, seeds: int, quick: bool) -> Iterator[Trial]:
    """Yield the runs to be made: on the pools as they were measured, then where references or the model go wrong."""
    pools = [POOLS[name]() for name in ([pool] if pool else POOLS)]
    if quick:
        pools, seeds = [each.shortened(QUICK_STEPS) for each in pools], 1
    for each in pools:
        yield from (Trial(each, AS_MEASURED, arm, seed) for seed in range(seeds) for arm in ARMS)
    for each in pools:
        for case, vary in CASES.items():
            wrong = vary(each)
            yield from (Trial(wrong, case, arm, seed) for seed in range(seeds) for arm in (BOTS, TRACKER))


def measured(client: Client, trial: Trial) -> Score:
    """Make a run; return how well it selected and predicted."""
    pool, dataset, run = trial.pool, trial.dataset, trial.run
    client.create_dataset(dataset, pool.tasks(), pool.reference_models)
    settings: GivenSettings = {**ARMS[trial.arm], "seed": trial.seed}
    client.create_run(dataset, run, **settings)
    rng = np.random.default_rng(1000 + trial.seed)
    effective, pool_losses, batch_losses = [], [], []
    for step, success in enumerate(pool.success):
        if step % READ_EVERY == READ_EVERY // 2:
            pool_losses.append(log_loss(success, means(client, dataset, run)))
        selection = client.select(dataset, COUNT, run=run)
        solved = rng.binomial(ROLLOUTS, success[[int(task) for task in selection.ids]])
        predicted = np.array([task.mean for task in selection.tasks], float)
        batch_losses.append(log_loss(solved / ROLLOUTS, predicted))
        outcomes = map(Outcome.counts, selection.ids, solved.tolist(), [ROLLOUTS] * COUNT)
        effective.append(client.report(dataset, outcomes, run=run, selection=selection).effective / COUNT)
    means_of_steps = (float(np.mean(values)) for values in (effective, pool_losses, batch_losses))
    return Score(pool.name, trial.case, trial.arm, trial.seed, *means_of_steps)


def means(client: Client, dataset: str, run: str) -> Floats:
    """Return [N] what the run predicts of every task, in the pool's order."""
    stream = b"".join(client.tasks_arrow(dataset, run))
    predicted: Floats = pa.ipc.open_stream(stream).read_all()["mean"].to_numpy()
    return predicted


def log_loss(success: Floats, predicted: Floats) -> float:
    """Return the mean log loss in nats of predicted probabilities, where a share of rollouts succeeds."""
    clipped = np.clip(predicted, CLIP, 1 - CLIP)
    return float(-np.mean(success * np.log(clipped) + (1 - success) * np.log1p(-clipped)))


if __name__ == "__main__":
    main()
