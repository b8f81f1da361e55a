"""A run moves to another service as its journal; old entries go where stored states stand for them."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bots_service import errors
from bots_service.core.codec import encode_state
from bots_service.core.run_settings import RunSettings
from bots_service.outcomes import Outcome, ReportRequest
from bots_service.prune import Prune, PrunedRun
from bots_service.records import IdempotencyKey, RunRow
from bots_service.runs import ForkFrom
from bots_service.storage.sql.journal import entry_of
from bots_service.storage.sql.transfer import SavedEntry
from tests.sizes import size
from tests.usecases.test_datasets import predict
from tests.usecases.world import (
    POOL,
    TASKS,
    World,
    block,
    copied,
    evidence_bytes,
    exported,
    histories,
    imported,
    in_batches,
    live,
    meanwhile,
    never,
    outcome,
    reports,
    rows,
    states,
    stream,
    until,
)

Folder = Callable[[str], Path]


@pytest.fixture
async def other(folder: Folder) -> AsyncIterator[World]:
    world = World.open(folder("other"), snapshot_every=7)
    await world.import_pool()
    yield world
    await world.close()


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(size(2, 4)))
async def test_every_run_of_a_random_life_folds_to_the_same_elsewhere(empty: World, folder: Folder, seed: int):
    await live(empty, seed)
    other = World.open(folder("other"), snapshot_every=7)
    await other.import_pool()
    tasks = (await empty.use.store.datasets.get(POOL)).facts.size
    if tasks > TASKS:
        await other.use.datasets.append(POOL, stream(block(TASKS, tasks - TASKS)), never)
    for run in await rows(empty):
        if run.head:
            await imported(other, await exported(empty, run.name), run.name)
            assert evidence_bytes(await other.state(run.name)) == evidence_bytes(await empty.state(run.name))
            await other.assert_is_a_replay(run.name)
            if run.parent is None:
                assert await states(other, run.name) == await states(empty, run.name)
    await other.close()


async def test_every_kind_of_entry_moves(world: World, other: World):
    for successes in (6, 9, 6):
        await world.report(*(outcome(f"t{task}", successes) for task in range(TASKS)))
    await world.runs.report(ReportRequest(POOL, [outcome("t1")]), None)
    await world.runs.change_settings(POOL, "default", {"mix": {"even": 1.0, "odd": 3.0}}, None)
    selection = await world.select(2)
    ids = (await world.opened()).dataset.ids
    part = Outcome(ids[int(selection.tasks[0])], rewards=[1.0], group_size=4, tokens=7.0)
    await world.report(part, selection_id=selection.id)
    await world.report(Outcome("t1", status="aborted"), Outcome("t2", successes=1, trials=4, seconds=2.0))
    await world.rewind(2)
    await world.report(outcome("t3"))
    await imported(other, await exported(world))
    assert await states(other, "default") == await states(world, "default")


async def test_a_fork_brings_the_journals_of_those_that_it_continues(
    world: World, other: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("bots_service.moving.PAGE", 3)
    await reports(world, 4)
    await world.rewind(2)
    await world.runs.put(POOL, "child", {"seed": 3}, ForkFrom("default", 2), None)
    await reports(world, 3, run="child")
    selection = await world.select(1, "child")
    part = Outcome((await world.opened()).dataset.ids[int(selection.tasks[0])], rewards=[1.0, 0.0], group_size=4)
    for _ in range(2):  # the two are one group: they name one selection
        await world.report(part, run="child", selection_id=selection.id)
    await world.rewind(3, "child")
    await world.runs.put(POOL, "grandchild", {"target": 0.4}, ForkFrom("child"), None)
    await reports(world, 2, first=5, run="grandchild")
    await reports(world, 1)  # of no matter: its ancestor's journal counts up to the fork
    for name in ("child", "grandchild"):
        row = await imported(other, await exported(world, name), name)
        assert row.parent is None
        assert evidence_bytes(await other.state(name)) == evidence_bytes(await world.state(name))
        await other.assert_is_a_replay(name)
        again = await imported(other, await exported(other, name), f"{name}-again")
        assert await states(other, again.name) == await states(other, name)
    await world.runs.put(POOL, "empty", {}, None, None)
    await world.runs.put(POOL, "of-nothing", {}, ForkFrom("empty"), None)
    for name in ("empty", "of-nothing"):
        await imported(other, await exported(world, name), name)
        assert (await other.state(name)).step == 0


async def test_an_export_needs_the_whole_journal(world: World, folder: Folder):
    await reports(world, 23)
    await world.runs.put(POOL, "child", {}, ForkFrom("default"), None)
    await pruner(world).remove_old()
    for name in ("default", "child"):
        with pytest.raises(errors.JournalIncompleteError, match="pruned up to entry 15; save the whole database"):
            await exported(world, name)
    copy = copied(world, folder("copy"))
    assert encode_state(await copy.state("child")) == encode_state(await world.state("child"))
    await copy.close()
    await world.runs.delete(POOL, "default", None)
    with pytest.raises(errors.JournalIncompleteError, match="began from run 'default', which was deleted"):
        await exported(world, "child")
    await world.put_run("other")
    await world.runs.put(POOL, "of-other", {}, ForkFrom("other"), None)
    await world.runs.delete(POOL, "other", None)
    with pytest.raises(errors.JournalIncompleteError, match="began from run 'other'"):
        await exported(world, "of-other")


async def test_an_export_is_as_of_its_beginning_and_ends_with_an_error_where_the_run_is_deleted(
    world: World, other: World
):
    await reports(world, 3)
    pieces, late = [world.use.moves.export(POOL, "default") for _ in range(2)]
    begun = [await anext(pieces), await anext(late)]
    await reports(world, 2, first=3)
    await imported(other, b"".join([begun[0], *[piece async for piece in pieces]]))
    assert (await other.state()).seq == 3
    await world.runs.delete(POOL, "default", None)
    with pytest.raises(errors.BusyError, match="export again"):
        [piece async for piece in late]


async def test_a_run_moves_to_postgresql_and_back_and_a_report_that_is_sent_again_counts_once(
    world: World, on_postgres: World
):
    news = ReportRequest(POOL, [outcome("t1"), outcome("t2")])
    await on_postgres.import_pool()
    first = await world.runs.report(news, IdempotencyKey("key", "fingerprint"))
    await world.rewind(0)
    await reports(world, 3)
    await imported(on_postgres, await exported(world))
    again = await on_postgres.runs.report(news, IdempotencyKey("key", "fingerprint"))
    assert (again.duplicate, again.receipt) == (True, first.receipt)
    assert await states(on_postgres, "default") == await states(world, "default")
    await imported(world, await exported(on_postgres), "back")
    assert await states(world, "back") == await states(world, "default")


async def test_a_run_is_replayed_under_another_belief(world: World, other: World):
    await reports(world, 6)
    header, *lines = (await exported(world)).splitlines()
    changed = msgspec.json.decode(header)
    changed["settings"]["belief"] = "bots"
    await imported(other, b"\n".join([msgspec.json.encode(changed), *lines]))
    state = await other.assert_is_a_replay()
    assert (state.step, state.settings.belief) == (6, "bots")


async def test_a_run_sees_the_newest_predictions_where_it_arrives(world: World, other: World):
    await reports(world, 6)
    await predict(other)
    await imported(other, await exported(world))
    state = await other.assert_is_a_replay()
    assert (await other.describe()).estimates["prediction_slope_probe"] != 0.0
    await imported(other, await exported(other), "again")
    assert encode_state(await other.state("again")) == encode_state(state)


# --- what is refused -------------------------------------------------------------------------------------------------


async def test_a_run_does_not_replace_one_with_history(world: World):
    await world.report(outcome("t1"))
    with pytest.raises(errors.RunHasHistoryError, match="1 journal entries"):
        await imported(world, await exported(world))


async def test_a_run_of_other_tasks_is_refused_by_what_differs(world: World, folder: Folder):
    other = World.open(folder("another"))
    with pytest.raises(errors.UnknownDatasetError):
        await imported(other, await exported(world))
    await other.import_pool(POOL, block(0, 39))
    with pytest.raises(errors.DatasetExistsError, match=r"digest is .* here and .* in the journal"):
        await imported(other, await exported(world))
    await world.import_pool("tagged", block(0, 90))
    await other.import_pool("tagged", block(0, 10))  # too few tasks for any offset tag
    await other.use.datasets.append("tagged", stream(block(10, 80)), never)
    with pytest.raises(errors.DatasetExistsError, match=r"offset_tags is"):
        await imported(other, await exported(world, dataset="tagged"), dataset="tagged")
    await other.close()


Change = Callable[[dict[str, Any]], Any]
FORK = {"parent": "x", "parent_seq": 1, "state": ""}
REFUSED: list[tuple[int, Change, str]] = [
    (0, lambda header: header.pop("entries"), "no header"),
    (0, lambda header: header["settings"].update(target=2), "settings"),
    (0, lambda header: header.update(entries=3), "has 4 entries, and its header says 3"),
    (2, lambda entry: entry.pop("profiles"), "line 3 is no entry"),
    (2, lambda entry: entry.update(seq=7), "entry 2 is none"),
    (2, lambda entry: entry.update(epoch=1), "entry 2 is none"),
    (2, lambda entry: entry.update(kind="unknown"), "line 3 is no entry"),
    (2, lambda entry: entry.update(kind="settings"), "does not fold"),
    (2, lambda entry: entry["body"]["evidence"].update(tasks=[TASKS]), "entry 2 is none"),
    (2, lambda entry: entry["body"]["evidence"].update(tasks=[-1]), "entry 2 is none"),
    (2, lambda entry: entry["body"]["evidence"].update(successes=[]), "does not fold"),
    (2, lambda entry: entry["body"]["evidence"].update(successes=[-1.0]), "entry 2 is none"),
    (2, lambda entry: entry["body"]["evidence"].update(successes=[0.0], failures=[0.0]), "entry 2 is none"),
    (2, lambda entry: entry["body"].update(made_at=-1), "entry 2 is none"),
    (2, lambda entry: entry.update(profiles=10**6), "does not fold"),
    (3, lambda entry: entry["body"].update(to_seq=3), "entry 3 is none"),
    (4, lambda entry: entry.update(kind="fork", body=FORK), "entry 4 is none"),
    (2, lambda entry: entry.update(key="key-0", fingerprint="f"), "does not fold"),
]


@pytest.mark.parametrize(("place", "change", "said"), REFUSED)
async def test_a_journal_that_does_not_fold_is_refused_whole(
    world: World, other: World, place: int, change: Change, said: str
):
    await reports(world, 2)
    await world.rewind(1)
    await world.report(outcome("t3"))
    lines = [msgspec.json.decode(line) for line in (await exported(world)).splitlines()]
    change(lines[place])
    with pytest.raises(errors.InvalidJournalError, match=said):
        await imported(other, b"\n".join(map(msgspec.json.encode, lines)))
    assert (await other.state()).seq == 0
    assert other.sql("SELECT count(*) FROM journal") == [(0,)]


async def test_a_journal_that_was_cut_is_refused(world: World, other: World):
    await reports(world, 3)
    whole = await exported(world)
    for end in (0, 9, -9, whole[:-1].rindex(b"\n")):
        with pytest.raises(errors.InvalidJournalError):
            await imported(other, whole[:end])


async def test_an_import_that_is_given_up_leaves_nothing(world: World, other: World):
    await reports(world, 3)
    journal = await exported(world)

    async def endless() -> AsyncIterator[list[bytes]]:
        async for batch in in_batches(journal):
            yield batch
        await asyncio.Event().wait()

    async def is_staged() -> bool:
        return bool(other.sql("SELECT 1 FROM runs WHERE name = 'staged'"))

    task = asyncio.create_task(other.use.moves.import_lines(POOL, "default", endless(), never))
    await until(is_staged)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert other.sql("SELECT count(*) FROM datasets WHERE name IS NULL") == [(0,)]


async def test_two_imports_of_one_name_at_once_make_one_run(world: World, other: World):
    await reports(world, 3)
    journal = await exported(world)
    done = await asyncio.gather(*(imported(other, journal, "moved") for _ in range(3)), return_exceptions=True)
    assert sum(isinstance(one, RunRow) for one in done) == 1
    assert sum(isinstance(one, errors.RunHasHistoryError | errors.BusyError) for one in done) == 2
    assert (await other.state("moved")).seq == 3


DAY_S = 24 * 3600.0


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


async def test_what_was_pruned_is_refused_by_name_and_its_reports_still_count_once(world: World):
    await reports(world, 23)
    await pruner(world).remove_old()
    said = "pruned: the journal of run 'default' begins at step 15"
    for step in (0, 1, 14):
        with pytest.raises(errors.UnknownStepError, match=said):
            await world.rewind(step)
        with pytest.raises(errors.UnknownStepError, match=said):
            await world.runs.put(POOL, f"fork-{step}", {}, ForkFrom("default", step), None)
    for number in (0, 20):  # and a report counts once, although its entry is gone
        await reports(world, 1, first=number)
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


async def test_what_a_kept_rewind_goes_back_to_is_kept(world: World):
    await reports(world, 12)
    await world.rewind(4)  # entry 13 goes back to entry 4, so only states at 13 and later can stand for entry 4
    await reports(world, 8, first=12)
    assert await pruner(world).remove_old() == [PrunedRun(POOL, "default", 15, 15)]
    assert entries(world) == list(range(16, 22))
    steps = await world.use.insight.steps(POOL, "default", 0, 100)
    assert [one.seq for one in steps] == [1, 2, 3, 4, *range(14, 22)]
    with pytest.raises(errors.UnknownStepError):
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
    with pytest.raises(errors.UnknownStepError, match="pruned"):
        await cold.state()  # both stored states were destroyed after entries went: no way is left, and it says so
    await cold.close()


async def test_the_newest_state_survives_the_damage_of_what_the_journal_begins_with(world: World):
    await reports(world, 23)
    newest = encode_state(await world.state())
    await pruner(world).remove_old()
    world.sql("UPDATE snapshots SET blob = substr(blob, 1, 40) WHERE seq = 15")
    cold = await world.reopened()
    assert encode_state(await cold.state()) == newest
    with pytest.raises(errors.UnknownStepError):
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
    with pytest.raises(errors.UnknownStepError, match="begins at step 15"):
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


@pytest.mark.parametrize("error", [errors.StorageUnavailableError("x"), RuntimeError("x")])
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


async def test_replicas_may_prune_at_once(on_postgres: World):
    await on_postgres.import_pool()
    await reports(on_postgres, 23)
    done = await asyncio.gather(*(pruner(on_postgres).remove_old() for _ in range(3)))
    assert sum(run.entries for runs in done for run in runs) == 15
