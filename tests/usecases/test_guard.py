"""Decisions about held groups: journalled, replayed alike by every process, undone by a rewind, kept by a fork."""

import asyncio

import pytest

from bots_service.core.entries import GuardDecision
from bots_service.core.guard import Decision
from bots_service.errors import NothingToDecideError
from bots_service.ports.records import IdempotencyKey
from bots_service.usecases.begin_run import ForkFrom
from tests.usecases.world import POOL, TASKS, World, evidence_bytes, outcome


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
