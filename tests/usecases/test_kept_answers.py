"""A retry is told what the write came to when it happened, wherever its first sender was cut off."""

from collections.abc import Awaitable, Callable

import pytest

from bots_service.errors import StorageUnavailableError
from bots_service.records import IdempotencyKey, RunPut
from bots_service.runs import ChangeRunResult, ForkFrom, PutRunResult
from tests.usecases.ports import Outage, Port
from tests.usecases.world import POOL, World, outcome

ONCE = IdempotencyKey("key", "fingerprint", "POST /it")
CHANGES: dict[str, Callable[[World], Awaitable[ChangeRunResult]]] = {
    "settings": lambda world: world.runs.change_settings(POOL, "default", {"target": 0.25}, ONCE),
    "rewind": lambda world: world.runs.rewind(POOL, "default", 1, ONCE),
}


class ReplyLost(Port):
    """Commits, and does not say so."""

    async def put(self, *arguments, **named):
        await self.real.put(*arguments, **named)
        raise StorageUnavailableError("the database did not answer")


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_a_change_whose_answer_was_not_kept_is_told_by_its_retry_from_then_on(world: World, change):
    for _ in range(2):
        await world.report(outcome("t1"))
    with pytest.raises(StorageUnavailableError):
        await change(world.beside(answers=Outage("keep")))
    changed = await world.beside().describe()
    assert changed.seq == 3
    retried = await change(world.beside())
    assert retried == (changed, True)
    kept = await world.use.store.answers.find(ONCE.scope, ONCE.key, ChangeRunResult)
    await world.report(outcome("t1"))
    assert kept is not None
    assert kept.result.run == changed
    assert await change(world.beside()) == retried
    assert (await world.state()).seq == 4


@pytest.mark.parametrize("fork", [None, ForkFrom("default", 1)])
async def test_of_a_run_whose_maker_was_not_told_is_kept_how_it_was_made(world: World, fork: ForkFrom | None):
    await world.report(outcome("t1"))
    with pytest.raises(StorageUnavailableError):
        await world.beside(runs=ReplyLost).runs.put(POOL, "run", {"seed": 3}, fork, ONCE)
    made = await world.beside().describe("run")
    await world.report(outcome("t2"), run="run")
    await world.runs.change_settings(POOL, "run", {"seed": 4}, None)
    await world.runs.delete(POOL, "run", None)
    kept = await world.use.store.answers.find(ONCE.scope, ONCE.key, PutRunResult)
    assert kept is not None
    assert kept.result == (made, RunPut.CREATED)
