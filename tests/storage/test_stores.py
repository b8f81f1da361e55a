"""Runs, answers, API keys, journals and snapshots as stores keep them."""

import asyncio
import itertools
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import NamedTuple

import pytest
from msgspec import structs

from bots_service.core.entries import Body, Entry, Report, Rewind, SettingsChange
from bots_service.core.run_settings import RunSettings
from bots_service.errors import (
    BotsError,
    BusyError,
    DamagedStateError,
    DatasetExistsError,
    KeyReusedError,
    LimitReachedError,
    UnauthenticatedError,
    UnknownApiKeyError,
    UnknownRunError,
)
from bots_service.keys import KeyRow, Scope
from bots_service.records import Answer, DatasetRow, Head, IdempotencyKey, Parent, RunRow
from bots_service.storage.sql import stores as module
from bots_service.storage.sql.journal import encode_body, receipt_under
from bots_service.storage.sql.stores import SqlStores
from bots_service.storage.sql.transfer import PAGE
from tests.storage import made


class KeptPut(NamedTuple):
    row: RunRow
    before: RunRow | None


async def test_a_run_reads_back_as_it_was_put(stores: SqlStores):
    row = await made.dataset(stores)
    settings = RunSettings(belief="bots", forgetting=0.1 + 0.2, prior=(0.5, 2.0), tasks_per_step=8, seed=2**63 - 1)
    run, before = await stores.runs.put(row.id, "mine", settings)
    assert before is None
    assert run == await stores.runs.get(row.id, "mine")
    assert (run.settings, run.head, run.epoch, run.parent) == (settings, 0, 0, None)


async def test_of_several_that_create_one_run_one_does_and_all_get_it(stores: SqlStores):
    row = await made.dataset(stores)
    outcomes = await asyncio.gather(*(stores.runs.put(row.id, "mine", RunSettings()) for _ in range(4)))
    (made_it,) = [run for run, before in outcomes if before is None]
    assert [(run, before) for run, before in outcomes if before is not None] == [(made_it, made_it)] * 3


async def test_a_fork_begins_with_copies_of_another_run_s_entries_without_their_keys(stores: SqlStores):
    source = await made.run(stores)
    receipts = [await made.append(stores, source, made.report(seq), key=made.once(f"k{seq}")) for seq in range(3)]
    fork = made.fork(source, 2, 2)
    run, _ = await stores.runs.put(source.dataset_id, "forked", RunSettings(), fork=fork)
    assert (run.head, run.epoch, run.parent) == (3, 1, Parent(source.name, 2, 3))
    saved = await stores.transfers.entries(source, 0, 2)
    alike = [structs.replace(entry, key=None, fingerprint=None) for entry in saved]
    assert (await stores.transfers.entries(run, 0, 9))[:2] == alike
    told = [await made.receipt_of_entry(stores, run, seq) for seq in (1, 2, 3)]
    assert told == [*receipts[:2], fork.folded[0].receipt]
    assert await stores.snapshots.newest(run, 9) == (3, b"a state")


async def test_a_deleted_default_run_is_there_again_empty_under_another_uid(stores: SqlStores):
    row = await made.dataset(stores)
    old = await stores.runs.get(row.id, "default")
    await made.append(stores, old)
    await stores.runs.delete(None, old)
    await stores.runs.delete(None, old)
    new = await stores.runs.get(row.id, "default")
    assert (new.head, new.settings) == (0, RunSettings())
    assert new.uid != old.uid


async def test_what_a_write_came_to_is_kept_with_it(stores: SqlStores):
    row = await made.dataset(stores)
    assert await stores.answers.find("PUT /it", "k", KeptPut) is None
    put = await stores.runs.put(row.id, "mine", RunSettings(), idempotency_key=made.once("k"), result_of=KeptPut)
    answer = await stores.answers.find("PUT /it", "k", KeptPut)
    assert answer == Answer("same", KeptPut(*put))
    assert await stores.answers.find("PUT /other", "k", KeptPut) is None
    unchanged = await stores.runs.put(row.id, "mine", RunSettings(), idempotency_key=made.once("again"))
    assert unchanged == (put[0], put[0])
    assert await stores.answers.find("PUT /it", "again", KeptPut) is None


async def test_of_two_results_of_one_request_the_first_stays(stores: SqlStores):
    first, second = [KeptPut(await made.run(stores), None) for _ in range(2)]
    assert await stores.answers.keep(made.once("k"), first) == first
    with pytest.raises(BusyError):
        await stores.answers.keep(made.once("k"), second)
    assert await stores.answers.find("PUT /it", "k", KeptPut) == Answer("same", first)
    with pytest.raises(DamagedStateError):
        await stores.answers.find("PUT /it", "k", DatasetRow)


async def test_a_write_whose_key_is_known_changes_nothing(stores: SqlStores):
    row = await made.dataset(stores)
    await stores.runs.put(row.id, "one", RunSettings(), idempotency_key=made.once("k"))
    with pytest.raises(BusyError):
        await stores.runs.put(row.id, "two", RunSettings(), idempotency_key=made.once("k"))
    with pytest.raises(KeyReusedError):
        await stores.runs.put(row.id, "two", RunSettings(), idempotency_key=made.once("k", fingerprint="other"))
    with pytest.raises(UnknownRunError):
        await stores.runs.get(row.id, "two")


async def test_a_refused_write_keeps_no_answer(stores: SqlStores):
    row = await made.dataset(stores)
    with pytest.raises(DatasetExistsError):
        await stores.datasets.create(made.once("k"), row.name, await stores.datasets.stage(), made.facts(0))
    assert await stores.answers.find("PUT /it", "k", tuple[DatasetRow, bool]) is None


NOW = 1_800_000_000.25


def key(number: int = 0) -> KeyRow:
    """A key with everything that a key can have."""
    return KeyRow(
        id=f"{number:016x}",
        name=f"trainer {number} ü",
        digest=bytes([number]) * 32,
        scopes=frozenset({Scope.SELECT, Scope.REPORT}),
        datasets=("guru*", "b.?"),
        created_at=NOW + number,
        expires_at=NOW + 60,
    )


async def test_keys_come_back_as_they_were_in_pages_by_id_and_only_so_many_are_in_use(
    stores: SqlStores, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "MOST_KEYS", 3)
    keys = stores.keys
    plain = replace(key(1), scopes=frozenset({Scope.ADMIN}), datasets=("*",), expires_at=None)
    assert await keys.in_use() is None
    assert await keys.add(None, key(2), first=True) == key(2)
    for other in (key(0), plain):
        await keys.add(None, other, first=False)
    assert await keys.after("", 2) == [key(0), plain]
    assert await keys.after(plain.id, 2) == [key(2)]
    assert sorted(await keys.in_use() or [], key=lambda row: row.id) == [key(0), plain, key(2)]
    with pytest.raises(LimitReachedError, match="3 keys exist"):
        await keys.add(None, key(3), first=False)
    await keys.revoke(None, plain.id)
    await keys.add(None, key(3), first=False)
    assert sorted(row.id for row in await keys.in_use() or []) == [key(0).id, key(2).id, key(3).id]


async def test_a_revoked_key_is_listed_and_not_in_use_and_counts_as_having_existed(stores: SqlStores):
    keys = stores.keys
    with pytest.raises(UnknownApiKeyError, match="no key"):
        await keys.revoke(None, key(0).id)
    await keys.add(None, key(0), first=True)
    await keys.revoke(None, key(0).id)
    revoked = await keys.after("", 10)
    await keys.revoke(None, key(0).id)  # changes nothing
    assert await keys.in_use() == []
    assert await keys.after("", 10) == revoked == [replace(key(0), revoked_at=revoked[0].revoked_at)]
    assert revoked[0].revoked_at == pytest.approx(time.time(), abs=60)
    with pytest.raises(UnauthenticatedError):
        await keys.add(None, key(1), first=True)


ALL = 2**62


async def test_every_kind_of_entry_reads_back_exactly_with_its_receipt(stores: SqlStores):
    run = await made.run(stores)
    change = SettingsChange({"forgetting": 0.1 + 0.2, "reward_range": (-1.0, 1 / 3)})
    bodies: list[Body] = [made.report(3), made.report(4, tasks=0), change, Rewind(1, 1)]
    receipts = [await made.append(stores, run, body, closed=body is change) for body in bodies]
    read = await stores.journal.between(run, 0, ALL)
    assert [entry.seq for entry in read] == [1, 2, 3, 4]
    assert [encode_body(entry.body) for entry in read] == [encode_body(body) for body in bodies]
    assert [entry.epoch for entry in read] == [0, 0, 0, 1]
    assert [await made.receipt_of_entry(stores, run, seq) for seq in (1, 2, 3, 4, 5)] == [*receipts, None]


async def test_reports_are_appended_where_the_journal_still_ends_and_under_new_keys(stores: SqlStores):
    run = await made.run(stores)

    def keyed(key: str) -> IdempotencyKey:
        return IdempotencyKey(key, "fingerprint")

    async def stored(
        first: int, *keys: str, epoch: int = 0, previous: str | None = None, before: float | None = None
    ) -> int:
        rows = [
            made.folded_entry(Entry(seq, epoch, 3, made.report(seq)), key=keyed(key))
            for seq, key in enumerate(keys, start=first)
        ]
        before = before or await stores.journal.created_at(run, first - 1) or 0.0
        last = (None if previous is None else keyed(previous), before)
        return await stores.journal.append_next(run, rows, last, next(times))

    times = itertools.count(1.0)
    assert await stored(1, "a") == 0  # nothing is before the first entry
    await made.append(stores, run, key=keyed("a"))
    assert await stored(2, "b", "c") == 2
    assert await stored(2, "b", "c") == 0  # the same once more
    assert await stored(3, "d") == 0  # another entry is there
    assert await stored(3, "d", "e") == 0  # the second one was folded behind the first, not behind what is there
    assert await stored(5, "d") == 0  # the one before is not there
    assert await stored(4, "d", previous="b") == 0  # it is another one
    assert await stored(4, "d", previous="c", before=0.5) == 0  # the same request's, which another process appended
    assert await stored(4, "a") == 0  # the key is another entry's
    assert await stored(4, "d", "a", "e", previous="c") == 1  # nothing behind what is not stored
    assert await stored(5, "e", epoch=1) == 0  # the journal is of another epoch
    await made.append(stores, run, Rewind(1, 1))
    assert await stored(6, "e", epoch=0) == 0
    assert await stored(6, "e", epoch=1) == 1
    entries = await stores.journal.between(run, 0, ALL)
    assert [entry.seq for entry in entries] == [1, 2, 3, 4, 5, 6]
    assert encode_body(entries[5].body) == encode_body(made.report(6))
    expected = made.folded_entry(entries[5])
    assert await made.receipt_of_entry(stores, run, 6) == expected.receipt
    assert (await stores.journal.head(run)).uniform == expected.uniform._replace(distribution=None)
    await stores.runs.delete(None, run)
    assert await stored(7, "f", epoch=1) == 0


async def test_reports_of_many_runs_are_appended_together_and_each_caller_hears_of_its_own(stores: SqlStores):
    runs = [await made.run(stores) for _ in range(5)]
    for run in runs[1:]:  # nothing is before the first entry of runs[0]
        await made.append(stores, run)
    await made.append(stores, runs[1])  # the next seq is taken
    await made.append(stores, runs[2], key=made.once("taken"))
    wanted = [(2, "ab"), (2, "ab"), (3, ["a", "taken", "b"]), (2, "ab"), (2, "c")]

    async def stored(run: RunRow, first: int, keys: Sequence[str]) -> int:
        rows = [
            made.folded_entry(Entry(seq, 0, 3, made.report(seq)), key=made.once(key))
            for seq, key in enumerate(keys, start=first)
        ]
        before = await stores.journal.created_at(run, first - 1)
        return await stores.journal.append_next(run, rows, (None, before or 0.0), 1.0)

    for counts in ([0, 0, 1, 2, 1], [0, 0, 1, 2, 1]):  # a statement that is sent twice, too
        found = await asyncio.gather(*(stored(run, *those) for run, those in zip(runs, wanted, strict=True)))
        assert found == counts
    heads = await stores.journal.heads([run.id for run in runs])
    assert [heads[run.id].seq for run in runs] == [0, 2, 3, 3, 2]


async def test_nobody_can_change_an_entry_that_was_read(stores: SqlStores):
    run = await made.run(stores)
    await made.append(stores, run)
    (entry,) = await stores.journal.between(run, 0, ALL)
    assert isinstance(entry.body, Report)
    with pytest.raises(ValueError, match="read-only"):
        entry.body.evidence.successes[:] = 0.0


async def test_entries_come_from_one_seq_to_another(stores: SqlStores):
    run = await made.run(stores)
    for seed in range(10):
        await made.append(stores, run, made.report(seed))
    for after, up_to, limit in [(0, ALL, 1000), (3, ALL, 1000), (3, 7, 1000), (3, 7, 2), (0, 3, 3), (9, 10, 1)]:
        expected = [seq for seq in range(1, 11) if after < seq <= up_to][:limit]
        assert [entry.seq for entry in await stores.journal.between(run, after, up_to, limit)] == expected
    assert await stores.journal.between(run, 4, 2) == []


async def test_heads_say_where_runs_stand_and_when_an_entry_came_is_known(stores: SqlStores):
    dataset = await made.dataset(stores)
    run, gone = await made.run(stores, dataset), await made.run(stores, dataset)
    await stores.runs.delete(None, gone)
    for body in (None, None, Rewind(1, 1)):
        await made.append(stores, run, body)
    head = Head(run.uid, 3, 1, dataset.version, made.uniform(3)._replace(distribution=None))
    assert await stores.journal.head(run) == head
    assert await stores.journal.heads([run.id, gone.id]) == {run.id: head}
    times = [await stores.journal.created_at(run, seq) for seq in (1, 2, 3, 4)]
    assert times[:3] == sorted(times[:3])  # type: ignore[type-var]
    assert times[3] is None


async def test_a_receipt_is_found_by_the_key_of_its_request_in_its_run_alone(stores: SqlStores):
    run, other = await made.run(stores), await made.run(stores)
    first = await made.append(stores, run, key=made.once("key"))
    await made.append(stores, run, Rewind(0, 0))

    async def found(of, key):
        return await stores.database.read(lambda connection: receipt_under(connection, of, key))

    assert await found(run, made.once("key", scope="whatever")) == first
    assert [await found(other, made.once("key")), await found(run, made.once("none"))] == [None, None]
    with pytest.raises(KeyReusedError):
        await found(run, made.once("key", fingerprint="other"))


async def test_a_deleted_or_replaced_run_takes_no_entry_under_its_old_row(stores: SqlStores):
    replaced, gone = await made.run(stores), await made.run(stores)
    await stores.runs.put(replaced.dataset_id, replaced.name, RunSettings(target=0.2))
    await stores.runs.delete(None, gone)
    for run in (replaced, gone):
        with pytest.raises(UnknownRunError):
            await made.append(stores, run)
        with pytest.raises(UnknownRunError):
            await stores.journal.head(run)


async def test_deleting_a_dataset_under_appends_hurts_nobody_else(stores: SqlStores):
    keeps, goes = await made.dataset(stores), await made.dataset(stores)
    runs = [await made.run(stores, of) for of in (goes, keeps) * 2]

    async def append(run: RunRow) -> None:
        with nullcontext() if run.dataset_id == keeps.id else suppress(BotsError):
            await made.append(stores, run)

    await asyncio.gather(*map(append, runs * 20), stores.datasets.delete(None, goes))
    assert [(await stores.journal.head(run)).seq for run in runs[1::2]] == [20, 20]


async def test_pages_of_an_export_follow_each_other(stores: SqlStores):
    run = await made.run(stores)
    await made.write_bodies(stores, run, [encode_body(made.report(tasks=1))] * (2 * PAGE))
    seqs: list[int] = []
    while page := await stores.transfers.entries(run, seqs[-1] if seqs else 0, PAGE + 3):
        seqs += [row.seq for row in page]
    assert seqs == list(range(1, PAGE + 4))


async def test_the_newest_snapshot_up_to_a_seq_is_found_and_what_is_there_stays(stores: SqlStores):
    run = await made.run(stores)
    for seq in (3, 8, 5):
        await stores.snapshots.save(run, seq, bytes([seq]))
    await stores.snapshots.save(run, 5, b"another")
    assert await stores.snapshots.newest(run, 2) is None
    for up_to, seq in [(3, 3), (7, 5), (8, 8), (100, 8)]:
        assert await stores.snapshots.newest(run, up_to) == (seq, bytes([seq]))


async def test_snapshots_go_when_dropped_and_a_run_that_is_gone_takes_none(stores: SqlStores):
    run = await made.run(stores)
    for seq in range(1, 8):
        await stores.snapshots.save(run, seq, b"state")
    await stores.snapshots.drop(run, [2, 3, 99])
    assert await stores.snapshots.seqs(run) == [1, 4, 5, 6, 7]
    await stores.runs.delete(None, run)
    with pytest.raises(UnknownRunError):
        await stores.snapshots.save(run, 1, b"state")
