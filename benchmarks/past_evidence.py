"""Measures what evidence from old logs is worth to a run that begins: the log loss of its first 50 steps.

    python -m benchmarks.past_evidence [--seeds 5] [--steps 50] [--json]

The recorded run's tasks, 32 a step chosen uniformly, 16 rollouts each. The first steps are the log, or later ones where
training begins again; then a run on the steps that follow is folded with the log imported as old, and without it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.stats import t as student

from benchmarks.scores import print_scores
from bots_service.core.arrays import frozen
from bots_service.core.entries import Body, Entry, PastEvidence, Report
from bots_service.core.evidence import Evidence
from bots_service.core.past_evidence import AgedEvidence
from bots_service.core.pool import Pool, number_profiles
from bots_service.core.run_settings import RunSettings, settings_from
from bots_service.core.state import advance, fresh_state
from studies.public_pools import PublicPool, recorded_run, without_references

COUNT = 32  # tasks a step
ROLLOUTS = 16  # of each of them
LOGGED = 100  # steps in the log
AGAIN = 400  # the first step of the log of a training that begins again
STEPS = 50
SEEDS = 5
BELIEFS = ("bots", "tracker")
REFERENCES = ("none", "two")
CASES = ("training continues", "training begins again")


@dataclass(frozen=True, slots=True)
class PastScore:
    """The mean log loss of a run's first steps, with and without the log."""

    case: str
    belief: str
    references: str
    seed: int
    without: float
    with_log: float


def outcomes(pool: PublicPool, step: int, rng: np.random.Generator) -> Evidence:
    """Return what the model shows on tasks chosen uniformly at one step."""
    tasks = np.sort(rng.choice(pool.success.shape[1], COUNT, replace=False)).astype(np.int32)
    solved = rng.binomial(ROLLOUTS, pool.success[step, tasks]).astype(np.float64)
    return Evidence(
        frozen(tasks), frozen(solved), frozen(ROLLOUTS - solved), frozen((solved > 0) & (solved < ROLLOUTS))
    )


def joined(log: list[Evidence]) -> AgedEvidence:
    """Return the steps of a log, the newest of which has age 0."""
    columns = ("tasks", "successes", "failures", "effective")
    evidence = Evidence(*(frozen(np.concatenate([getattr(one, name) for one in log])) for name in columns))
    ages = [np.full(len(one), float(len(log) - 1 - place)) for place, one in enumerate(log)]
    return AgedEvidence(evidence, frozen(np.concatenate(ages)))


def mean_log_loss(pool: Pool, settings: RunSettings, bodies: list[Body]) -> float:
    """Return the mean over closed steps of the log loss of what was predicted before each, per rollout."""
    state, losses = fresh_state(settings, pool), []
    for seq, body in enumerate(bodies, 1):
        state, receipt = advance(state, Entry(seq, 0, pool.profiles, body), pool)
        if receipt.log_loss is not None:
            losses.append(receipt.log_loss)
    return float(np.mean(losses))


def measured(public: PublicPool, case: str, belief: str, seed: int, *, steps: int, logged: int) -> tuple[float, float]:
    """Return the log loss without and with the log."""
    again = case == CASES[1]
    rng = np.random.default_rng([seed, int(again)])
    first = AGAIN if again else 0
    log = [outcomes(public, step, rng) for step in range(first, first + logged)]
    begin = 0 if again else logged
    reports: list[Body] = [Report(outcomes(public, step, rng), None, None) for step in range(begin, begin + steps)]
    references, _, profile_of = number_profiles(public.references, np.zeros(len(public.references), np.uint32))
    pool, settings = Pool(references, profile_of), settings_from({"belief": belief})
    past = PastEvidence(joined(log))
    return mean_log_loss(pool, settings, reports), mean_log_loss(pool, settings, [past, *reports])


def scores(*, seeds: int, steps: int = STEPS, logged: int = LOGGED) -> Iterator[PastScore]:
    """Yield a score for each case, belief, number of references and seed."""
    recorded = recorded_run()
    pools = {"none": without_references(recorded), "two": recorded}
    for case in CASES:
        for references in REFERENCES:
            for belief in BELIEFS:
                for seed in range(seeds):
                    both = measured(pools[references], case, belief, seed, steps=steps, logged=logged)
                    yield PastScore(case, belief, references, seed, *both)


def table(found: list[PastScore]) -> str:
    """Return a table in Markdown, with 95 % intervals of the paired differences."""
    lines = ["| case | references | belief | without | with the log | difference |", "|---|---|---|---|---|---|"]
    for case in CASES:
        for references in REFERENCES:
            for belief in BELIEFS:
                some = [one for one in found if (one.case, one.references, one.belief) == (case, references, belief)]
                without, with_log = (np.mean([getattr(one, name) for one in some]) for name in ("without", "with_log"))
                gains = np.array([one.with_log - one.without for one in some])
                half = student.ppf(0.975, len(gains) - 1) * gains.std(ddof=1) / sqrt(len(gains))
                difference = f"{gains.mean():+.4f} ± {half:.4f}"
                lines.append(f"| {case} | {references} | {belief} | {without:.4f} | {with_log:.4f} | {difference} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print_scores(__doc__, scores, table, seeds=SEEDS, steps=STEPS)
