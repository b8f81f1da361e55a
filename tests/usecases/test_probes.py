"""A probe is an entry of the journal: replayed, rewound, forked, moved and sent again as any other."""

import asyncio

import numpy as np
import pytest

from bots_service.core.codec import encode_state
from bots_service.core.entries import Probe
from bots_service.errors import InvalidJournalError, InvalidTasksError, KeyReusedError
from bots_service.records import IdempotencyKey
from bots_service.runs import ForkFrom
from tests.usecases.world import (
    POOL,
    TASKS,
    World,
    block,
    evidence_bytes,
    exported,
    flaws_of,
    imported,
    never,
    outcome,
    reports,
    states,
    stream,
)

FIRST = {f"t{number}": float(number % 7) for number in range(TASKS)}
SECOND = {f"t{number}": -1.5 * number for number in range(5, 30)}


async def probe(world: World, values: dict[str, float], run: str = "default", key: str | None = None) -> bool:
    return (await world.runs.put_probe(POOL, run, values, IdempotencyKey(key, repr(values)) if key else None))[1]


async def slope(world: World, run: str = "default") -> float | None:
    return (await world.describe(run)).estimates.get("probe_slope")


async def two_probes(world: World) -> None:
    await reports(world, 3)
    await probe(world, FIRST)
    await reports(world, 4, first=3)
    await probe(world, SECOND)
    await reports(world, 3, first=7)


async def test_a_run_with_two_probes_is_a_replay_of_its_journal_wherever_it_is_opened(world: World):
    await two_probes(world)
    state = await world.assert_is_a_replay()
    assert encode_state(await world.beside().state()) == encode_state(state)
    again = await world.reopened()
    assert encode_state(await again.state()) == encode_state(state)
    await again.close()


async def test_a_rewind_takes_probes_back(world: World):
    await two_probes(world)
    whole = await states(world, "default")
    await world.rewind(2)
    assert await slope(world) is None
    await world.rewind(0)
    await probe(world, SECOND)
    await world.assert_is_a_replay()
    assert len(whole) == 13


async def test_a_rewind_between_two_probes_brings_the_first_one_back(world: World):
    await reports(world, 3)
    await probe(world, FIRST)
    await world.report(outcome("t1"))
    before = evidence_bytes(await world.state())
    await probe(world, SECOND)
    await world.report(outcome("t2"))
    await world.rewind(4)
    assert evidence_bytes(await world.state()) == before
    await world.assert_is_a_replay()


async def test_a_fork_and_an_export_keep_the_probes(world: World):
    await two_probes(world)
    await world.runs.put(POOL, "fork", {}, ForkFrom("default"), None)
    await world.report(outcome("t9"), run="fork")
    await world.assert_is_a_replay("fork")
    assert await slope(world, "fork") not in (None, 0.0)
    await imported(world, await exported(world), "moved")
    assert await states(world, "moved") == await states(world, "default")


async def test_a_journal_with_a_probe_is_none_of_bots_nor_of_a_smaller_dataset(world: World):
    await two_probes(world)
    journal = await exported(world)
    with pytest.raises(InvalidJournalError, match="a run with the belief 'tracker'"):
        await imported(world, journal.replace(b'"belief":"tracker"', b'"belief":"bots"', 1), "other")
    await world.use.datasets.append(POOL, stream(block(TASKS, 1)), never)
    await probe(world, {"t1": 0.0, f"t{TASKS}": 1.0})
    assert await states(world, "default")
    await world.import_pool("small")
    header, *lines = (await exported(world)).splitlines()
    digest = (await world.use.store.datasets.get("small")).facts.digest
    there = (await world.use.store.datasets.get(POOL)).facts.digest
    with pytest.raises(InvalidJournalError, match="is none that this dataset's journals can hold"):
        await imported(world, b"\n".join([header.replace(there.encode(), digest.encode()), *lines]), "run", "small")


async def test_a_probe_that_is_sent_again_counts_once(world: World):
    assert not await probe(world, FIRST, key="k")
    await world.report(outcome("t1"))
    assert await probe(world, FIRST, key="k")
    assert (await world.state()).seq == 2
    with pytest.raises(KeyReusedError):
        await probe(world, SECOND, key="k")
    assert await asyncio.gather(*(probe(world, SECOND, key="l") for _ in range(3))) == [False, True, True]
    await world.assert_is_a_replay()


async def test_a_probe_that_can_not_be_is_refused_and_changes_nothing(world: World):
    assert await flaws_of(probe(world, {"t1": 1.0, "gone": 2.0})) == [("values", "gone")]
    with pytest.raises(InvalidTasksError, match="all values are equal"):
        await probe(world, {"t1": 1.0, "t2": 1.0})
    assert (await world.state()).seq == 0


async def test_selections_go_on_with_a_probe_of_tasks_that_another_replica_appended(replicas: tuple[World, World]):
    here, there = replicas
    await there.select(1)
    await here.use.datasets.append(POOL, stream(block(TASKS, 4)), never)
    await probe(here, {**FIRST, f"t{TASKS + 3}": 9.0})
    assert len((await there.select(8)).tasks) == 8
    await probe(there, {f"t{TASKS + 2}": 1.0, "t1": 0.0})
    assert len((await here.select(8)).tasks) == 8
    assert encode_state(await here.state()) == encode_state(await there.state())


@pytest.mark.parametrize("strategy", ["pass", "thompson", "shuffle", "easy_to_hard"])
async def test_every_strategy_selects_with_a_probe(world: World, strategy: str):
    await world.put_run("chosen", strategy=strategy)
    await probe(world, FIRST, "chosen")
    await world.report(outcome("t1"), run="chosen")
    chosen = [task for _ in range(4) for task in (await world.select(10, "chosen")).tasks.tolist()]
    assert sorted(chosen) == list(range(TASKS))


async def test_a_probe_of_a_large_pool_is_folded_as_any_other(world: World):
    rng = np.random.default_rng(1)
    await world.import_pool("large", block(0, 5000))
    values = {f"t{number}": float(value) for number, value in enumerate(rng.normal(size=5000))}
    await world.runs.put_probe("large", "default", values, None)
    await world.report(outcome("t1"), dataset="large")
    (entry,) = await world.use.store.journal.between((await world.row("default", "large")), 0, 1)
    assert isinstance(entry.body, Probe)
    assert len(entry.body.scores) == 5000
    await world.assert_is_a_replay("default", "large")
