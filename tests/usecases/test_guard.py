"""Decisions about held groups: journalled, replayed alike by every process, undone by a rewind, kept by a fork."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import numpy as np
import pytest

from bots_service.core.codec import encode_state
from bots_service.core.entries import GuardDecision
from bots_service.core.guard import Decision
from bots_service.engine.dataset_builder import DatasetHeader
from bots_service.errors import NothingToDecideError
from bots_service.ports.records import IdempotencyKey, TaskBlock
from bots_service.usecases.begin_run import ForkFrom, ReplayOf
from bots_service.usecases.report_outcomes import Outcome
from tests.usecases.backups import assert_same, exported, imported
from tests.usecases.world import POOL, TASKS, World, evidence_bytes, never, outcome, stream


async def steps(world: World, count: int, *successes: float) -> None:
    """Report so many steps of all tasks, with these successes in turn."""
    for step in range(count):
        rows = (outcome(f"t{task}", successes[(task + step) % len(successes)]) for task in range(TASKS))
        await world.report(*rows)


@pytest.fixture
async def outage(world: World) -> World:
    """The run `default` after an outage of its verifier."""
    await world.put_run("default", verifier_guard=True)
    await steps(world, 5, 6, 9)
    await steps(world, 1, 0)
    return world


@pytest.fixture
async def other(folder: Callable[[str], Path]) -> AsyncIterator[World]:
    """Another service without datasets, which stores no state of its own before the test is over."""
    world = World.open(folder("other"))
    yield world
    await world.close()


async def decide(world: World, decision: Decision, tag: str | None = None, key: str | None = None) -> bool:
    """Decide, and return whether the same request had done so before."""
    once = None if key is None else IdempotencyKey(key, decision)
    return (await world.use.decide_held(POOL, "default", GuardDecision(decision, tag), once)).duplicate


async def test_an_outage_is_described_with_its_tags(outage: World):
    found = (await outage.describe()).alarms
    assert [one.tag for one in found] == [None, "even", "odd", "rare"][: len(found)]
    assert found[0].held == TASKS


@pytest.mark.parametrize("decision", ["release", "drop"])
async def test_what_is_decided_is_what_a_replay_of_the_journal_gives(outage: World, decision: Decision):
    await decide(outage, decision, "even")
    assert {one.tag for one in (await outage.describe()).alarms} & {"even"} == set()
    await decide(outage, decision)
    await steps(outage, 2, 6, 9)
    assert len((await outage.state()).guard.held) == 0
    await outage.assert_is_a_replay()
    assert evidence_bytes(await outage.beside().state()) == evidence_bytes(await outage.state())


async def test_nothing_to_decide_is_told_and_a_retry_is_no_second_decision(outage: World):
    with pytest.raises(NothingToDecideError, match="'nobody'"):
        await decide(outage, "drop", "nobody")
    assert not await decide(outage, "drop", key="once")
    assert await decide(outage, "drop", key="once")
    with pytest.raises(NothingToDecideError):
        await decide(outage, "drop")


async def test_two_decisions_at_once_leave_one_history(outage: World):
    found = await asyncio.gather(decide(outage, "drop"), decide(outage, "drop"), return_exceptions=True)
    assert all(one is False or isinstance(one, NothingToDecideError) for one in found)
    await outage.assert_is_a_replay()


async def test_a_rewind_brings_held_groups_back_and_a_fork_keeps_them(outage: World):
    held = evidence_bytes(await outage.state())
    await decide(outage, "drop")
    await steps(outage, 1, 6, 9)
    await outage.use.put_run(POOL, "child", {}, ForkFrom("default"), None)
    await outage.rewind(6)
    assert evidence_bytes(await outage.state()) == held
    await outage.use.put_run(POOL, "other", {}, ForkFrom("default"), None)
    assert len((await outage.state("other")).guard.held) == TASKS
    assert len((await outage.state("child")).guard.held) == 0


async def test_the_metrics_show_alarms(outage: World):
    await outage.observing(lambda: 0.0).once()
    assert outage.shown("verifier_alarms") == float(len((await outage.state()).guard.alarms))


# --- decisions and held groups on another service, by its backup -----------------------------------------------------


async def moved(world: World, other: World, *, stored: bool) -> None:
    """Bring the dataset to another service; where no state is stored, that one must fold all of the journal."""
    if stored:
        await world.use.take_snapshot(POOL, "default", None)
    else:
        world.sql("DELETE FROM snapshots")
    await imported(other, await exported(world))
    assert bool(other.sql("SELECT 1 FROM snapshots")) == stored


async def told(world: World, run: str = "default") -> tuple[list[bytes], int]:
    """Return what the belief says of every task, and how many groups wait."""
    opened, state = await world.opened(run), await world.state(run)
    pool = opened.dataset.pool
    said = state.belief.distributions(pool, np.arange(len(pool), dtype=np.int32))
    return [numbers.tobytes() for numbers in (said.mean, said.effective(8.0), *said.interval())], len(state.guard.held)


@pytest.mark.no_cover
@pytest.mark.parametrize("stored", [True, False])
async def test_decisions_and_held_groups_come_back_from_a_backup_with_every_posterior(
    outage: World, other: World, stored: bool
):
    await decide(outage, "drop", "even")
    await decide(outage, "release", None)
    await steps(outage, 2, 6, 9)
    await steps(outage, 2, 0)
    assert (await told(outage))[1] == 2 * TASKS
    await outage.use.put_run(POOL, "child", {}, ForkFrom("default"), None)
    await moved(outage, other, stored=stored)
    await assert_same(outage, other)
    assert await told(other) == await told(outage)
    assert await told(other, "child") == await told(outage)
    await other.assert_is_a_replay()
    # What waited at the move is decided about on the other side, and enters there as it would have here.
    for world in (outage, other):
        await decide(world, "release", "odd")
        await decide(world, "drop")
        await steps(world, 1, 6, 9)
    assert await told(other) == await told(outage)
    assert (await told(other))[1] == 0
    await other.assert_is_a_replay()


@pytest.mark.parametrize("decision", ["release", "drop"])
async def test_a_journal_folded_again_obeys_its_decisions(outage: World, other: World, decision: Decision):
    await decide(outage, decision)
    await steps(outage, 2, 6, 9)
    await moved(outage, other, stored=False)
    for world in (outage, other):
        await world.use.put_run(POOL, "again", {"verifier_guard": True}, ReplayOf("default"), None)
        assert await told(world, "again") == await told(outage)


# --- generators ------------------------------------------------------------------------------------------------------


async def generated(world: World, count: int, *successes: float) -> None:
    """Report so many steps of three groups of each of eight generators, with these successes in turn."""
    for step in range(count):
        rows = [
            Outcome(f"g{task}", successes[(task + draw + step) % len(successes)], 8, seed=100 * step + draw)
            for task in range(8)
            for draw in range(3)
        ]
        await world.report(*rows)


@pytest.mark.no_cover
@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("decision", ["release", "drop"])
async def test_held_groups_of_generators_come_back_from_a_backup(
    empty: World, other: World, decision: Decision, stored: bool
):
    tags: list[tuple[str, ...]] = [("sums",) if number < 4 else ("words",) for number in range(8)]
    block = TaskBlock([f"g{number}" for number in range(8)], np.empty((8, 0)), tags)
    await empty.use.import_dataset(POOL, DatasetHeader(generators=True), stream(block), never)
    await empty.put_run("default", verifier_guard=True)
    await generated(empty, 5, 3, 5)
    await generated(empty, 2, 0)
    assert (await empty.state()).guard.alarms
    assert (await told(empty))[1] == 2 * 24
    await moved(empty, other, stored=stored)
    await assert_same(empty, other)
    for world in (empty, other):
        await decide(world, decision)
        await generated(world, 1, 3, 5)
        await world.assert_is_a_replay()
    assert await told(other) == await told(empty)
    assert encode_state(await other.state()) == encode_state(await empty.state())
    await empty.use.put_run(POOL, "again", {"verifier_guard": True}, ReplayOf("default"), None)
    assert await told(empty, "again") == await told(empty)
