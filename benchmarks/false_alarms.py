"""Counts how often the verifier guard sounds a false alarm: python -m benchmarks.false_alarms [--seeds 3] [--json].

Runs on two public pools whose verifier never fails, 32 tasks a step, 8 rollouts each, with `verifier_guard`. The
courses are what trainers do, and the worst that they may do: to turn at once to tasks that the model never solves.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.pools import NO_TASKS
from benchmarks.scores import print_scores
from bots_service.core.arrays import Floats, Tasks, frozen
from bots_service.core.draw.selection import NamedTasks, SelectRequest, select_tasks
from bots_service.core.entries import Entry, Report
from bots_service.core.evidence import Evidence
from bots_service.core.offset_tags import choose_offset_tags
from bots_service.core.pool import Pool
from bots_service.core.run_settings import settings_from
from bots_service.core.state import RunState, advance, fresh_state
from bots_service.core.walks import Walk
from bots_service.usecases.select_tasks import context_of
from studies.public_pools import PublicPool, collapsing, reasoning_gym, recorded_run, sudden, without_references

COUNT = 32  # tasks a step
ROLLOUTS = 8  # of each of them
STEPS = 200
SEEDS = 3
BELIEFS = ("tracker", "bots")
REFERENCES = ("none", "two")
PARTS = 3  # tags of the recorded run, whose problems have none
NEVER_SOLVED = "never solved"  # the tag of tasks whose verifier is right to say so


@dataclass(frozen=True, slots=True)
class World:
    """A pool of tasks with tags, and [steps, N] how likely the model solves each."""

    name: str
    pool: Pool
    success: Floats

    @property
    def hopeless(self) -> Tasks:
        """The tasks that the model never solves."""
        return self.pool.tags[NEVER_SOLVED]

    @property
    def others(self) -> Tasks:
        """The tasks that it may solve."""
        return np.setdiff1d(np.arange(len(self.pool), dtype=np.int32), self.hopeless)


def world_of(public: PublicPool) -> World:
    """Return the world of a public pool, with a quarter as many tasks again that the model never solves.

    References say of those what they say of others. The problems of the recorded run get tags at random.
    """
    rng, tasks = np.random.default_rng(0), len(public.references)
    lost = tasks // 4
    references = np.concatenate([public.references, public.references[rng.choice(tasks, lost)]])
    success = np.concatenate([public.success, np.zeros((len(public.success), lost))], axis=1)
    numbers = rng.integers(PARTS, size=tasks) if public.tags is None else public.tags
    tags = {
        f"tag {tag}": frozen(np.flatnonzero(numbers == tag).astype(np.int32)) for tag in np.unique(numbers).tolist()
    }
    tags[NEVER_SOLVED] = frozen(np.arange(tasks, tasks + lost, dtype=np.int32))
    offset_tags = choose_offset_tags(tags, Pool.of_tasks(references).profile_of)
    return World(public.name, Pool.of_tasks(references, tags, offset_tags), success)


Chosen = tuple[Tasks, int | None, tuple[Walk, ...]]  # with the step of their selection, and how far it walked
Course = Callable[[World, RunState, int, np.random.Generator], Chosen]


def selected(world: World, state: RunState, rng: np.random.Generator, tags: tuple[str, ...] = ()) -> Chosen:
    """Return what the run's strategy selects, of tasks with any of these tags."""
    request, context = SelectRequest("pool", COUNT, tags=tags), context_of(state, rng)
    chosen = select_tasks(state.belief, world.pool, request, context, named=NamedTasks(), leased=NO_TASKS)
    return np.sort(chosen.tasks), state.step, chosen.walks


def _of_strategy(world: World, state: RunState, step: int, rng: np.random.Generator) -> Chosen:  # noqa: ARG001
    return selected(world, state, rng)


def _uniform(world: World, state: RunState, step: int, rng: np.random.Generator) -> Chosen:  # noqa: ARG001
    return np.sort(rng.choice(len(world.pool), COUNT, replace=False)).astype(np.int32), None, ()


def _turning(world: World, state: RunState, step: int, rng: np.random.Generator) -> Chosen:  # noqa: ARG001
    tasks = world.others if step < STEPS // 2 else world.hopeless
    return np.sort(rng.choice(tasks, COUNT, replace=False)), None, ()


def _filtering(world: World, state: RunState, step: int, rng: np.random.Generator) -> Chosen:
    others = tuple(sorted(world.pool.tags.keys() - {NEVER_SOLVED}))
    return selected(world, state, rng, others if step < STEPS // 2 else (NEVER_SOLVED,))


def _in_order(order: Tasks, step: int) -> Chosen:
    begin = (len(order) - COUNT) * step // (STEPS - 1)
    return np.sort(order[begin : begin + COUNT]).astype(np.int32), None, ()


def _easy_first(world: World, state: RunState, step: int, rng: np.random.Generator) -> Chosen:  # noqa: ARG001
    return _in_order(np.argsort(-world.success.mean(axis=0), kind="stable").astype(np.int32), step)


def _hopeless_last(world: World, state: RunState, step: int, rng: np.random.Generator) -> Chosen:  # noqa: ARG001
    return _in_order(np.concatenate([np.random.default_rng(0).permutation(world.others), world.hopeless]), step)


def _as_it_is(pool: PublicPool) -> PublicPool:
    return pool


@dataclass(frozen=True, slots=True)
class Case:
    """A course of a run: who chooses tasks, under which settings, and what the model does."""

    choose: Course
    settings: dict[str, Any]
    model: Callable[[PublicPool], PublicPool] = _as_it_is


CASES = {
    "`pass`": Case(_of_strategy, {"strategy": "pass"}),
    "`thompson`": Case(_of_strategy, {"strategy": "thompson"}),
    "from easy to hard": Case(_of_strategy, {"strategy": "easy_to_hard"}),
    "uniform": Case(_uniform, {}),
    "uniform, the model improves at once": Case(_uniform, {}, sudden),
    "uniform, the model falls back at once": Case(_uniform, {}, collapsing),
    "in one order, the easiest first": Case(_easy_first, {}),
    "in one order, the hopeless last": Case(_hopeless_last, {}),
    "a trainer turns to hopeless tasks": Case(_turning, {}),
    "a filter turns to hopeless tasks": Case(_filtering, {"strategy": "pass"}),
}


@dataclass(frozen=True, slots=True)
class AlarmCount:
    """What the guard did: steps that sounded an alarm, and steps in which groups began to wait without one."""

    course: str
    pool: str
    belief: str
    references: str
    seed: int
    steps: int
    alarms: int
    waits: int


def outcomes(chance: Floats, tasks: Tasks, rng: np.random.Generator) -> Evidence:
    """Return what rollouts of these tasks show. chance: [N] of success."""
    solved = rng.binomial(ROLLOUTS, chance[tasks]).astype(np.float64)
    return Evidence(tasks, solved, ROLLOUTS - solved, (solved > 0) & (solved < ROLLOUTS)).frozen()


def counted(world: World, case: Case, belief: str, seed: int, steps: int) -> tuple[int, int]:
    """Return in how many steps an alarm sounded, and in how many more groups began to wait."""
    settings = settings_from({"belief": belief, "verifier_guard": True, **case.settings})
    rng, state, alarms, waits = np.random.default_rng(seed), fresh_state(settings, world.pool), 0, 0
    for step in range(steps):
        tasks, made_at, walks = case.choose(world, state, step * STEPS // steps, rng)
        chance = world.success[step * len(world.success) // steps]
        report = Report(outcomes(chance, tasks, rng), made_at, None, walks)
        before = state.guard
        state, _ = advance(state, Entry(step + 1, 0, world.pool.profiles, report), world.pool)
        alarms += len(state.guard.alarms) > len(before.alarms)
        waits += len(state.guard.held) > 0 and not len(before.held)
    return alarms, waits


def counts(*, seeds: int, steps: int = STEPS) -> Iterator[AlarmCount]:
    """Yield what the guard did in each course, pool, belief, number of references and seed."""
    for name, case in CASES.items():
        for public in (recorded_run(), reasoning_gym()):
            for references in REFERENCES:
                shown = case.model(public if references == "two" else without_references(public))
                world = world_of(shown)
                for belief in BELIEFS:
                    for seed in range(seeds):
                        found = counted(world, case, belief, seed, steps)
                        yield AlarmCount(name, public.name, belief, references, seed, steps, *found)


def table(found: list[AlarmCount]) -> str:
    """Return a table in Markdown, with a line for each course."""
    lines = ["| course | runs | steps | runs with an alarm | steps in which groups began to wait |"]
    lines.append("|---|---:|---:|---:|---:|")
    for course in CASES:
        some = [one for one in found if one.course == course]
        alarmed, waits = sum(one.alarms > 0 for one in some), sum(one.waits for one in some)
        lines.append(f"| {course} | {len(some)} | {sum(one.steps for one in some):,} | {alarmed} | {waits:,} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print_scores(__doc__, counts, table, seeds=SEEDS)
