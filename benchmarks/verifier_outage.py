"""Measures what an outage of one tag's verifier costs a run: the 50 steps after it, with the guard and without.

    python -m benchmarks.verifier_outage [--seeds 10] [--json]

The recorded run's problems with three tags at random, 32 a step as `pass` selects them, 8 rollouts each. For 30 steps,
one a minute, all rollouts of one tag are reported as failed. Then the verifier is right again, and somebody drops what
the guard holds. The same rollouts come in each arm, as far as it selects the same tasks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.stats import t as student

from benchmarks.false_alarms import ROLLOUTS, World, selected
from benchmarks.scores import print_scores
from bots_service.core.arrays import Tasks, contained, frozen
from bots_service.core.entries import Body, Entry, GuardDecision, Report
from bots_service.core.evidence import Evidence
from bots_service.core.offset_tags import choose_offset_tags
from bots_service.core.pool import Pool
from bots_service.core.run_settings import settings_from
from bots_service.core.state import advance, fresh_state
from studies.public_pools import PublicPool, recorded_run, without_references

BEFORE, OUTAGE, AFTER = 100, 30, 50  # steps
PARTS = 3
BROKEN = "tag 0"
SEEDS = 10
BELIEFS = ("tracker", "bots")
REFERENCES = ("none", "two")
ARMS = ("no outage", "without the guard", "with the guard")


@dataclass(frozen=True, slots=True)
class OutageScore:
    """How a run did in the steps after an outage.

    log_loss: of what was predicted, per rollout; effective: the effective task ratio.
    alarm_after: steps of the outage until the alarm; None where there was none.
    """

    arm: str
    belief: str
    references: str
    seed: int
    log_loss: float
    effective: float
    alarm_after: int | None


def world_of(public: PublicPool) -> World:
    """Return the recorded run's problems with tags at random."""
    numbers = np.random.default_rng(0).integers(PARTS, size=len(public.references))
    tags = {f"tag {tag}": frozen(np.flatnonzero(numbers == tag).astype(np.int32)) for tag in range(PARTS)}
    offset_tags = choose_offset_tags(tags, Pool.of_tasks(public.references).profile_of)
    return World(public.name, Pool.of_tasks(public.references, tags, offset_tags), public.success)


def shown(world: World, tasks: Tasks, step: int, seed: int, *, broken: bool) -> Evidence:
    """Return what is reported of the rollouts of these tasks at a step. broken: whether one tag's verifier is."""
    luck = np.random.default_rng([seed, step]).random((len(world.pool), ROLLOUTS))
    solved = (luck[tasks] < world.success[step, tasks, None]).sum(axis=1).astype(np.float64)
    if broken:
        solved[contained(tasks, (world.pool.tags[BROKEN],))] = 0.0
    return Evidence(tasks, solved, ROLLOUTS - solved, (solved > 0) & (solved < ROLLOUTS)).frozen()


def after_outage(world: World, arm: str, belief: str, seed: int) -> tuple[float, float, int | None]:
    """Return log loss and effective task ratio of the steps after an outage, and when the alarm came."""
    pool, guarded = world.pool, arm == ARMS[2]
    settings = settings_from({"belief": belief, "strategy": "pass", "seed": seed, "verifier_guard": guarded})
    state, rng, alarm = fresh_state(settings, pool), np.random.default_rng(seed), None
    losses, effective, reported = list[float](), 0, 0
    for step in range(BEFORE + OUTAGE + AFTER):
        if guarded and step == BEFORE + OUTAGE:
            state, _ = advance(state, _entry(state.seq, GuardDecision("drop"), pool), pool)
        during = BEFORE <= step < BEFORE + OUTAGE
        tasks, made_at, walks = selected(world, state, rng)
        reports = shown(world, tasks, step, seed, broken=during and arm != ARMS[0])
        state, receipt = advance(state, _entry(state.seq, Report(reports, made_at, None, walks), pool), pool)
        if during and alarm is None and any(one.tag == BROKEN for one in state.guard.alarms):
            alarm = step - BEFORE + 1
        if step >= BEFORE + OUTAGE:
            losses.append(receipt.log_loss or 0.0)
            effective, reported = effective + receipt.tally.effective, reported + receipt.tally.reported
    return float(np.mean(losses)), effective / reported, alarm


def _entry(seq: int, body: Body, pool: Pool) -> Entry:
    return Entry(seq + 1, 0, pool.profiles, body)


def scores(*, seeds: int) -> Iterator[OutageScore]:
    """Yield a score for each belief, number of references, seed and arm."""
    recorded = recorded_run()
    for references in REFERENCES:
        world = world_of(recorded if references == "two" else without_references(recorded))
        for belief in BELIEFS:
            for seed in range(seeds):
                for arm in ARMS:
                    yield OutageScore(arm, belief, references, seed, *after_outage(world, arm, belief, seed))


def table(found: list[OutageScore]) -> str:
    """Return a table in Markdown, with 95 % intervals of the paired differences from no outage."""
    lines = ["| belief | references | | log loss | change by the outage | effective | change by the outage |"]
    lines.append("|---|---|---|---:|---:|---:|---:|")
    for belief in BELIEFS:
        for references in REFERENCES:
            of_arms = {arm: [one for one in found if _of(one) == (arm, belief, references)] for arm in ARMS}
            for arm, some in of_arms.items():
                pairs = list(zip(some, of_arms[ARMS[0]], strict=True))
                loss = _difference([one.log_loss - other.log_loss for one, other in pairs], "+.4f")
                ratio = _difference([one.effective - other.effective for one, other in pairs], "+.3f")
                log_loss, effective = np.mean([[one.log_loss, one.effective] for one in some], axis=0)
                numbers = f"{log_loss:.4f} | {loss} | {effective:.3f} | {ratio}"
                lines.append(f"| {belief} | {references} | {arm} | {numbers} |")
    return "\n".join(lines)


def _of(one: OutageScore) -> tuple[str, str, str]:
    return one.arm, one.belief, one.references


def _difference(values: list[float], form: str) -> str:
    if not any(values):
        return "0"
    half = student.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / sqrt(len(values))
    return f"{np.mean(values):{form}} ± {half:{form.removeprefix('+')}}"


if __name__ == "__main__":
    print_scores(__doc__, scores, table, seeds=SEEDS)
