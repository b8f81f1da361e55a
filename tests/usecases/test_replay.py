"""Wherever it starts from, a state is the replay of the journal; each caller gets its own receipt."""

import asyncio
import random
from typing import Any

import pytest

from bots_service import replay as module
from bots_service.core.codec import encode_state
from bots_service.core.entries import Entry
from bots_service.core.receipt import Receipt
from bots_service.errors import (
    DamagedStateError,
    InvalidOutcomesError,
    InvalidSettingsError,
    KeyReusedError,
    UnknownRunError,
)
from bots_service.retention import NEWEST_SNAPSHOTS
from tests.core.pools import bots_belief
from tests.usecases.world import POOL, World, block, meanwhile, never, outage, outcome, stream


async def some_reports(world: World, count: int, run: str = "default") -> list[Receipt]:
    return [await world.report(outcome(f"t{turn % 40}", turn % 17), run=run) for turn in range(count)]


def flip(world: World, seqs: list[int]) -> None:
    """Damage stored states: one byte in the middle of each."""
    for seq in seqs:
        [(blob,)] = world.sql("SELECT blob FROM snapshots WHERE seq = ?", seq)
        middle = len(blob) // 2
        damaged = blob[:middle] + bytes([blob[middle] ^ 0x10]) + blob[middle + 1 :]
        world.sql("UPDATE snapshots SET blob = ? WHERE seq = ?", damaged, seq)


def reads_of(world: World, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return a list that gets the first and last seq of each part of a journal that is read."""
    journal, reads = world.use.store.journal, list[tuple[int, int]]()
    between = journal.between

    async def watched(run: Any, after: int, up_to: int, limit: int = 1000) -> list[Entry]:
        reads.append((after, up_to))
        return await between(run, after, up_to, limit)

    monkeypatch.setattr(journal, "between", watched)
    return reads


@pytest.mark.parametrize("damaged", [[], [15], [15, 10], [5, 10, 15]], ids=str)
async def test_a_cold_start_falls_back_to_an_older_state_where_newer_ones_are_damaged(
    world: World, damaged: list[int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    await some_reports(world, 17)
    assert world.sql("SELECT seq FROM snapshots ORDER BY seq") == [(5,), (10,), (15,)]
    flip(world, damaged)
    again = world.beside()
    reads = reads_of(again, monkeypatch)
    await again.state()
    assert reads == [(max({0, 5, 10, 15} - set(damaged)), 17)]
    assert capsys.readouterr().out.count("snapshot_damaged") == len(damaged)
    await again.assert_is_a_replay()


@pytest.mark.parametrize("page", [1, 3, 1000])
async def test_states_of_the_past_come_from_the_journal_alone_whatever_is_read_at_once(
    world: World, page: int, monkeypatch: pytest.MonkeyPatch
):
    await some_reports(world, 9)
    await world.rewind(4)
    await some_reports(world, 5)
    await world.rewind(6)
    monkeypatch.setattr(module, "PAGE", page)
    monkeypatch.setattr(module, "SMALL_STATE_NUMBERS", 0)  # every page in a thread
    world.sql("DELETE FROM snapshots")
    cold, (states, _) = world.beside(), await world.replay()
    assert encode_state(await cold.state()) == encode_state(states[-1])
    for seq in range(17):
        state = await cold.use.replay.state_at(await cold.opened(), seq)
        assert encode_state(state) == encode_state(states[seq])


@pytest.mark.no_cover
async def test_a_state_of_the_past_folds_no_more_than_was_promised(world: World, monkeypatch: pytest.MonkeyPatch):
    await some_reports(world, 150)
    (states, _), cold = await world.replay(), world.beside()
    reads, opened = reads_of(cold, monkeypatch), await cold.opened()
    for seq in range(0, 151, 7):
        reads.clear()
        assert encode_state(await cold.use.replay.state_at(opened, seq)) == encode_state(states[seq])
        folded = sum(up_to - after for after, up_to in reads) // 2  # looked at once for rewinds, folded once
        assert folded <= (150 - seq) + 5 * (NEWEST_SNAPSHOTS + 1)


@pytest.mark.parametrize("lost", ["seq > 1", "seq = 2"])
async def test_a_journal_that_lost_entries_is_refused(world: World, lost: str):
    await some_reports(world, 4)
    world.sql(f"DELETE FROM journal WHERE {lost}")  # noqa: S608 - our own conditions
    with pytest.raises(DamagedStateError):
        await world.beside().state()


async def test_a_run_that_is_deleted_while_it_is_folded_is_gone(world: World):
    await world.put_run("gone")
    await some_reports(world, 3, "gone")
    cold = world.beside()
    meanwhile(cold.use.store.snapshots, "newest", lambda: world.runs.delete(POOL, "gone", None))
    with pytest.raises(UnknownRunError):
        await cold.state("gone")


async def test_a_report_counts_although_the_state_after_it_can_not_be_stored(world: World):
    with outage(world.use.store.snapshots, "save"):
        await some_reports(world, world.settings.snapshot_every + 1)
    assert (await world.assert_is_a_replay()).seq == world.settings.snapshot_every + 1


# --- many at once ----------------------------------------------------------------------------------------------------


async def test_100_reports_at_once_are_folded_once_each(world: World):
    made = [world.report(outcome(f"t{turn % 40}", turn % 17), key=str(turn)) for turn in range(100)]
    receipts = await asyncio.gather(*made)
    _, replayed = await world.replay()
    assert sorted(receipt.seq for receipt in receipts) == list(range(1, 101))
    assert all(receipt == replayed[receipt.seq - 1] for receipt in receipts)
    assert (await world.assert_is_a_replay()).totals.rollouts == 100 * 16


async def test_a_change_that_is_refused_leaves_those_alone_that_are_committed_with_it(world: World):
    await world.state()
    changes = [
        world.report(outcome("t1"), key="once"),
        world.runs.change_settings(POOL, "default", {"prior": [9, 9]}, None),
        world.report(outcome("nobody")),
        world.report(outcome("t1"), key="once"),
        world.report(outcome("t2"), key="once"),
        world.report(outcome("t3")),
    ]
    done = await asyncio.gather(*changes, return_exceptions=True)
    told = [one.seq if isinstance(one, Receipt) else type(one) for one in done]
    assert told == [1, InvalidSettingsError, InvalidOutcomesError, 1, KeyReusedError, 2]
    assert (await world.assert_is_a_replay()).seq == 2


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


async def test_processes_that_see_nothing_of_each_other_fold_what_the_other_appended(world: World):
    """Few entries are folded inside a transaction, more of them before it."""
    here, there = world.beside(), world.beside()
    await some_reports(here, 2)
    await some_reports(there, 3)
    await here.report(outcome("t1"))
    await some_reports(there, 130)
    await here.report(outcome("t1"))
    await there.rewind(5)
    assert (await here.report(outcome("t1"))).step == 6
    for world_ in (here, there):
        assert (await world_.assert_is_a_replay()).seq == 139


async def test_tasks_that_another_process_appended_and_reported_are_folded(world: World):
    here, there = world.beside(), world.beside()
    await here.put_run("default", belief="bots")
    await here.state()
    grown = block(40, 2)
    grown.references[:] = [[0.01, 0.99], [0.02, 0.5]]
    await there.use.datasets.append(POOL, stream(grown), never)
    await there.report(outcome("t41"), outcome("t3"))
    await here.report(outcome("t40"))
    assert bots_belief(await here.state()).implied.shape[1] == (await there.opened()).dataset.pool.profiles
    await here.assert_is_a_replay()


async def test_states_that_memory_forgot_are_made_again_on_the_way(world: World):
    tiny = world.settings.model_copy(update={"cache_bytes": 1})  # less than settings may say
    small, chance = World.over(world.folder, tiny, world.database), random.Random(3)
    for run in range(4):
        await small.put_run(f"run-{run}")
    for turn in range(60):
        await small.report(outcome(f"t{turn % 40}", turn % 17), run=f"run-{chance.randrange(4)}")
    assert len(small.runs.states._states) == 1
    for run in range(4):
        await small.assert_is_a_replay(f"run-{run}")
