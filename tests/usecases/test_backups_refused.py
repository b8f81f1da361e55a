"""Backups whose checksums are right, and whose content can't be true: made by hand, or by a defect."""

import asyncio
import math
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from bots_service.core.belief.capability import Capability
from bots_service.core.codec import decode_state, encode_state
from bots_service.core.entries import Body, Fork, Report, Rewind, SettingsChange
from bots_service.core.evidence import Evidence
from bots_service.core.state import RunState
from bots_service.core.walks import Walk
from bots_service.errors import BusyError, InvalidBackupError
from bots_service.ports.backup import SavedParent
from bots_service.ports.records import RunRow, SnapshotRow
from bots_service.storage.sql.codecs import KINDS, encode_body
from bots_service.usecases.backup_format import (
    LARGEST_RECORD,
    BackupWriter,
    DatasetPart,
    EntriesPart,
    Part,
    ReceiptsPart,
    RetiredPart,
    RunPart,
    SnapshotPart,
    TasksPart,
)
from tests.core.pools import bots_belief, with_belief
from tests.sqlite_files import migrated_file
from tests.usecases.backups import exported, histories, imported, parts_of, truth
from tests.usecases.ports import Port
from tests.usecases.test_pruning import pruner, reports
from tests.usecases.world import POOL, World, block, never, outcome, stream

Change = Callable[[Any], Any]
changed = msgspec.structs.replace
END = 59  # bytes of the end record: head 8, MessagePack 19, SHA-256 32


def written(parts: list[Part]) -> bytes:
    writer = BackupWriter()
    return writer.begin() + b"".join(map(writer.part, parts)) + writer.end()


@pytest.fixture
async def other(folder: Callable[[str], Path]) -> AsyncIterator[World]:
    """Another service without datasets."""
    world = World.open(folder("other"))
    yield world
    await world.close()


async def backed_up(world: World) -> list[Part]:
    """Return a good backup of a run with BOTS: three reports, a rewind, a report, a stored state, a retired task."""
    await world.put_run("default", belief="bots")
    await reports(world, 3)
    await world.rewind(2)
    await world.report(outcome("t9"))
    await world.use.take_snapshot(POOL, "default", None)
    await world.use.retire_tasks(POOL, ["t5"], None)
    await histories(world)
    return await parts_of(await exported(world))


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Part]:
    """A good backup, made once: no test changes a part, but by a copy."""

    async def made() -> list[Part]:
        world = World.open(migrated_file(tmp_path_factory.mktemp("good")).parent, snapshot_every=5)
        await world.import_pool()
        found = await backed_up(world)
        await world.close()
        return found

    return asyncio.run(made())


def with_changed(parts: list[Part], kind: type, change: Change) -> bytes:
    return written([change(part) if isinstance(part, kind) else part for part in parts])


def offset_tags(tag: str, *, tasks: int | None = None) -> Change:
    """Say that a tag was chosen, and perhaps that some tasks carry it."""

    def changed_part(part: DatasetPart) -> DatasetPart:
        counts = part.facts.tags if tasks is None else {**part.facts.tags, tag: tasks}
        return changed(part, facts=replace(part.facts, offset_tags=(tag,), tags=counts))

    return changed_part


def run(**values: Any) -> Change:
    return lambda part: changed(part, run=changed(part.run, **values))


def entry(at: int, **values: Any) -> Change:
    return lambda part: changed(part, rows=[changed(row, **values) if row.seq == at else row for row in part.rows])


def body(seq: int, made: Body) -> Change:
    return entry(seq, kind=KINDS[type(made)], body=encode_body(made))


def report(task: int, successes: float = 1.0, failures: float = 1.0, *, counts: int = 1) -> Report:
    columns = (np.full(counts, successes), np.full(counts, failures), np.full(counts, True))
    return Report(Evidence(np.array([task]), *columns), None, None)


def snapshot(**values: Any) -> Change:
    return lambda part: changed(part, row=replace(part.row, **values))


def stored(change: Callable[[RunState], RunState]) -> Change:
    """Change a stored state, and what is said of it."""

    def changed_part(part: SnapshotPart) -> SnapshotPart:
        state = change(decode_state(part.blob))
        blob = encode_state(state)
        said = replace(part.row, epoch=state.epoch, step=state.step, bytes=len(blob))
        return changed(part, row=replace(said, checksum=f"{zlib.crc32(blob):08x}"), blob=blob)

    return changed_part


def with_tasks(state: RunState, more: int) -> RunState:
    tried = bots_belief(state).tried
    recent = replace(tried.recent, tasks=tried.recent.tasks + more)
    return with_belief(state, tried=replace(tried, recent=recent))


def with_attempts(column: str, more: float) -> Callable[[RunState], RunState]:
    def changed_state(state: RunState) -> RunState:
        recent = state.attempts.recent
        grown = (getattr(recent, column) + more).astype(getattr(recent, column).dtype)
        return replace(state, attempts=replace(state.attempts, recent=replace(recent, **{column: grown})))

    return changed_state


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        (DatasetPart, lambda part: changed(part, facts=replace(part.facts, size=41)), "size is 40 here and 41"),
        (DatasetPart, lambda part: changed(part, facts=replace(part.facts, reference_order=(0, 7))), "no order"),
        (DatasetPart, offset_tags("even"), "can't be its offset tags"),  # 20 tasks are too few
        (DatasetPart, offset_tags("unheard of", tasks=30), "no task has the offset tags"),
        (DatasetPart, lambda part: changed(part, created_at=float("nan")), "record 1"),
        (TasksPart, lambda part: changed(part, ids=part.ids[1:]), "differ in length"),
        (TasksPart, lambda part: changed(part, ids=[part.ids[1], *part.ids[1:]]), "task ids must differ"),
        (TasksPart, lambda part: changed(part, ids=["", *part.ids[1:]]), "tasks are invalid"),
        (RetiredPart, lambda part: changed(part, tasks=b"123"), "can't be read"),
        (RetiredPart, lambda part: changed(part, tasks=b"\x28\0\0\0"), "not some of its 40 tasks"),
        (DatasetPart, lambda part: changed(part, name="no/name"), "record 1"),
        (RunPart, run(name="no/name"), "record"),
        (RunPart, run(parent=SavedParent("other", 2, 2)), "is no fork"),
        (RunPart, run(parent=SavedParent("nul\0", 2, 2)), "record"),
        (RunPart, run(parent=SavedParent("other", 2**40, 2)), "record"),
        (RunPart, run(uid="x"), "record"),
        (RunPart, run(settings={"target": 7}), "settings"),
        (RunPart, run(head=6), "entries 6 to 6 are missing"),
        (RunPart, run(head=4), "receipt of entry 5"),
        (RunPart, run(epoch=2), "its epoch is 2"),
        (RunPart, run(pruned=9), "were pruned"),
        (RunPart, run(pruned=1), "entry 1 was pruned"),
        (EntriesPart, entry(2, seq=7), "entry 7 follows entry 1"),
        (EntriesPart, entry(2, kind="rewind"), "no 'rewind'"),
        (EntriesPart, entry(2, body="{"), "can't be read"),
        (EntriesPart, entry(2, epoch=1), "has epoch 1"),
        (EntriesPart, entry(2, profiles=99), "knows 99 profiles"),
        (EntriesPart, entry(2, key="key-0"), "clash"),
        (EntriesPart, entry(2, key="nul\0"), "record"),
        (EntriesPart, body(2, report(40)), "tasks that are not in the dataset"),
        (EntriesPart, body(2, report(-1)), "tasks that are not in the dataset"),
        (EntriesPart, body(2, report(1, -1.0)), "counts that no report can have"),
        (EntriesPart, body(2, report(1, 0.0, 0.0)), "counts that no report can have"),
        (EntriesPart, body(2, report(1, 1e308, 1e308)), "counts that no report can have"),
        (EntriesPart, body(2, report(1, 4096.0, 1.0)), "counts that no report can have"),
        (EntriesPart, body(2, report(1, counts=2)), "counts that no report can have"),
        (EntriesPart, body(2, replace(report(1), made_at=-1)), "speaks of step -1"),
        (EntriesPart, body(2, replace(report(1), walks=(Walk(0, 2**32 - 1, 1, 5),))), "where no selection can"),
        (EntriesPart, body(2, replace(report(1), walks=(Walk(0, 0, 1, 41),))), "where no selection can"),
        (EntriesPart, body(2, replace(report(1), walks=(Walk(0, 0, -1, 5),))), "where no selection can"),
        (EntriesPart, body(2, SettingsChange({"target": 7})), "can't be read"),
        (EntriesPart, body(4, Rewind(2, 1)), "is another"),
        (EntriesPart, body(4, Rewind(2, 9)), "step it names"),
        (EntriesPart, body(4, Rewind(4, 2)), "rewinds to entry 4"),
        (EntriesPart, body(2, Fork("x", 1, b"BOTS")), "is a fork"),
        (EntriesPart, body(1, Fork("x", 1, b"BOTS")), "is a fork"),
        (ReceiptsPart, lambda part: changed(part, rows=part.rows[::-1]), "a receipt of entry 4"),
        *[
            (ReceiptsPart, entry(2, **{name: value}), said)
            for name, value, said in [
                ("log_loss", -1e308, "no fold can do"),
                ("log_loss", math.inf, "no fold can do"),
                ("log_loss", math.nan, "no fold can do"),
                ("brier", 1.5, "no fold can do"),
                ("capability", math.inf, "no fold can do"),
                ("mean_pass_rate", None, "no fold can do"),
                ("rollouts", math.inf, "no fold can do"),
                ("rollouts", 0.0, "no fold can do"),
                ("successes", 1e9, "no fold can do"),
                ("reported", 9, "no fold can do"),
                ("closed", False, "no fold can do"),
                ("new_tasks", 9, "no fold can do"),
                ("distinct_tasks", 0, "no fold can do"),
                ("calibration", np.full(30, np.nan).tobytes(), "no fold can do"),
                ("epoch", 1, "has epoch 1"),
                ("step", 3, "stands at step 3"),
                ("step", 2**31 - 1, "stands at step"),
            ]
        ],
        (SnapshotPart, snapshot(seq=4), "another one than it says"),
        (SnapshotPart, snapshot(checksum="0"), "another one than it says"),
        (SnapshotPart, snapshot(created_at=1e300), "another one than it says"),
        (SnapshotPart, lambda part: changed(part, blob=part.blob[:-1]), "checksum does not match"),
        (SnapshotPart, stored(lambda state: with_tasks(state, 40)), "none that folding leads to"),
        *[
            (SnapshotPart, stored(with_attempts(column, more)), "none that folding leads to")
            for column, more in [("tasks", 40), ("rollouts", 1.0), ("step", 9), ("step", -9)]
        ],
        (SnapshotPart, stored(lambda state: replace(state, step=9)), "stands at step 9"),
        (SnapshotPart, stored(lambda state: replace(state, epoch=9)), "has epoch 9"),
        (
            SnapshotPart,
            stored(lambda state: with_belief(state, implied=bots_belief(state).implied * np.nan)),
            "none that folding leads to",
        ),
        (
            SnapshotPart,
            stored(lambda state: with_belief(state, estimate=Capability(0.5, np.zeros((2, 5))))),
            "none that folding leads to",
        ),
    ],
)
async def test_what_can_not_be_true_is_refused(parts: list[Part], other: World, kind: type, change: Change, said: str):
    with pytest.raises(InvalidBackupError, match=said):
        await imported(other, with_changed(parts, kind, change))
    assert other.sql("SELECT count(*) FROM datasets") == [(0,)]


async def test_the_same_backup_unchanged_is_taken(other: World, world: World):
    await imported(other, written(await backed_up(world)))
    assert await truth(other) == await truth(world)


async def test_a_dataset_without_a_default_run_gets_one(parts: list[Part], other: World):
    await imported(other, with_changed(parts, RunPart, run(name="only")))
    assert (await other.state("only")).seq == 5
    assert (await other.state()).seq == 0


async def test_a_record_that_would_be_too_long_is_refused_at_once(other: World):
    with pytest.raises(InvalidBackupError, match="would have"):
        await imported(other, b"BOTSBKUP\1\0" + (LARGEST_RECORD + 1).to_bytes(4, "little") + bytes(1000))


async def test_a_pruned_run_without_a_stored_state_is_refused(world: World, other: World):
    await reports(world, 23)
    assert await pruner(world)()
    kept: list[Part] = [part for part in await parts_of(await exported(world)) if not isinstance(part, SnapshotPart)]
    with pytest.raises(InvalidBackupError, match="no stored state stands for them"):
        await imported(other, written(kept))


async def test_a_record_that_is_missing_is_noticed_at_the_end(parts: list[Part], other: World):
    whole, cut = written(parts), written(parts[:2] + parts[3:])
    with pytest.raises(InvalidBackupError, match="SHA-256"):
        await imported(other, cut[:-END] + whole[-END:])


async def test_what_follows_the_end_is_noticed_wherever_chunks_end(parts: list[Part], other: World):
    async def chunks() -> AsyncIterator[bytes]:
        yield written(parts)
        yield b""
        yield b"x"

    with pytest.raises(InvalidBackupError, match="data after its end"):
        await other.use.import_backup(chunks(), never)


# --- what changes while it is exported -------------------------------------------------------------------------------


async def test_tasks_appended_meanwhile_are_not_in_it(world: World, other: World):
    before = await truth(world)
    pieces = await world.use.export_backup(POOL)
    await world.use.append_tasks(POOL, stream(block(40, 10)), never)
    await imported(other, b"".join([piece async for piece in pieces]))
    assert await truth(other) == before


async def test_a_run_deleted_meanwhile_breaks_the_export(world: World):
    await reports(world, 3)
    pieces = await world.use.export_backup(POOL)
    await world.use.delete_run(POOL, "default", None)
    with pytest.raises(BusyError, match="export again"):
        [piece async for piece in pieces]


class Thinned(Port):
    """Snapshots of which the newest is dropped by others once it was listed."""

    async def after(self, run: RunRow, seq: int, limit: int) -> list[SnapshotRow]:
        rows: list[SnapshotRow] = await self.real.after(run, seq, limit)
        await self.real.drop(run, [row.seq for row in rows[-1:]])
        return rows


@pytest.mark.parametrize("older", [0, 1])
async def test_a_stored_state_thinned_away_meanwhile_is_left_out(world: World, other: World, older: int):
    await reports(world, count := 7 + 5 * older)  # a state is stored at every fifth entry
    backup = await exported(world.beside(snapshots=Thinned))
    assert len(world.sql("SELECT seq FROM snapshots")) == older
    assert not any(isinstance(part, SnapshotPart) for part in await parts_of(backup))
    await imported(other, backup)
    assert (await other.state()).seq == count
