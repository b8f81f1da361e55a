"""Pruning: old entries go where stored states stand for them, and nobody notices but who asks for what is gone."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from bots_service.core.codec import encode_state
from bots_service.core.run_settings import RunSettings
from bots_service.errors import BusyError, StorageUnavailableError, UnknownStepError
from bots_service.prune import Prune, PrunedRun
from bots_service.runs import ForkFrom
from bots_service.storage.sql.journal import entry_of
from bots_service.storage.sql.transfer import SavedEntry
from tests.sizes import size
from tests.usecases.moving import histories, live, rows, states
from tests.usecases.world import POOL, World, evidence_bytes, meanwhile, outcome, reports

DAY_S = 24 * 3600.0
PRUNE_LOCK = 0x7072756E  # of PostgreSQL


def pruner(world: World, *, days_later: float = 100.0, keep_days: float | None = 30.0) -> Prune:
    """The job, as it runs some days from now."""
    return replace(world.use.prune, keep_days=keep_days, clock=lambda: time.time() + days_later * DAY_S)


def entries(world: World) -> list[int]:
    return [seq for (seq,) in world.sql("SELECT seq FROM journal WHERE body IS NOT NULL ORDER BY run_id, seq")]


async def test_old_entries_go_up_to_the_last_stored_state_but_one(world: World):
    await reports(world, 23)  # states are stored at 5, 10, 15, 20
    assert await pruner(world, days_later=29.0).remove_old() == []
    assert await pruner(world, keep_days=None).remove_old() == []
    assert await pruner(world, keep_days=None).remove_old(keep_days=200.0) == []
    assert await pruner(world).remove_old(dry_run=True) == [PrunedRun(POOL, "default", 15, 15)]
    assert entries(world) == list(range(1, 24))
    world.sql("UPDATE journal SET created_at = created_at + ? WHERE seq > 12", 90 * DAY_S)
    assert await pruner(world).remove_old() == [PrunedRun(POOL, "default", 10, 10)]
    world.sql("UPDATE journal SET created_at = created_at - ? WHERE seq > 12", 90 * DAY_S)
    assert await pruner(world).remove_old() == [PrunedRun(POOL, "default", 5, 15)]
    assert entries(world) == list(range(16, 24))
    assert await pruner(world).remove_old() == []


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(size(1, 4)))
async def test_states_histories_and_later_reports_are_the_same_as_without(
    services: tuple[World, World], folder: Callable[[str], Path], seed: int
):
    pruned, whole = services[0], World.open(folder("whole"), snapshot_every=5)
    for world in (pruned, whole):
        await live(world, seed + 15, actions=60)
        await world.settled()
    assert await pruner(pruned).remove_old()
    assert await pruner(pruned).remove_old() == []
    for row in await rows(pruned):
        begins = (await pruned.use.store.journal.head(row)).pruned
        assert await states(services[1], row.name) == (await states(whole, row.name))[begins:]
        for world in (pruned, whole):
            await reports(world, 8, first=900, run=row.name)
        assert encode_state(await pruned.state(row.name)) == encode_state(await whole.state(row.name))
    assert await histories(services[1]) == await histories(whole)
    await whole.close()


async def test_the_journal_lists_what_is_left(world: World):
    await reports(world, 12)
    await world.rewind(8)
    await reports(world, 14, first=12)
    pruned = (await pruner(world).remove_old())[0].seq
    assert pruned > 13
    listed = await world.use.insight.entries(POOL, "default", None, 100)
    left = [seq for seq in range(27, 0, -1) if seq > pruned]
    assert [logged.seq for logged in listed] == left
    assert [logged.hidden for logged in listed] == [9 <= seq <= 12 for seq in left]


async def test_what_was_pruned_is_refused_by_name(world: World):
    await reports(world, 23)
    await pruner(world).remove_old()
    said = "pruned: the journal of run 'default' begins at step 15"
    for step in (0, 1, 14):
        with pytest.raises(UnknownStepError, match=said):
            await world.rewind(step)
        with pytest.raises(UnknownStepError, match=said):
            await world.runs.put(POOL, f"fork-{step}", {}, ForkFrom("default", step), None)
    assert (await world.state()).seq == 23
    await reports(world, 1, first=23)


async def test_the_step_at_which_the_journal_begins_can_be_gone_back_to(world: World):
    await reports(world, 15)
    then = evidence_bytes(await world.state())
    await reports(world, 8, first=15)
    await pruner(world).remove_old()
    await world.rewind(15)
    assert evidence_bytes(await world.state()) == then
    cold = await world.reopened()
    assert evidence_bytes(await cold.state()) == then
    await reports(cold, 3, first=23)
    await cold.close()


async def test_a_report_whose_entry_was_pruned_still_counts_once(world: World):
    await reports(world, 23)
    await pruner(world).remove_old()
    for number in (0, 20):
        await reports(world, 1, first=number)
        assert (await world.state()).seq == 23


async def test_what_a_kept_rewind_goes_back_to_is_kept(world: World):
    await reports(world, 12)
    await world.rewind(4)  # entry 13 goes back to entry 4, so only states at 13 and later can stand for entry 4
    await reports(world, 8, first=12)
    assert await pruner(world).remove_old() == [PrunedRun(POOL, "default", 15, 15)]
    assert entries(world) == list(range(16, 22))
    steps = await world.use.insight.steps(POOL, "default", 0, 100)
    assert [one.seq for one in steps] == [1, 2, 3, 4, *range(14, 22)]
    with pytest.raises(UnknownStepError):
        await world.rewind(4)
    await world.rewind(7)


async def test_a_rewind_that_is_not_old_enough_to_go_holds_its_target(world: World):
    await reports(world, 22)
    await world.rewind(3)
    world.sql("UPDATE journal SET created_at = created_at + ? WHERE seq >= 23", 90 * DAY_S)
    assert await pruner(world).remove_old() == []
    world.sql("UPDATE journal SET created_at = created_at - ? WHERE seq >= 23", 90 * DAY_S)
    await reports(world, 3, first=22)
    assert await pruner(world).remove_old() == [PrunedRun(POOL, "default", 23, 23)]


async def test_damaged_states_stand_for_nothing(world: World):
    await reports(world, 23)
    world.sql("UPDATE snapshots SET blob = substr(blob, 1, 40) WHERE seq IN (15, 20)")
    assert await pruner(world).remove_old() == [PrunedRun(POOL, "default", 5, 5)]
    world.sql("UPDATE snapshots SET blob = substr(blob, 1, 40)")
    assert await pruner(world).remove_old() == []
    cold = await world.reopened()
    with pytest.raises(UnknownStepError, match="pruned"):
        await cold.state()  # both stored states were destroyed after entries went: no way is left, and it says so
    await cold.close()


async def test_the_newest_state_survives_the_damage_of_what_the_journal_begins_with(world: World):
    await reports(world, 23)
    newest = encode_state(await world.state())
    await pruner(world).remove_old()
    world.sql("UPDATE snapshots SET blob = substr(blob, 1, 40) WHERE seq = 15")
    cold = await world.reopened()
    assert encode_state(await cold.state()) == newest
    with pytest.raises(UnknownStepError):
        await cold.rewind(17)
    await cold.close()


async def test_a_process_that_slept_through_pruning_goes_on_from_a_stored_state(world: World):
    await reports(world, 3)
    sleeper = world.beside()
    await sleeper.state()
    await reports(world, 20, first=3)
    await pruner(world).remove_old()
    await sleeper.report(outcome("t1"))
    assert encode_state(await sleeper.state()) == encode_state(await world.beside().state())
    assert (await sleeper.state()).seq == 24


async def test_a_rewind_that_was_asked_for_before_pruning_is_refused_after(world: World):
    await reports(world, 23)
    meanwhile(world.database, "write", pruner(world).remove_old)
    with pytest.raises(UnknownStepError, match="begins at step 15"):
        await world.rewind(4)
    assert (await world.state()).seq == 23


async def test_a_run_that_is_deleted_meanwhile_is_left_alone(world: World):
    await reports(world, 23)
    store = world.beside().use.store
    meanwhile(store.retention, "truncate", lambda: world.runs.delete(POOL, "default", None))
    assert await replace(pruner(world), store=store).remove_old() == []
    assert entries(world) == []


async def test_an_earlier_turn_that_was_cut_short_is_finished(world: World):
    await reports(world, 23)
    assert await world.use.store.retention.truncate(await world.row(), 15)
    assert entries(world) == list(range(1, 24))
    assert await pruner(world, days_later=0.0).remove_old() == [PrunedRun(POOL, "default", 15, 15)]


async def test_old_answers_and_dead_uploads_go(world: World):
    await world.use.store.datasets.stage()
    stage = await world.use.store.datasets.stage()
    world.sql("INSERT INTO answers VALUES ('PUT /x', 'old', 'f', 'null', 1.0), ('PUT /x', 'new', 'f', 'null', 1e11)")
    world.sql("UPDATE datasets SET created_at = 1 WHERE id = ?", stage)
    transfers = world.use.store.transfers
    await reports(world, 3)
    run = await transfers.add_run(stage, RunSettings(), ())
    saved, (_, receipts) = await transfers.entries(await world.row(), 0, 3), await world.replay()
    await transfers.append(run, list(map(SavedEntry.folded, saved, map(entry_of, saved), receipts)))
    world.sql("UPDATE datasets SET created_at = 1 WHERE id = ?", stage)
    await world.use.prune.remove_old()
    assert world.sql("SELECT key FROM answers") == [("new",)]
    assert world.sql("SELECT count(*) FROM datasets WHERE name IS NULL") == [(1,)]
    assert entries(world) == [1, 2, 3]


# --- in the background -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [BusyError("x"), StorageUnavailableError("x"), RuntimeError("x")])
async def test_it_happens_by_itself_and_a_turn_that_fails_is_followed_by_another(world: World, error: Exception):
    await reports(world, 23)
    turns = 0

    def clock() -> float:
        nonlocal turns
        turns += 1
        if turns < 3:
            raise error
        return time.time() + 100 * DAY_S

    async with asyncio.timeout(30), replace(pruner(world), clock=clock).in_background(every_s=0.01):
        while turns < 4:  # noqa: ASYNC110 - there is no event; one more than needed, so that the third ended
            await asyncio.sleep(0.01)
    assert entries(world) == list(range(16, 24))


# --- on PostgreSQL ---------------------------------------------------------------------------------------------------


async def test_one_replica_at_a_time_prunes(on_postgres: World, postgres_url: str):
    await on_postgres.import_pool()
    await reports(on_postgres, 23)
    with psycopg.connect(postgres_url) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [PRUNE_LOCK])
        with pytest.raises(BusyError, match="another replica"):
            await pruner(on_postgres).remove_old()
        other.rollback()
    assert await pruner(on_postgres).remove_old() == [PrunedRun(POOL, "default", 15, 15)]
