"""Study: which method of choosing tasks learns fastest, on pools that react and on pools that were recorded."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from studies.environment import Environment
from studies.learners import LEARNERS, PULL, Interference
from studies.method import Method, Served, WithoutPractice
from studies.progress import rollouts_to_end, until
from studies.public_pools import POOLS, Replayed
from studies.published import KalmanFilter, MoPPS, NearestOracle, PassOracle
from studies.replaying import COUNT, QUICK_STEPS, ROLLOUTS
from studies.study import Cell, Comparison, Study, StudyChart, StudyTable
from studies.trial import Measures, run_trial

ROUNDS = 10  # of DAPO's filter in a step, as its authors' recipe has


@dataclass(frozen=True, slots=True)
class Contender:
    """A method of the comparison.

    make: make it for an environment and a seed.
    rounds: how often a step may choose and roll out; more than once with DAPO's filter.
    """

    make: Callable[[Environment, int], Method]
    rounds: int = 1


def served(environment: Environment, seed: int, **settings: Any) -> Served:
    """Return a run of the service on the environment's tasks."""
    return Served(environment.references, seed=seed, **settings)


CONTENDERS: dict[str, Contender] = {
    "uniform": Contender(partial(served, belief="bots", strategy="uniform")),
    "shuffle": Contender(partial(served, belief="bots", strategy="shuffle")),
    "easy to hard": Contender(partial(served, belief="bots", strategy="easy_to_hard")),
    "DAPO's filter": Contender(partial(served, belief="bots", strategy="shuffle"), rounds=ROUNDS),
    "MoPPS": Contender(lambda environment, seed: MoPPS(len(environment.references), seed)),
    "Kalman filter": Contender(lambda environment, seed: KalmanFilter(len(environment.references), seed)),
    "BOTS": Contender(partial(served, belief="bots")),
    "tracker, pass": Contender(partial(served, belief="tracker")),
    "tracker, pass, no practice": Contender(
        lambda environment, seed: WithoutPractice(environment.references, seed=seed, belief="tracker")
    ),
    "tracker, thompson": Contender(partial(served, belief="tracker", strategy="thompson")),
    "oracle, pass": Contender(lambda environment, seed: PassOracle(environment, seed, rollouts=ROLLOUTS)),
    "oracle, nearest": Contender(lambda environment, _seed: NearestOracle(environment)),
}
PULLS = {f"interference, pull {pull:g}": pull for pull in (0.0, PULL / 2, PULL * 3 / 2)}
BY_PULL = ("shuffle", "BOTS", "tracker, pass", "tracker, thompson", "oracle, nearest")
COMPARED = (
    "uniform",
    "shuffle",
    "easy to hard",
    "DAPO's filter",
    "MoPPS",
    "BOTS",
    "tracker, pass",
    "tracker, thompson",
)
BY_PREDICTION = ("uniform", "MoPPS", "Kalman filter", "BOTS", "tracker, pass", "tracker, thompson", "oracle, pass")


def environment_of(pool: str, seed: int) -> Environment:
    """Return a pool that reacts, or a recorded one; a seed makes no difference to that."""
    if pool in PULLS:
        return Interference(seed, pull=PULLS[pool])
    return LEARNERS[pool](seed) if pool in LEARNERS else Replayed.of(pool)


def trial(pool: str, method: str, seed: int, quick: bool) -> Measures:
    """Make one trial."""
    environment, contender = environment_of(pool, seed), CONTENDERS[method]
    return run_trial(
        environment,
        contender.make(environment, seed),
        steps=QUICK_STEPS if quick else environment.steps,
        count=COUNT,
        rollouts=ROLLOUTS,
        rng=np.random.default_rng(1000 + seed),
        rounds=contender.rounds,
    )


def cell(pool: str, method: str) -> Cell:
    """Return one cell."""
    return Cell({"pool": pool, "method": method}, partial(trial, pool, method))


SHUFFLE = {"method": "shuffle"}
METHODS = Study(
    name="methods",
    title="Which method of choosing tasks learns fastest?",
    claim="It depends on how far repetition harms; `pass` ends above a shuffle in three of four made-up pools.",
    cells=(
        *(cell(pool, method) for pool in LEARNERS for method in CONTENDERS),
        *(cell(pool, method) for pool in PULLS for method in BY_PULL),
        *(cell(pool, method) for pool in POOLS for method in BY_PREDICTION),
    ),
    tables=(
        StudyTable("learning", ("method",), ("last_accuracy",), where={"pool": tuple(LEARNERS)}, across="pool"),
        StudyTable(
            "interference",
            ("pool", "method"),
            ("last_accuracy",),
            where={"pool": (Interference.name,), "method": COMPARED},
            baseline=SHUFFLE,
            comparisons=(Comparison("rollouts to shuffle's end", SHUFFLE, partial(until, rollouts_to_end)),),
        ),
        StudyTable(
            "pull",
            ("pool",),
            ("last_accuracy",),
            where={"pool": (Interference.name, *PULLS), "method": BY_PULL},
            across="method",
        ),
        StudyTable(
            "recorded",
            ("pool", "method"),
            (
                "effective_task_ratio",
                "pool_log_loss",
            ),
            where={"pool": tuple(POOLS), "method": BY_PREDICTION},
        ),
    ),
    charts=(
        StudyChart(
            "learning",
            "Accuracy by step",
            x="step",
            y="accuracy",
            lines=("method",),
            panels="pool",
            where={
                "pool": tuple(LEARNERS),
                "method": ("shuffle", "MoPPS", "BOTS", "tracker, pass", "tracker, thompson", "oracle, pass"),
            },
        ),
    ),
)
