"""Evidence from old logs through the service: replays, backups, tasks that a process didn't know."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bots_service.core.belief.kinds import KINDS
from bots_service.core.codec import encode_state
from bots_service.ports.records import IdempotencyKey
from bots_service.usecases.import_evidence import EvidenceRequest, PastOutcome
from tests.usecases.backups import assert_same, exported, imported
from tests.usecases.world import POOL, World, block, never, outcome, stream


def aged(task: str, age: float) -> PastOutcome:
    return PastOutcome(task, successes=12.0, trials=16.0, age=age)


async def test_what_old_logs_told_is_replayed_bit_for_bit_and_goes_into_backups(
    world: World, folder: Callable[[str], Path]
):
    for run in KINDS:
        await world.put_run(run, belief=run)
        await world.report(outcome("t1"), outcome("t2"), run=run)
        request = EvidenceRequest([aged("t3", 2.0), aged("t4", 700.5), aged("t3", 0.0)])
        result = await world.use.import_evidence(POOL, run, request, None)
        assert (result.seq, result.step, result.outcomes) == (2, 1, 3)
        await world.report(outcome("t3"), run=run)
        await world.assert_is_a_replay(run)
    other = World.open(folder("other"))
    await imported(other, await exported(world))
    await assert_same(world, other)
    await other.close()


@pytest.mark.parametrize("belief", sorted(KINDS))
async def test_another_process_learns_of_evidence_about_tasks_that_it_did_not_know(
    world: World, watched: World, belief: str
):
    await world.put_run("default", belief=belief)
    await watched.state()
    grown = block(40, 2)
    grown.references[:] = [[0.01, 0.99], [0.02, 0.5]]
    await world.use.append_tasks(POOL, stream(grown), never)
    request, key = EvidenceRequest([aged("t41", 1.0)]), IdempotencyKey("once", "same")
    await watched.use.import_evidence(POOL, "default", request, key)
    assert (await world.use.import_evidence(POOL, "default", request, key)).duplicate
    await world.assert_is_a_replay()
    assert encode_state(await world.state()) == encode_state(await watched.state())
