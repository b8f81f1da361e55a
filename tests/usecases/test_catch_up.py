"""Wherever it starts from, catching up comes to the replay of the journal; each caller gets its own receipt."""

import asyncio
import random

import pytest

from bots_service import replay as module
from bots_service.core.codec import encode_state
from bots_service.core.entries import Report
from bots_service.core.evidence import NO_EVIDENCE
from bots_service.core.receipt import Receipt
from bots_service.engine import live_runs as live_module
from bots_service.errors import DamagedStateError, UnknownRunError
from bots_service.records import NewEntry
from bots_service.storage.memory import MemoryStates
from tests.core.pools import bots_belief
from tests.usecases.ports import Outage, Port
from tests.usecases.world import POOL, World, block, never, outcome, stream, until


async def some_reports(world: World, count: int, run: str = "default") -> list[Receipt]:
    return [await world.report(outcome(f"t{turn % 40}", turn % 17), run=run) for turn in range(count)]


def flip(world: World, seqs: list[int]) -> None:
    """Damage stored states: one byte in the middle of each."""
    for seq in seqs:
        [(blob,)] = world.sql("SELECT blob FROM snapshots WHERE seq = ?", seq)
        middle = len(blob) // 2
        damaged = blob[:middle] + bytes([blob[middle] ^ 0x10]) + blob[middle + 1 :]
        world.sql("UPDATE snapshots SET blob = ? WHERE seq = ?", damaged, seq)


def stored(world: World) -> list[int]:
    return [seq for (seq,) in world.sql("SELECT seq FROM snapshots ORDER BY seq")]


async def test_a_cold_start_folds_the_journal_from_nothing(world: World):
    receipts = await some_reports(world, 12)
    again = await world.reopened(snapshot_every=1000)
    again.sql("DELETE FROM snapshots")
    cold = World.beside(again)
    assert (await cold.state()).seq == 12
    assert (await cold.assert_is_a_replay()).step == receipts[-1].step
    await again.close()


@pytest.mark.no_cover
@pytest.mark.parametrize("damaged", [[], [15], [15, 10], [5, 10, 15]], ids=str)
async def test_a_cold_start_falls_back_to_an_older_state_where_newer_ones_are_damaged(
    world: World, damaged: list[int], capsys: pytest.CaptureFixture[str]
):
    await some_reports(world, 17)
    assert stored(world) == [5, 10, 15]
    flip(world, damaged)
    reads: list[int] = []

    class Watched(Port):
        async def after(self, run, seq, up_to=None, limit=1000):
            reads.append(seq)
            return await self.real.after(run, seq, up_to, limit)

    again = world.beside(journal=Watched)
    await again.state()
    assert reads == [max({0, 5, 10, 15} - set(damaged))]
    assert capsys.readouterr().out.count("snapshot_damaged") == len(damaged)
    await again.assert_is_a_replay()


async def test_receipts_that_sql_lost_are_made_again(world: World):
    await some_reports(world, 8)
    await world.rewind(5)
    await some_reports(world, 8)
    before = await world.use.insight.steps(POOL, "default", 0, 100)
    for seqs in ("seq = 3", "seq BETWEEN 7 AND 11", "seq > 12", "1 = 1"):
        world.sql(f"DELETE FROM receipts WHERE {seqs}")  # noqa: S608 - our own conditions
        for reader in (world, world.beside()):
            assert await reader.use.insight.steps(POOL, "default", 0, 100) == before
        assert len(world.sql("SELECT seq FROM receipts")) == 17
    world.sql("DELETE FROM receipts")
    assert (await world.rewind(2)).step == 2  # finding the step needs them too


async def test_a_journal_tells_no_step_where_sql_lost_it_until_a_history_is_read(world: World):
    await some_reports(world, 3)
    await world.rewind(1)

    async def steps(reader: World) -> list[tuple[int | None, bool | None]]:
        listed = await reader.use.insight.entries(POOL, "default", None, 100)
        return [(logged.step, logged.closed) for logged in listed]

    whole = [(1, False), (3, True), (2, True), (1, True)]
    assert await steps(world) == whole
    for reader in (world, world.beside()):
        world.sql("DELETE FROM receipts WHERE seq > 1")
        assert await steps(reader) == [(None, None)] * 3 + whole[3:]
        await reader.use.insight.steps(POOL, "default", 0, 100)
        assert await steps(reader) == whole


async def test_a_journal_tells_the_step_of_what_nobody_folded_yet(world: World):
    await some_reports(world, 2)
    opened = await world.opened()
    await world.use.store.journal.append(opened.row, NewEntry(Report(NO_EVIDENCE, None, True), 0))
    for reader in (world, world.beside()):
        assert [one.step for one in await reader.use.insight.entries(POOL, "default", None, 100)] == [3, 2, 1]


async def test_a_retry_gets_its_first_receipt_even_where_sql_lost_it(world: World):
    first = [await world.report(outcome("t1", 3), key=f"key-{turn}") for turn in range(7)]
    again = await world.reopened()
    again.sql("DELETE FROM receipts")
    assert [await again.report(outcome("t1", 3), key=f"key-{turn}") for turn in range(7)] == first
    assert (await again.state()).seq == 7
    await again.close()


async def test_the_receipts_of_long_ago_come_from_sql(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live_module, "REMEMBERED_RECEIPTS", 2)
    first = [await world.report(outcome("t1", 3), key=f"key-{turn}") for turn in range(5)]
    assert len(world.use.live((await world.row()).id).folded) == 2
    assert await world.report(outcome("t1", 3), key="key-0") == first[0]


async def test_50_reports_at_once_are_folded_once_each(world: World):
    made = [world.report(outcome(f"t{turn % 40}", turn % 17), key=str(turn)) for turn in range(50)]
    receipts = await asyncio.gather(*made)
    _, replayed = await world.replay()
    assert sorted(receipt.seq for receipt in receipts) == list(range(1, 51))
    assert all(receipt == replayed[receipt.seq - 1] for receipt in receipts)
    assert (await world.assert_is_a_replay()).totals.rollouts == 50 * 16


async def test_64_callers_on_20_runs_each_get_their_own_receipt(world: World):
    told: dict[str, list[Receipt]] = {f"run-{number}": [] for number in range(20)}
    for number, run in enumerate(told):
        await world.put_run(run, belief="bots", forgetting=number / 20)

    async def call(caller: int) -> None:
        for turn in range(6):
            run = f"run-{(caller * 7 + turn) % 20}"
            selection = await world.select(2, run)
            ids = (await world.opened(run)).dataset.ids
            receipt = await world.report(
                *(outcome(ids[task], caller % 17) for task in selection.tasks), run=run, selection_id=selection.id
            )
            told[run].append(receipt)

    await asyncio.gather(*map(call, range(64)))
    for run, receipts in told.items():
        _, replayed = await world.replay(run)
        assert sorted(receipts, key=lambda receipt: receipt.seq) == replayed
        await world.assert_is_a_replay(run)


async def test_each_caller_gets_a_state_with_its_own_entry_when_others_ask_after_it(world: World):
    await some_reports(world, 3)
    run, catch_up = await world.opened(), world.beside().parts.catch_up
    assert (await catch_up.newest(run)).state.seq == 3
    await some_reports(world, 3)
    async with catch_up.live(run.row.id).folding:
        waiting = [asyncio.create_task(catch_up.through(run, seq)) for seq in (4, 6, 5)]
        await asyncio.sleep(0)
    assert [known.state.seq for known in await asyncio.gather(*waiting)] == [6, 6, 6]


async def test_nobody_sees_less_than_was_acknowledged_while_a_cold_start_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    await some_reports(world, 12)
    world.sql("DELETE FROM snapshots")
    monkeypatch.setattr(module, "PAGE", 1)
    run, catch_up = await world.opened(), world.beside().parts.catch_up
    starting = asyncio.create_task(catch_up.through(run, 5))
    seen = []
    while not starting.done():
        await asyncio.sleep(0)
        if (await catch_up.states.newest(run.row)).state is not None:
            seen.append((await catch_up.newest(run)).state.seq)
    assert (await starting).state.seq == 12
    assert set(seen) <= {12}


@pytest.mark.no_cover
@pytest.mark.parametrize("page", [1, 3, 7])
async def test_the_size_of_a_page_makes_no_difference(world: World, page: int, monkeypatch: pytest.MonkeyPatch):
    await some_reports(world, 9)
    await world.rewind(4)
    await some_reports(world, 5)
    await world.rewind(6)
    monkeypatch.setattr(module, "PAGE", page)
    monkeypatch.setattr(module, "SMALL_STATE_NUMBERS", 0)  # every page in a thread
    world.sql("DELETE FROM snapshots")
    world.sql("DELETE FROM receipts")
    cold = world.beside()
    states, receipts = await world.replay()
    assert encode_state(await cold.state()) == encode_state(states[-1])
    opened, catch_up = await cold.opened(), cold.parts.catch_up
    assert [(await catch_up.receipt(opened, seq)).receipt for seq in range(1, 17)] == receipts
    for seq in range(17):
        state = await cold.parts.catch_up.replay.state_at(await cold.opened(), seq)
        assert encode_state(state) == encode_state(states[seq])


async def test_a_journal_that_lost_its_end_is_refused(world: World):
    await some_reports(world, 3)
    world.sql("DELETE FROM journal WHERE seq > 1")
    with pytest.raises(DamagedStateError):
        await world.beside().state()


async def test_a_journal_that_lost_an_entry_in_its_middle_is_refused(world: World):
    await some_reports(world, 4)
    world.sql("DELETE FROM journal WHERE seq = 2")
    with pytest.raises(DamagedStateError):
        await world.beside().state()


async def test_folding_a_run_that_was_deleted_meanwhile_says_so(world: World):
    await world.put_run("gone")
    await some_reports(world, 3, "gone")
    cold = world.beside()
    opened = await cold.opened("gone")
    await world.runs.delete(POOL, "gone", None)
    catch_up = cold.parts.catch_up
    for call in (catch_up.through(opened, 3), catch_up.current(opened), catch_up.closing(opened, 1)):
        with pytest.raises(UnknownRunError):
            await call


async def test_tasks_appended_meanwhile_are_folded_by_a_process_that_opened_the_run_before(world: World):
    await world.put_run("default", belief="bots")
    before = await world.opened()
    await world.state()
    grown = block(40, 2)
    grown.references[:] = [[0.01, 0.99], [0.02, 0.5]]
    await world.use.datasets.append(POOL, stream(grown), never)
    catch_up, journal = world.parts.catch_up, world.use.store.journal
    live = catch_up.live(before.row.id)

    async def appended() -> bool:
        return (await journal.head(before.row)).seq == 1

    async with live.folding:
        later = asyncio.create_task(world.report(outcome("t41"), outcome("t3")))
        await until(appended)
        earlier = asyncio.create_task(catch_up.through(before, 1))
        later.cancel()
        await asyncio.sleep(0)
    assert bots_belief((await earlier).state).implied.shape[1] == (await world.opened()).dataset.pool.profiles
    await world.assert_is_a_replay()


async def test_a_run_whose_dataset_was_replaced_meanwhile_is_gone(world: World):
    before = await world.opened()
    await some_reports(world, 1)
    await world.use.datasets.delete(POOL, None)
    await world.import_pool(POOL, block(0, 3))
    with pytest.raises(UnknownRunError):
        await world.parts.open_runs.refreshed(before)


async def test_receipts_that_can_not_be_kept_now_are_kept_later(world: World, capsys: pytest.CaptureFixture[str]):
    full = world.beside(journal=Outage("keep_receipts"))
    receipts = await some_reports(full, 7)
    await asyncio.sleep(0.01)
    assert capsys.readouterr().out.count("receipts_not_kept") == 7
    assert [one.receipt for one in await world.use.insight.steps(POOL, "default", 0, 100)] == receipts


async def test_a_run_has_one_live_part_as_long_as_anybody_works_on_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(live_module, "REMEMBERED_RUNS", 2)
    runs = live_module.LiveRuns()
    at_work = runs(1)
    runs(5).wanted = 7
    runs(2), runs(3), runs(4)
    assert runs(1) is at_work
    assert runs(5).wanted == 0  # nobody held it


async def test_states_that_memory_forgot_are_made_again_on_the_way(world: World):
    small = world.beside(states=lambda _: MemoryStates(1))
    chance = random.Random(3)
    for run in range(4):
        await small.put_run(f"run-{run}")
    for turn in range(60):
        await small.report(outcome(f"t{turn % 40}", turn % 17), run=f"run-{chance.randrange(4)}")
    for run in range(4):
        await small.assert_is_a_replay(f"run-{run}")


async def test_a_state_made_of_the_journal_alone_is_as_good_as_any(world: World):
    receipts = await some_reports(world, 2)
    cold, run = world.beside(), await world.opened()
    assert not (await cold.parts.catch_up.current(run)).degraded
    assert (await cold.parts.catch_up.receipt(run, 1)).receipt == receipts[0]
