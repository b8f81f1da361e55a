"""Measures what the verifier guard sees of a run's first pass, in which every task is new to it.

    python -m benchmarks.first_pass [--seeds 10] [--json]

Two public pools, 32 tasks a step as `pass` selects them, 8 rollouts each, until the first pass is over. Either all
rollouts of one tag are reported as failed from some step on, or no verifier fails: then an alarm is false. The tags of
these are those of `benchmarks.false_alarms`, and ones that tell tasks apart by how hard they are, few or many.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.false_alarms import BELIEFS, REFERENCES, World, outcomes, selected, world_of
from benchmarks.scores import print_scores
from bots_service.core.arrays import contained, frozen
from bots_service.core.entries import Entry, Report
from bots_service.core.evidence import Evidence
from bots_service.core.offset_tags import choose_offset_tags
from bots_service.core.pool import Pool
from bots_service.core.run_settings import settings_from
from bots_service.core.state import advance, fresh_state
from studies.public_pools import PublicPool, collapsing, reasoning_gym, recorded_run, sudden, without_references

SEEDS = 10
OUTAGES = ((recorded_run, "tag 0", (3, 6, 9)), (reasoning_gym, "tag 3", (10, 20, 30)))  # tag, and first broken steps
MODELS = {"as recorded": None, "improves at once": sudden, "falls back at once": collapsing}
HARDNESS = (8, 60)  # tags
NO_TAG = ""  # no verifier fails


@dataclass(frozen=True, slots=True)
class FirstPass:
    """What the guard did in a first pass.

    tags: what tells them apart; model: what it does.
    broken_from: the step from which on the verifier of a tag is broken; None where none is.
    known: groups of that tag before; alarm_after: steps until its alarm, None without one.
    steps: of the pass; alarms, waits: steps in which a false alarm sounded, or groups began to wait without a reason.
    """

    pool: str
    tags: str
    model: str
    belief: str
    references: str
    seed: int
    broken_from: int | None
    known: int
    alarm_after: int | None
    steps: int
    alarms: int
    waits: int


def by_hardness(public: PublicPool, count: int) -> World:
    """Return a pool's world with so many tags, each of tasks that are about equally hard."""
    size = len(public.references)
    blurred = public.success.mean(axis=0) + np.random.default_rng(0).normal(0.0, 0.05, size)
    numbers = blurred.argsort().argsort() * count // size
    tags = {f"tag {tag}": frozen(np.flatnonzero(numbers == tag).astype(np.int32)) for tag in range(count)}
    offset_tags = choose_offset_tags(tags, Pool.of_tasks(public.references).profile_of)
    return World(public.name, Pool.of_tasks(public.references, tags, offset_tags), public.success)


def walked(
    world: World, belief: str, seed: int, broken: str, broken_from: int
) -> tuple[int, int | None, int, int, int]:
    """Return the last five numbers of `FirstPass`. broken: a tag; NO_TAG for none."""
    pool, rng = world.pool, np.random.default_rng(seed)
    settings = {"belief": belief, "strategy": "pass", "seed": seed, "verifier_guard": True}
    state = fresh_state(settings_from(settings), pool)
    known = step = alarms = waits = 0
    while state.walks.done(len(pool))[0] < 1:
        tasks, made_at, walks = selected(world, state, rng)
        shown = outcomes(world.success[min(step, len(world.success) - 1)], tasks, rng)
        of_broken = contained(tasks, (pool.tags[broken],)) if broken else np.zeros(len(tasks), bool)
        if step >= broken_from:
            shown = failed(shown, of_broken)
        else:
            known += int(np.count_nonzero(of_broken))
        before = state.guard
        state, _ = advance(state, Entry(step + 1, 0, pool.profiles, Report(shown, made_at, None, walks)), pool)
        step += 1
        if broken and any(alarm.tag == broken for alarm in state.guard.alarms):
            return known, step - broken_from, step, alarms, waits
        alarms += len(state.guard.alarms) > len(before.alarms)
        waits += len(state.guard.held) > 0 and not len(before.held)
    return known, None, step, alarms, waits


def failed(shown: Evidence, chosen: np.ndarray) -> Evidence:
    """Return the evidence with all rollouts of the chosen groups ([n]) failed."""
    trials = shown.successes + shown.failures
    solved = np.where(chosen, 0.0, shown.successes)
    return Evidence(shown.tasks, solved, trials - solved, shown.effective & ~chosen).frozen()


def passes(*, seeds: int) -> Iterator[FirstPass]:
    """Yield what the guard did in each first pass: outages, then passes in which no verifier fails."""
    for references in REFERENCES:
        for load, broken, begins in OUTAGES:
            world = world_of(_known(load(), references))
            for begin in begins:
                yield from _passes(world, "given", "as recorded", references, seeds, broken, begin)
        for load, _, _ in OUTAGES:
            for model, change in MODELS.items():
                public = _known(load() if change is None else change(load()), references)
                worlds = {"given": world_of(public)}
                worlds |= {f"{count} by how hard": by_hardness(public, count) for count in HARDNESS}
                for tags, world in worlds.items():
                    yield from _passes(world, tags, model, references, seeds)


def _passes(
    world: World, tags: str, model: str, references: str, seeds: int, broken: str = NO_TAG, begin: int | None = None
) -> Iterator[FirstPass]:
    for belief in BELIEFS:
        for seed in range(seeds):
            found = walked(world, belief, seed, broken, len(world.success) if begin is None else begin)
            yield FirstPass(world.name, tags, model, belief, references, seed, begin, *found)


def _known(public: PublicPool, references: str) -> PublicPool:
    return public if references == "two" else without_references(public)


def outages_table(found: list[FirstPass]) -> str:
    """Return a table in Markdown: how soon an outage raised its alarm."""
    lines = [
        "| pool | outage from step | groups of the tag before | passes | with its alarm | steps until then, median |"
    ]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for place in dict.fromkeys((one.pool, one.broken_from) for one in found if one.broken_from is not None):
        some = [one for one in found if (one.pool, one.broken_from) == place]
        delays = [one.alarm_after for one in some if one.alarm_after is not None]
        until = f"{np.median(delays):.0f}" if delays else "none"
        known = np.mean([one.known for one in some])
        lines.append(f"| {place[0]} | {place[1] + 1} | {known:.0f} | {len(some)} | {len(delays)} | {until} |")
    return "\n".join(lines)


def false_table(found: list[FirstPass]) -> str:
    """Return a table in Markdown: how often an alarm was false."""
    lines = ["| tags | the model | passes | steps | with an alarm | steps in which groups began to wait |"]
    lines.append("|---|---|---:|---:|---:|---:|")
    for place in dict.fromkeys((one.tags, one.model) for one in found if one.broken_from is None):
        some = [one for one in found if (one.tags, one.model) == place and one.broken_from is None]
        alarmed, waits = sum(one.alarms > 0 for one in some), sum(one.waits for one in some)
        steps = sum(one.steps for one in some)
        lines.append(f"| {place[0]} | {place[1]} | {len(some)} | {steps:,} | {alarmed} | {waits} |")
    return "\n".join(lines)


def table(found: list[FirstPass]) -> str:
    """Return both tables."""
    return f"{outages_table(found)}\n\n{false_table(found)}"


if __name__ == "__main__":
    print_scores(__doc__, passes, table, seeds=SEEDS)
