"""Counts of runs by tag, once however many processes fold, and how often a request was answered from memory."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from bots_service.core.receipt import Receipt
from bots_service.engine import catch_up as catch_up_module
from bots_service.engine import replay as replay_module
from bots_service.engine.dataset_builder import DatasetHeader
from tests.usecases.replicas import Replica
from tests.usecases.world import POOL, TASKS, World, block, never, outcome, stream, until

TAGS = dict(zip(block().ids, block().tags, strict=True))


def reported(*worlds: World) -> Counter[str]:
    """Return how many reported tasks were counted by tag, in all processes together."""
    found: Counter[str] = Counter()
    for world in worlds:
        series = world.parts.metrics.runs.series(POOL, "default")
        if series is not None:
            found.update(dict(zip(series.counts.tags, series.counts.tag_reported_tasks.tolist(), strict=True)))
    return found


def expected(*tasks: str) -> Counter[str]:
    return Counter(tag for task in tasks for tag in TAGS[task])


async def test_tasks_count_by_tag_when_their_step_closes(world: World):
    await world.report(outcome("t0"), outcome("t1"), close_step=False)
    assert reported(world) == {}
    await world.report(outcome("t2"), key="once")
    await world.report(outcome("t2"), key="once")
    assert reported(world) == expected("t0", "t1", "t2") == {"even": 2, "odd": 1, "rare": 1}


async def test_what_replicas_report_at_once_counts_once(replicas: tuple[Replica, Replica]):
    await replicas[0].use.change_settings(POOL, "default", {"tasks_per_step": 4}, None)
    pairs = [(f"t{number}", f"t{number + 1}") for number in range(0, TASKS, 2)]
    await asyncio.gather(
        *(replicas[place % 2].report(*map(outcome, pair)) for place, pair in enumerate(pairs)),
    )
    assert (await replicas[0].state()).totals.reported == TASKS
    assert reported(*replicas) == expected(*TAGS)


async def test_a_step_that_another_replica_folds_first_counts_by_tag_where_it_was_reported(
    replicas: tuple[Replica, Replica],
):
    here, there = replicas
    await here.select(1)  # so it knows the state from before
    await there.report(outcome("t0"))
    row, catch_up = await here.row(), here.parts.catch_up

    async def is_committed() -> bool:
        return (await catch_up.journal.head(row)).seq == 2

    live = catch_up.live(row.id)
    async with live.folding:
        reporting = asyncio.create_task(here.report(outcome("t1")))
        await until(is_committed)
        await there.follow()
        await there.parts.live(row.id).settled()
        assert await catch_up.journal.receipt(row, 2) is not None  # what it will be acknowledged with comes from SQL
    await reporting
    assert (reported(there), reported(here)) == (expected("t0"), expected("t1"))


async def untold(world: World, *tasks: str) -> list[Receipt]:
    """Report each task in a step of its own; return the receipts as SQL has them, and forget those in memory."""
    receipts = [replace(await world.report(outcome(task)), tags=None) for task in tasks]
    world.parts.live((await world.row()).id).folded.clear()
    return receipts


async def test_one_fold_tells_all_who_wait_by_tag(world: World, monkeypatch: pytest.MonkeyPatch):
    before, folds, whole = await world.state(), 0, replay_module.fold

    def counted(*arguments):
        nonlocal folds
        folds += 1
        return whole(*arguments)

    receipts, run = await untold(world, "t0", "t1", "t2"), await world.opened()
    catch_up = world.parts.catch_up
    catch_up.live(run.row.id).wanted = receipts[-1].seq
    monkeypatch.setattr(replay_module, "fold", counted)
    told = await asyncio.gather(*(catch_up.by_tag(run, receipt, before) for receipt in receipts))
    assert all(receipt.tags is not None for receipt in told)
    assert told == receipts  # but for their tags, which don't count
    assert folds == 1


async def test_nobody_waits_for_a_long_fold_to_be_told_by_tag(world: World, monkeypatch: pytest.MonkeyPatch):
    before = await world.state()
    receipts, run = await untold(world, "t0", "t1", "t2"), await world.opened()
    catch_up = world.parts.catch_up
    monkeypatch.setattr(catch_up_module, "MAX_REFOLDED", 2)
    assert await catch_up.by_tag(run, receipts[2], before) is receipts[2]
    assert await catch_up.by_tag(run, receipts[0], await world.state()) is receipts[0]  # its state is later already
    assert (await catch_up.by_tag(run, receipts[1], before)).tags is not None


async def test_a_report_does_not_fail_where_its_step_can_not_be_told_by_tag(world: World):
    before = await world.state()
    receipt = replace(await world.report(outcome("t0")), tags=None)
    world.sql("DELETE FROM journal")
    cold = world.beside()
    run = await cold.opened()
    with capture_logs() as logs:
        assert await cold.parts.catch_up.by_tag(run, receipt, before) is receipt
    assert [line["event"] for line in logs] == ["step_without_tags"]


async def test_a_dataset_without_tags_counts_nothing_by_tag(empty: World):
    plain = replace(block(count=3), tags=[()] * 3)
    await empty.use.import_dataset(POOL, DatasetHeader(("weak", "strong")), stream(plain), never)
    receipt = await empty.report(outcome("t0"))
    assert receipt.closed
    assert receipt.tags is None
    assert reported(empty) == {}


async def test_a_dataset_is_read_once_and_found_open_ever_after(world: World):
    cold = world.beside()
    assert cold.looks("datasets") == (0, 0)
    await cold.opened()
    assert cold.looks("datasets") == (0, 1)
    for _ in range(3):
        await cold.opened()
    assert cold.looks("datasets") == (3, 1)


async def test_selections_and_folds_count_whether_the_state_was_there(world: World):
    await world.report(outcome("t0"))
    cold = world.beside()
    await cold.select(1)
    assert cold.looks("states") == (0, 1)
    await cold.select(1)
    await cold.report(outcome("t1"))
    assert cold.looks("states") == (2, 1)


async def test_a_state_that_only_another_replica_holds_is_no_hit(replicas: tuple[Replica, Replica]):
    here, there = replicas
    await here.report(outcome("t0"))
    for turn in range(2):
        await there.select(1)
        assert there.looks("states") == (turn, 1)
