"""A run moves to another service as its journal; old answers and dead uploads are deleted."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bots_service import errors
from bots_service.core.run_settings import RunSettings
from bots_service.outcomes import Outcome, ReportRequest
from bots_service.records import IdempotencyKey, RunRow
from bots_service.runs import ForkFrom
from bots_service.storage.sql.journal import entry_of
from bots_service.storage.sql.transfer import SavedEntry
from tests.sizes import size
from tests.usecases.world import (
    POOL,
    TASKS,
    World,
    block,
    exported,
    imported,
    in_batches,
    live,
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
            await other.assert_is_a_replay(run.name)
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
    await world.runs.put_probe(POOL, "default", {"t2": 0.5, "t9": -1.0, "t30": 7.0}, None)
    await world.report(outcome("t3"))
    await imported(other, await exported(world))
    assert await states(other, "default") == await states(world, "default")


async def test_a_fork_moves_with_all_that_it_began_with(world: World, other: World, monkeypatch: pytest.MonkeyPatch):
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
    await world.runs.delete(POOL, "default", None)
    await world.runs.put(POOL, "empty", {}, None, None)
    await world.runs.put(POOL, "of-nothing", {}, ForkFrom("empty"), None)
    for name in ("child", "grandchild", "empty", "of-nothing"):
        row = await imported(other, await exported(world, name), name)
        assert row.parent is None
        await other.assert_is_a_replay(name)
        assert await states(other, name) == await states(world, name)


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


async def test_old_answers_and_dead_uploads_go(world: World):
    await world.use.store.datasets.stage()
    stage = await world.use.store.datasets.stage()
    world.sql("INSERT INTO answers VALUES ('PUT /x', 'old', 'f', 'null', 1.0), ('PUT /x', 'new', 'f', 'null', 1e11)")
    world.sql("UPDATE datasets SET created_at = 1 WHERE id = ?", stage)
    transfers = world.use.store.transfers
    await reports(world, 3)
    run = await transfers.add_run(stage, RunSettings())
    saved, (_, receipts) = await transfers.entries(await world.row(), 0, 3), await world.replay()
    await transfers.append(run, list(map(SavedEntry.folded, saved, map(entry_of, saved), receipts)))
    world.sql("UPDATE datasets SET created_at = 1 WHERE id = ?", stage)
    await world.use.delete_old()
    assert world.sql("SELECT key FROM answers") == [("new",)]
    assert world.sql("SELECT count(*) FROM datasets WHERE name IS NULL") == [(1,)]
    assert world.sql("SELECT seq FROM journal ORDER BY run_id, seq") == [(1,), (2,), (3,)]


async def test_that_happens_by_itself(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bots_service.services.DELETE_EVERY_S", 0.01)
    world.sql("INSERT INTO answers VALUES ('PUT /x', 'old', 'f', 'null', 1.0)")

    async def is_gone() -> bool:
        return not world.sql("SELECT 1 FROM answers")

    async with world.use.in_background():
        await until(is_gone)
