"""Study: how often a selection gives the effective groups that it was wanted for, and what that saves DAPO's filter."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bots_service.core.arrays import Floats, Tasks
from bots_service.core.draw.selection import SelectRequest
from studies.environment import Batch, Environment, binomial
from studies.learners import LEARNERS
from studies.method import Served
from studies.public_pools import POOLS, Replayed
from studies.replaying import QUICK_STEPS, ROLLOUTS
from studies.sizes import times
from studies.study import Cell, Comparison, Study, StudyTable
from studies.trial import Measures, Record, filtered, rolled_out

MOST_ROUNDS = 10  # of DAPO's filter in a step, as its authors' recipe has
GROUPS, CONFIDENCE = "32", "0.9"
AS_MEASURED = "as measured"
TIMES_GENERATED = 3  # prompts of a round for each of a step, as DAPO's own configuration has: 1536 for 512
DEFAULT = "tracker, pass"
RUNS: dict[str, dict[str, Any]] = {
    DEFAULT: {"belief": "tracker"},
    "tracker, uniform choice": {"belief": "tracker", "strategy": "uniform"},
    "BOTS": {"belief": "bots"},
}
WANTED = "as many tasks as are enough"
ROUNDS: dict[str, tuple[dict[str, Any], int | None]] = {  # settings, and tasks of a round for each wanted group
    "shuffle": ({"belief": "bots", "strategy": "shuffle"}, 1),
    "shuffle, three times as many": ({"belief": "bots", "strategy": "shuffle"}, TIMES_GENERATED),
    "pass": ({"belief": "tracker"}, 1),
    WANTED: ({"belief": "tracker"}, None),
}


class Wishing:
    """A run of the service that is asked for effective groups, or for tasks.

    chosen: how many tasks each selection had.
    expected: how many effective groups the answer to each expected.
    """

    def __init__(self, served: Served, confidence: float | None) -> None:
        """Ask for groups with this confidence; for tasks if it is None."""
        self.served, self.confidence = served, confidence
        self.chosen: list[int] = []
        self.expected: list[float] = []

    def select(self, count: int) -> Tasks:
        """Return enough tasks for `count` effective groups, or `count` tasks."""
        if self.confidence is None:
            return self.served.select(count)
        tasks = self.served.ask(SelectRequest("study", want_effective=count, confidence=self.confidence))
        state = self.served.state
        chances = state.belief.distributions(self.served.pool, tasks).effective(state.group_size)
        self.chosen.append(len(tasks))
        self.expected.append(float(state.forecasts.corrected(chances).sum()))
        return tasks

    def report(self, batch: Batch) -> None:
        """Learn from what the chosen tasks showed."""
        self.served.report(batch)

    def means(self) -> Floats | None:
        """[N] predicted probabilities of success."""
        return self.served.means()


def environment_of(pool: str, case: str, seed: int) -> Environment:
    """Return a pool that reacts, or a recorded one in some case."""
    return LEARNERS[pool](seed) if pool in LEARNERS else Replayed.of(pool, None if case == AS_MEASURED else case)


def trained(
    environment: Environment,
    method: Wishing,
    *,
    seed: int,
    quick: bool,
    one_step: Callable[[Callable[[int], Batch]], Batch],
) -> Measures:
    """Return what was measured where each step is made of batches that hold enough tasks for so many groups."""
    record, rng = Record(len(environment.references)), np.random.default_rng(1000 + seed)
    for _ in range(QUICK_STEPS if quick else environment.steps):
        record.look(environment, method)
        environment.train(
            one_step(lambda count: rolled_out(environment, method, record, count, lambda p: binomial(p, ROLLOUTS, rng)))
        )
    return record.measures(environment)


def reaching(labels: dict[str, str], seed: int, quick: bool) -> Measures:
    """Make one trial in which each step asks once."""
    environment, wanted = environment_of(labels["pool"], labels["case"], seed), int(labels["groups"])
    served = Served(environment.references, seed=seed, **RUNS[labels["run"]])
    method = Wishing(served, float(labels["confidence"]))
    found: list[int] = []

    def one_step(roll_out: Callable[[int], Batch]) -> Batch:
        batch = roll_out(wanted)
        found.append(int(batch.effective.sum()))
        return batch

    measures = trained(environment, method, seed=seed, quick=quick, one_step=one_step)
    extra = {
        "reached": float(np.mean(np.array(found) >= wanted)),
        "tasks": float(np.mean(method.chosen)),
        "expected groups": float(np.mean(method.expected)),
        "groups": float(np.mean(found)),
    }
    return replace(measures, extra=extra)


def filling(labels: dict[str, str], seed: int, quick: bool) -> Measures:
    """Make one trial with DAPO's filter: a step asks again until it has its effective groups."""
    environment, wanted = environment_of(labels["pool"], labels["case"], seed), int(labels["groups"])
    settings, factor = ROUNDS[labels["run"]]
    method = Wishing(
        Served(environment.references, seed=seed, **settings),
        float(labels["confidence"]) if factor is None else None,
    )
    rounds: list[int] = []

    def one_step(roll_out: Callable[[int], Batch]) -> Batch:
        batches, missing = list[Batch](), wanted
        while missing > 0 and len(batches) < MOST_ROUNDS:
            batches.append(roll_out(missing if factor is None else factor * wanted))
            missing -= int(batches[-1].effective.sum())
        rounds.append(len(batches))
        return filtered(batches, wanted)

    measures = trained(environment, method, seed=seed, quick=quick, one_step=one_step)
    extra = {
        "rounds": float(np.mean(rounds)),
        "steps of one round": float(np.mean(np.array(rounds) == 1)),
        "rollouts a step": measures.rollouts / measures.steps,
    }
    return replace(measures, extra=extra)


def cell(
    pool: str, case: str = AS_MEASURED, run: str = DEFAULT, groups: str = GROUPS, confidence: str = CONFIDENCE
) -> Cell:
    """Return one cell."""
    labels = {"pool": pool, "case": case, "run": run, "groups": groups, "confidence": confidence}
    return Cell(labels, partial(filling if run in ROUNDS else reaching, labels))


CASES = ("none", "one", "inverted", "sudden", "collapsing")  # of `public_pools`
TIMES = Comparison("rollouts, times shuffle's", {"run": "shuffle"}, partial(times, "rollouts a step"))
SHOWN = ("reached", "tasks", "expected groups", "groups")
WANTED_STUDY = Study(
    name="wanted",
    title="Does a selection give the effective groups that it is wanted for?",
    claim="Yes, in 0.89 to 0.91 of the steps where 0.9 is asked; DAPO's filter then mostly needs one round.",
    cells=(
        *(cell(pool, case) for pool in POOLS for case in (AS_MEASURED, *CASES)),
        *(cell(pool) for pool in LEARNERS),
        *(cell(pool, groups="8") for pool in POOLS),
        *(cell(pool, confidence=confidence) for pool in POOLS for confidence in ("0.5", "0.99")),
        *(cell(pool, run=run) for pool in POOLS for run in RUNS if run != DEFAULT),
        *(cell(pool, run=run) for pool in POOLS for run in ROUNDS),
    ),
    tables=(
        StudyTable(
            "reached",
            ("pool", "case"),
            SHOWN,
            where={"run": (DEFAULT,), "groups": (GROUPS,), "confidence": (CONFIDENCE,)},
        ),
        StudyTable(
            "sizes",
            ("pool", "groups", "confidence"),
            SHOWN,
            where={"pool": tuple(POOLS), "case": (AS_MEASURED,), "run": (DEFAULT,)},
        ),
        StudyTable(
            "runs",
            ("pool", "run"),
            SHOWN,
            where={
                "pool": tuple(POOLS),
                "case": (AS_MEASURED,),
                "run": tuple(RUNS),
                "groups": (GROUPS,),
                "confidence": (CONFIDENCE,),
            },
        ),
        StudyTable(
            "rounds",
            ("pool", "run"),
            ("rollouts a step", "rounds", "steps of one round"),
            where={"run": tuple(ROUNDS)},
            comparisons=(TIMES,),
        ),
    ),
)
