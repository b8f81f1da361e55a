"""Backups: what is exported comes back the same, and what was changed on the way does not come back at all."""

import asyncio
import hashlib
import random
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from bots_service.core.codec import encode_state
from bots_service.errors import (
    BotsError,
    DatasetExistsError,
    InvalidBackupError,
    RunHasHistoryError,
    UnknownDatasetError,
    UnknownRunError,
)
from bots_service.ports.records import IdempotencyKey
from bots_service.usecases.backup_format import BackupWriter, Part
from bots_service.usecases.report_outcomes import ReportRequest
from tests.sizes import examples
from tests.usecases.backups import assert_same, exported, histories, imported, live, parts_of, states, truth
from tests.usecases.world import POOL, World, block, never, outcome, until

Folder = Callable[[str], Path]


@pytest.fixture
async def other(folder: Folder) -> AsyncIterator[World]:
    """Another service without datasets."""
    world = World.open(folder("other"), snapshot_every=7)
    yield world
    await world.close()


def written(parts: list[Part]) -> bytes:
    writer = BackupWriter()
    return writer.begin() + b"".join(map(writer.part, parts)) + writer.end()


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(6))
async def test_what_is_exported_comes_back_the_same(empty: World, other: World, seed: int):
    await live(empty, seed)
    await imported(other, await exported(empty))
    await assert_same(empty, other)


async def test_a_backup_of_a_backup_is_the_backup(empty: World, other: World):
    await live(empty, 7)
    await histories(empty)  # makes receipts that are still on their way
    backup = await exported(empty)
    await imported(other, backup)
    assert await exported(other) == backup


async def test_a_report_that_is_sent_again_after_the_move_counts_once(world: World, other: World):
    news = ReportRequest(POOL, [outcome("t1"), outcome("t2")])
    first = await world.use.report_outcomes(news, IdempotencyKey("key", "fingerprint"))
    await imported(other, await exported(world))
    again = await other.use.report_outcomes(news, IdempotencyKey("key", "fingerprint"))
    assert (again.duplicate, again.receipt) == (True, first.receipt)


async def test_a_selection_in_flight_survives_the_move(world: World, other: World):
    selection = await world.select(3)
    await imported(other, await exported(world))
    ids = [f"t{task}" for task in selection.tasks]
    receipt = await other.report(*map(outcome, ids), selection_id=selection.id)
    assert (receipt.step, receipt.tally.reported) == (1, 3)


async def test_a_copy_beside_the_original_gets_uids_of_its_own(world: World):
    await world.report(outcome("t1"))
    await imported(world, await exported(world), dataset="copy")
    uids = {(await world.row("default", name)).uid for name in (POOL, "copy")}
    assert len(uids) == 2
    assert await truth(world, uids=False) == await truth(world, "copy", uids=False)
    await world.report(outcome("t2"), dataset="copy")
    assert ((await world.state()).step, (await world.state(dataset="copy")).step) == (1, 2)


async def test_a_deleted_dataset_comes_back_as_old_as_its_backup(world: World):
    await world.report(outcome("t1"))
    backup, then = await exported(world), encode_state(await world.state())
    await world.report(outcome("t2"))
    await world.use.delete_dataset(POOL, None)
    await imported(world, backup)
    assert encode_state(await world.state()) == then
    await world.assert_is_a_replay()


async def test_what_comes_in_while_it_is_exported_is_not_in_it(world: World, other: World):
    for number in range(30):
        await world.report(outcome(f"t{number}"), key=str(number))
    before = await truth(world)
    pieces = []
    async for piece in await world.use.export_backup(POOL):
        pieces.append(piece)
        await world.report(outcome("t1"), outcome("t2"))
        await world.use.retire_tasks(POOL, [f"t{len(pieces)}"], None)
    assert (await world.state()).seq > 30
    await imported(other, b"".join(pieces))
    assert await truth(other) == before


async def test_many_exports_while_reports_come_in_are_each_a_prefix(world: World, folder: Folder):
    reports = [world.report(outcome(f"t{number % 40}"), key=str(number)) for number in range(60)]
    backups = asyncio.gather(*(exported(world) for _ in range(3)))
    await asyncio.gather(backups, *reports)
    whole = await states(world, "default")
    for number, backup in enumerate(backups.result()):
        copy = World.open(folder(f"copy-{number}"))
        await imported(copy, backup)
        mine = await states(copy, "default")
        assert mine == whole[: len(mine)]
        await copy.close()


# --- one run ---------------------------------------------------------------------------------------------------------


async def test_a_run_moves_to_a_dataset_of_the_same_content(empty: World, other: World):
    await live(empty, 3)
    await imported(other, await exported(empty))
    await empty.report(outcome("t1"), run="by-three")
    made = await imported(other, await exported(empty, "by-three"), run="moved")
    assert [row.name for row in made.runs] == ["moved"]
    assert await states(other, "moved") == await states(empty, "by-three")


async def test_a_run_takes_the_place_of_an_empty_one(world: World, other: World):
    await world.report(outcome("t1"))
    await other.import_pool()
    assert (await other.state()).seq == 0
    await imported(other, await exported(world, "default"))
    assert await states(other, "default") == await states(world, "default")


async def test_a_run_does_not_replace_one_with_history(world: World):
    await world.report(outcome("t1"))
    backup = await exported(world, "default")
    with pytest.raises(RunHasHistoryError, match="1 journal entries"):
        await imported(world, backup)


async def test_a_run_of_other_tasks_is_refused_by_what_differs(world: World, other: World):
    backup = await exported(world, "default")
    with pytest.raises(UnknownDatasetError):
        await imported(other, backup)
    await other.import_pool(POOL, block(0, 39))
    with pytest.raises(DatasetExistsError, match="size is 39 here and 40 in the backup"):
        await imported(other, backup)


async def test_an_export_names_what_is_there(world: World):
    with pytest.raises(UnknownDatasetError):
        await world.use.export_backup("none")
    with pytest.raises(UnknownRunError):
        await world.use.export_backup(POOL, "none")


# --- what is refused -------------------------------------------------------------------------------------------------


async def test_a_name_that_is_taken_is_refused(world: World):
    with pytest.raises(DatasetExistsError, match="exists"):
        await imported(world, await exported(world))


async def test_two_imports_of_one_name_at_once_make_one_dataset(world: World, other: World):
    backup = await exported(world)
    outcomes = await asyncio.gather(*(imported(other, backup) for _ in range(4)), return_exceptions=True)
    assert sum(isinstance(one, DatasetExistsError) for one in outcomes) == 3
    assert await truth(other) == await truth(world)


def mutated(backup: bytes, seed: int) -> bytes:
    rng = random.Random(seed)
    place = rng.randrange(len(backup))
    if seed % 4 == 0:
        return backup[:place]
    if seed % 4 == 1:
        return backup + rng.randbytes(1 + seed)
    return backup[:place] + bytes([backup[place] ^ (1 << rng.randrange(8))]) + backup[place + 1 :]


async def test_a_backup_that_was_cut_or_changed_is_refused_and_changes_nothing(empty: World, other: World):
    await live(empty, 5)
    backup = await exported(empty)
    for seed in range(examples(200)):
        with pytest.raises(InvalidBackupError):
            await imported(other, mutated(backup, seed))
    for table in ("datasets", "runs", "journal", "receipts", "snapshots", "task_blocks", "retired_tasks"):
        assert other.sql(f"SELECT * FROM {table}") == []  # noqa: S608 - the name comes from a fixed list


async def test_what_is_no_backup_of_this_format_is_told_so(world: World, other: World):
    backup = await exported(world)
    for changed, said in [
        (b"PAR1" + backup[4:], "not a backup"),
        (backup[:8] + b"\2\0" + backup[10:], "format 2, and this service reads 1; upgrade"),
        (backup[:-1], "is truncated"),
        (backup + b"x", "after its end"),
        (b"", "is truncated"),
    ]:
        with pytest.raises(InvalidBackupError, match=said):
            await imported(other, changed)


async def test_records_in_another_order_are_refused(world: World, other: World):
    await world.report(outcome("t1"))
    await world.use.take_snapshot(POOL, "default", None)
    parts = await parts_of(await exported(world))
    assert written(parts) == await exported(world)
    for order in ([], parts[1:], parts[:1] + parts[2:], parts[:2] + parts[3:], [*parts, parts[1]], [*parts, parts[2]]):
        with pytest.raises(InvalidBackupError):
            await imported(other, written(order))
    one = await parts_of(await exported(world, "default"))
    await other.import_pool()
    for order in (one[:1], [*one, *one[1:]], [one[0], parts[1], *one[1:]]):
        with pytest.raises(InvalidBackupError):
            await imported(other, written(order))
    with pytest.raises(InvalidBackupError, match="leave out `run`"):
        await imported(other, await exported(world), run="x", dataset="y")


async def test_a_record_of_an_unknown_kind_is_refused(other: World):
    body = b"\x81\xa4type\xa7unknown"
    record = len(body).to_bytes(4, "little") + zlib.crc32(body).to_bytes(4, "little") + body
    with pytest.raises(InvalidBackupError, match="record 1 of the backup can't be read"):
        await imported(other, b"BOTSBKUP\1\0" + record)


async def _staged(world: World) -> bool:
    return bool(world.sql("SELECT 1 FROM task_blocks"))


async def test_an_import_that_is_given_up_leaves_nothing(world: World, other: World):
    async def endless() -> AsyncIterator[bytes]:
        yield (await exported(world))[:-100]
        await asyncio.Event().wait()

    task = asyncio.create_task(other.use.import_backup(endless(), never))
    await until(lambda: _staged(other))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert other.sql("SELECT count(*) FROM datasets") == [(0,)]


async def test_a_damaged_snapshot_is_left_out(world: World, other: World):
    await world.report(outcome("t1"))
    await world.use.take_snapshot(POOL, "default", None)
    world.sql("UPDATE snapshots SET blob = substr(blob, 1, 50)")
    await imported(other, await exported(world))
    assert other.sql("SELECT count(*) FROM snapshots") == [(0,)]
    assert await states(other, "default") == await states(world, "default")


async def test_the_checksum_is_sha256_of_all_before_it(world: World):
    backup = await exported(world)
    digest = hashlib.sha256(backup[: -(8 + len(b"\x82\xa4type\xa3end\xa6sha256\xc4\x20") + 32)]).digest()
    assert backup.endswith(digest)


async def test_errors_are_of_one_family():
    assert issubclass(InvalidBackupError, BotsError)
