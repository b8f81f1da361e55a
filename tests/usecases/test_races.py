"""Another replica acts between two looks of one call: the call is refused, or its answer is of one moment."""

import asyncio
from typing import Any

import pytest

from bots_service.core.arrays import Tasks
from bots_service.core.entries import Entry, Report
from bots_service.core.evidence import NO_EVIDENCE
from bots_service.core.receipt import Receipt
from bots_service.core.state import RunState
from bots_service.datasets import OpenRun
from bots_service.engine import live_runs as live_module
from bots_service.engine.catch_up import CatchUp
from bots_service.errors import UnknownStepError
from bots_service.outcomes import ReportRequest
from bots_service.records import LeaseResult, NewEntry, PublishedState, PublishResult, RunRow
from bots_service.usecases import select_tasks as select_module
from tests.servers import RedisServer
from tests.usecases.world import POOL, World, outcome


async def test_a_rewind_to_a_step_that_is_abandoned_meanwhile_is_refused(
    replicas: tuple[World, World], monkeypatch: pytest.MonkeyPatch
):
    here, there = replicas
    for task in range(3):
        await here.report(outcome(f"t{task}"))
    closing = CatchUp.closing

    async def overtaken(self: CatchUp, run: OpenRun, step: int) -> int:
        seq = await closing(self, run, step)
        if self is here.parts.catch_up:
            await there.rewind(1)
        return seq

    monkeypatch.setattr(CatchUp, "closing", overtaken)
    with pytest.raises(UnknownStepError):
        await here.rewind(2)
    assert ((await here.state()).step, (await here.state()).epoch) == (1, 1)
    await here.assert_is_a_replay()


async def test_a_report_that_others_can_not_see_says_so_whatever_other_requests_find_meanwhile(
    replicas: tuple[World, World], monkeypatch: pytest.MonkeyPatch
):
    here, _ = replicas
    await here.report(outcome("t1"))
    states, leases = here.parts.states, here.use.live
    publish, release = states.publish, leases.release

    async def cut_off(run: RunRow, state: RunState, token: str) -> PublishResult:
        monkeypatch.setattr(states, "publish", publish)
        await publish(run, state, token)
        return PublishResult.LOCAL

    async def while_others_look(run: RunRow, tasks: Tasks) -> None:
        assert not (await here.describe()).degraded
        await release(run, tasks)

    monkeypatch.setattr(states, "publish", cut_off)
    monkeypatch.setattr(leases, "release", while_others_look)
    news = ReportRequest(POOL, [outcome("t2")])
    assert (await here.runs.report(news, None)).degraded


async def test_reports_are_acknowledged_although_the_shared_store_is_wiped_before_every_publication(
    replicas: tuple[World, World], redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
):
    here, there = replicas
    await here.report(outcome("t0"))
    await there.select(1)
    publish, tries = here.parts.states.publish, list[int]()

    async def wiped_before(run: RunRow, state: RunState, token: str) -> PublishResult:
        tries.append(state.seq)
        with redis_server.client() as client:
            client.flushall()
        return await publish(run, state, token)

    journal, read = here.use.store.journal, list[int]()
    after = journal.after

    async def watched(*arguments: Any, **options: Any) -> list[Entry]:
        entries = await after(*arguments, **options)
        read.extend(entry.seq for entry in entries)
        return entries

    with monkeypatch.context() as wiping:
        wiping.setattr(here.parts.states, "publish", wiped_before)
        calls = (here.runs.report(ReportRequest(POOL, [outcome(f"t{task}")]), None) for task in range(1, 9))
        async with asyncio.timeout(30):
            reported = await asyncio.gather(*calls)
            wiping.setattr(journal, "after", watched)
            for task in range(9, 12):
                assert (await here.report(outcome(f"t{task}"))).seq == task + 1
    assert read == [10, 11, 12]  # each entry once, although no state was published
    assert sorted(one.receipt.seq for one in reported) == list(range(2, 10))
    assert not any(one.degraded for one in reported)
    assert len([seq for seq in tries if seq < 10]) <= 4  # all eight by one fold, or by two
    assert (await there.select(1)).seq == 12
    await here.assert_is_a_replay()


async def test_a_selection_is_made_alone_where_the_shared_store_is_wiped_before_every_lease(
    replicas: tuple[World, World], redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
):
    here, _ = replicas
    receipt = await here.report(outcome("t0"))
    take = here.use.live.acquire

    async def wiped_before(*arguments: Any, **options: Any) -> LeaseResult:
        with redis_server.client() as client:
            client.flushall()
        return await take(*arguments, **options)

    monkeypatch.setattr(select_module, "PATIENCE_S", 0.1)
    with monkeypatch.context() as wiping:
        wiping.setattr(here.use.live, "acquire", wiped_before)
        async with asyncio.timeout(30):
            made = await asyncio.gather(*(here.select(4) for _ in range(3)))
    assert [(selection.seq, selection.degraded) for selection in made] == [(receipt.seq, True)] * 3
    assert len({task for selection in made for task in selection.tasks.tolist()}) == 12


async def test_a_fold_goes_on_with_what_is_wanted_where_many_other_runs_are_at_work_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    await world.state()
    run, catch_up = await world.opened(), world.parts.catch_up
    monkeypatch.setattr(live_module, "REMEMBERED_RUNS", 1)
    publish, newest = catch_up.states.publish, catch_up.states.newest

    async def outdated(run: RunRow, state: RunState, token: str) -> PublishResult:
        monkeypatch.setattr(catch_up.states, "publish", publish)
        return PublishResult.OUTDATED

    async def while_others_work(run: RunRow) -> PublishedState:
        await catch_up.live(run.id).settled()
        catch_up.live(run.id + 1), catch_up.live(run.id + 2)
        return await newest(run)

    monkeypatch.setattr(catch_up.states, "publish", outdated)
    monkeypatch.setattr(catch_up.states, "newest", while_others_work)
    draft = NewEntry(Report(NO_EVIDENCE, None, close=True), run.dataset.pool.profiles)
    appended = await catch_up.journal.append(run.row, draft)
    assert (await catch_up.through(run, appended.entry.seq)).state.seq == appended.entry.seq


async def test_a_history_has_no_hole_while_another_replica_keeps_what_it_folded(
    replicas: tuple[World, World], monkeypatch: pytest.MonkeyPatch
):
    here, there = replicas
    for task in range(2):
        await here.report(outcome(f"t{task}"))
    journal = there.use.store.journal
    keep, mend = journal.keep_receipts, CatchUp.repair_receipts

    async def slow_with_the_third(run: RunRow, receipts: list[Receipt]) -> None:
        await keep(run, [receipt for receipt in receipts if receipt.seq != 3])

    async def then_others_report(self: CatchUp, run: OpenRun) -> RunState:
        state = await mend(self, run)
        for task in range(2, 4):
            await there.report(outcome(f"t{task}"))
        await there.use.live(run.row.id).settled()
        return state

    monkeypatch.setattr(journal, "keep_receipts", slow_with_the_third)
    with monkeypatch.context() as patched:
        patched.setattr(CatchUp, "repair_receipts", then_others_report)
        steps = await here.use.insight.steps(POOL, "default", 0, 10)
    assert [step.receipt.step for step in steps] == [1, 2]
    assert [step.receipt.step for step in await here.use.insight.steps(POOL, "default", 0, 10)] == [1, 2, 3, 4]
