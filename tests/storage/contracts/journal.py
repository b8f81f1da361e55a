"""What every Journal and Snapshots owes."""

import asyncio
from dataclasses import replace

import pytest
from sqlalchemy import insert, update

from bots_service.core.entries import Body, Fork, Report, Rewind, SettingsChange
from bots_service.core.run_settings import RunSettings
from bots_service.errors import BotsError, DamagedStateError, KeyReusedError, StaleEpochError, UnknownRunError
from bots_service.records import EntryKind, IdempotencyKey, NewEntry, SnapshotRow
from bots_service.storage.sql.codecs import encode_body
from bots_service.storage.sql.tables import journal
from tests.storage import made
from tests.storage.made import Stores


class JournalContract:
    async def test_every_kind_of_entry_reads_back_exactly(self, stores: Stores):
        run = await made.run(stores)
        change = SettingsChange({"forgetting": 0.1 + 0.2, "reward_range": (-1.0, 1 / 3)})
        bodies: list[Body] = [
            made.report(3),
            made.report(4, tasks=0),
            change,
            Rewind(1, 1),
            Fork("other", 7, b"\x00\xff bytes"),
        ]
        for body in bodies:
            await stores.journal.append(run, NewEntry(body, 5))
        read = await stores.journal.after(run, 0)
        assert [entry.seq for entry in read] == [1, 2, 3, 4, 5]
        assert [encode_body(entry.body) for entry in read] == [encode_body(body) for body in bodies]
        assert [entry.epoch for entry in read] == [0, 0, 0, 1, 1]

    async def test_nobody_can_change_an_entry_that_was_appended(self, stores: Stores):
        run = await made.run(stores)
        appended = await stores.journal.append(run, NewEntry(made.report(1), 3))
        near, far = await stores.journal.after(run, 0, 1), await stores.journal.after(run, 0)
        for entry in (appended.entry, *near, *far):
            assert isinstance(entry.body, Report)
            with pytest.raises(ValueError, match="read-only"):
                entry.body.evidence.successes[:] = 0.0

    async def test_seqs_have_no_gap_and_no_double_under_64_callers_on_several_runs(self, stores: Stores):
        runs = [await made.run(stores) for _ in range(5)]
        seqs: dict[int, list[int]] = {run.id: [] for run in runs}

        async def append(caller: int) -> None:
            for turn in range(10):
                run = runs[(caller + turn) % len(runs)]
                appended = await stores.journal.append(run, made.draft(f"{caller}-{turn}"))
                seqs[run.id].append(appended.entry.seq)

        await asyncio.gather(*map(append, range(64)))
        for run in runs:
            count = 64 * 10 // len(runs)
            assert sorted(seqs[run.id]) == list(range(1, count + 1))
            assert [entry.seq for entry in await stores.journal.after(run, 0)] == list(range(1, count + 1))
            assert (await stores.journal.head(run)).seq == count

    @pytest.mark.parametrize("times", [1, 2, 3, 4, 5])
    async def test_a_key_counts_once_however_often_8_callers_send_it(self, stores: Stores, times: int):
        run = await made.run(stores)

        async def send() -> list[tuple[int, bool]]:
            sent = [await stores.journal.append(run, made.draft("key", seed=4)) for _ in range(times)]
            return [(appended.entry.seq, appended.duplicate) for appended in sent]

        answers = [answer for several in await asyncio.gather(*(send() for _ in range(8))) for answer in several]
        assert sorted(answers) == [(1, False)] + [(1, True)] * (8 * times - 1)
        assert (await stores.journal.head(run)).seq == 1

    async def test_a_duplicate_is_answered_with_the_first_entry(self, stores: Stores):
        run = await made.run(stores)
        first = await stores.journal.append(run, made.draft("key", seed=1))
        await stores.journal.append(run, NewEntry(Rewind(0, 0), 3))
        again = await stores.journal.append(run, made.draft("key", seed=2, epoch=0))
        assert (again.entry.seq, again.entry.epoch, again.duplicate) == (1, 0, True)
        assert encode_body(again.entry.body) == encode_body(first.entry.body)

    async def test_a_key_with_another_fingerprint_is_refused(self, stores: Stores):
        run, other = await made.run(stores), await made.run(stores)
        await stores.journal.append(run, made.draft("key"))
        with pytest.raises(KeyReusedError):
            await stores.journal.append(run, made.draft("key", fingerprint="other"))
        assert not (await stores.journal.append(other, made.draft("key", fingerprint="other"))).duplicate

    async def test_an_entry_is_found_by_its_runs_key(self, stores: Stores):
        run, other = await made.run(stores), await made.run(stores)
        first = await stores.journal.append(run, made.draft("key", seed=1))
        found = await stores.journal.find(run, IdempotencyKey("key", "same"))
        assert found is not None
        assert (found.seq, encode_body(found.body)) == (1, encode_body(first.entry.body))
        assert await stores.journal.find(run, IdempotencyKey("none", "same")) is None
        assert await stores.journal.find(other, IdempotencyKey("key", "same")) is None
        with pytest.raises(KeyReusedError):
            await stores.journal.find(run, IdempotencyKey("key", "other"))

    async def test_evidence_of_an_old_epoch_is_refused(self, stores: Stores):
        run = await made.run(stores)
        await stores.journal.append(run, made.draft(epoch=0))
        rewound = await stores.journal.append(run, NewEntry(Rewind(1, 1), 3))
        assert rewound.entry.epoch == 1
        with pytest.raises(StaleEpochError):
            await stores.journal.append(run, made.draft(epoch=0))
        assert (await stores.journal.append(run, made.draft(epoch=1))).entry.seq == 3

    async def test_refused_drafts_hurt_none_that_wait_with_them(self, stores: Stores):
        run, gone = await made.run(stores), await made.run(stores)
        await stores.runs.delete(gone)
        await stores.journal.append(run, made.draft("taken"))
        drafts = [
            (run, made.draft("a")),
            (gone, made.draft("b")),
            (run, made.draft(epoch=9)),
            (run, made.draft("taken", fingerprint="other")),
            (run, made.draft("c")),
        ]
        appends = (stores.journal.append(of, draft) for of, draft in drafts)
        outcomes = await asyncio.gather(*appends, return_exceptions=True)
        kinds = [type(outcome) for outcome in outcomes if isinstance(outcome, BotsError)]
        assert kinds == [UnknownRunError, StaleEpochError, KeyReusedError]
        assert (await stores.journal.head(run)).seq == 3

    async def test_a_caller_that_stops_waiting_changes_nothing(self, stores: Stores):
        run = await made.run(stores)
        waiting = [asyncio.create_task(stores.journal.append(run, made.draft(str(key)))) for key in range(4)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert [entry.seq for entry in await stores.journal.after(run, 0, 4)] == [1, 2, 3, 4]
        assert (await stores.journal.append(run, made.draft("1"))).duplicate

    async def test_entries_come_from_one_seq_to_another(self, stores: Stores):
        run = await made.run(stores)
        for seed in range(10):
            await stores.journal.append(run, made.draft(seed=seed))
        for seq, up_to, limit in [(0, None, 1000), (3, None, 1000), (3, 7, 1000), (3, 7, 2), (0, 3, 3), (9, 10, 1)]:
            entries = await stores.journal.after(run, seq, up_to, limit)
            expected = [other for other in range(1, 11) if seq < other <= (up_to or 10)][:limit]
            assert [entry.seq for entry in entries] == expected
        assert await stores.journal.after(run, 10) == []
        assert await stores.journal.after(run, 4, 2) == []

    async def test_a_replaced_run_takes_no_entry_under_its_old_row(self, stores: Stores):
        run = await made.run(stores)
        await stores.runs.put(run.dataset_id, run.name, RunSettings(target=0.2))
        with pytest.raises(UnknownRunError):
            await stores.journal.append(run, made.draft())
        with pytest.raises(UnknownRunError):
            await stores.journal.head(run)

    async def test_receipts_read_back_exactly_and_the_first_one_stays(self, stores: Stores):
        run = await made.run(stores)
        for _ in range(3):
            await stores.journal.append(run, made.draft())
        receipts = [made.receipt(1, 1), made.receipt(2, 1, closed=False)]
        await stores.journal.keep_receipts(run, receipts)
        await stores.journal.keep_receipts(run, [*receipts, made.receipt(3, 2)])
        assert [await stores.journal.receipt(run, seq) for seq in (1, 2)] == receipts
        assert await stores.journal.receipt(run, 4) is None

    async def test_what_a_page_tells_of_each_kind_of_entry(self, stores: Stores):
        run, report = await made.run(stores), made.report(3)
        change = SettingsChange({"forgetting": 0.1 + 0.2, "reward_range": (-1.0, 1 / 3)})
        for body in (report, made.report(4, tasks=0), change, Rewind(2, 1), Fork("other", 7, b"state")):
            await stores.journal.append(run, NewEntry(body, 5))
        read = (await stores.journal.before(run, None, 9))[::-1]
        rollouts = float(report.evidence.successes.sum() + report.evidence.failures.sum())
        assert [(one.seq, one.epoch, one.tasks, one.rollouts, one.to_step, one.changed) for one in read] == [
            (1, 0, 4, rollouts, None, None),
            (2, 0, 0, 0.0, None, None),
            (3, 0, None, None, None, change.values),
            (4, 1, None, None, 1, None),
            (5, 1, None, None, None, None),
        ]
        assert [one.kind for one in read] == ["report", "report", "settings", "rewind", "fork"]

    async def test_a_page_can_be_of_some_kinds_only(self, stores: Stores):
        run = await made.run(stores)
        kinds: list[EntryKind] = ["report", "settings", "rewind"]
        for seed in range(4):
            for body in (made.report(seed), SettingsChange({"seed": seed}), Rewind(1, 1)):
                await stores.journal.append(run, NewEntry(body, 5))
        for wanted in (kinds[:1], kinds[1:], kinds[::2], kinds[2:], kinds):
            of_kinds = [seq for seq in range(12, 0, -1) if kinds[(seq - 1) % 3] in wanted]
            assert [one.seq for one in await stores.journal.before(run, None, 9, wanted)] == of_kinds[:9]
            listed = await stores.journal.before(run, 8, 2, wanted)
            assert [one.seq for one in listed] == [seq for seq in of_kinds if seq < 8][:2]
            whole = {one.seq: one for one in await stores.journal.before(run, None, 12)}
            assert listed == [whole[one.seq] for one in listed]
        assert await stores.journal.before(run, None, 9, ["fork"]) == []

    async def test_a_page_does_not_read_the_state_that_a_fork_holds(self, stores: Stores):
        run = await made.run(stores)
        await stores.journal.append(run, NewEntry(Fork("other", 7, b"state"), 5))
        await stores.database.write(
            lambda connection: connection.execute(update(journal).where(journal.c.run_id == run.id).values(body="{"))
        )
        with pytest.raises(DamagedStateError):
            await made.stores_over(stores.database).journal.after(run, 0)
        assert [one.kind for one in await stores.journal.before(run, None, 9)] == ["fork"]

    @pytest.mark.parametrize("lacking", [[2, 1003], [1, 2], [3], [4, 1003], [1003]], ids=str)
    async def test_the_first_of_many_entries_without_a_receipt_is_found(self, stores: Stores, lacking: list[int]):
        run, last = await made.run(stores), 1003
        body = {"run_id": run.id, "epoch": 0, "kind": "report", "profiles": 3, "created_at": 0.0}
        rows = [{**body, "seq": seq, "body": encode_body(made.report(tasks=1))} for seq in range(1, last + 1)]
        await stores.database.write(lambda connection: connection.execute(insert(journal), rows))
        kept = [made.receipt(seq, seq) for seq in range(1, last + 1) if seq not in lacking]
        await stores.journal.keep_receipts(run, kept)
        for up_to in (2, 3, 4, 1002, last):
            expected = min((seq for seq in lacking if seq <= up_to), default=None)
            assert await stores.journal.first_without_receipt(run, up_to) == expected

    async def test_the_first_entry_without_a_receipt_is_found(self, stores: Stores):
        run = await made.run(stores)
        for _ in range(4):
            await stores.journal.append(run, made.draft())
        await stores.journal.keep_receipts(run, [made.receipt(seq, seq) for seq in (1, 2, 4)])
        found = [await stores.journal.first_without_receipt(run, up_to) for up_to in (0, 2, 3, 4)]
        assert found == [None, None, 3, 3]

    async def test_a_run_that_is_gone_has_no_history(self, stores: Stores):
        run = await made.run(stores)
        await stores.runs.delete(run)
        assert (await stores.journal.history(run, 0, 10), await stores.journal.closing(run, 1)) == ([], None)

    async def test_a_step_beyond_every_number_was_never_closed(self, stores: Stores):
        run = await made.run(stores)
        await stores.journal.append(run, made.draft())
        await stores.journal.keep_receipts(run, [made.receipt(1, 1)])
        assert await stores.journal.closing(run, 2**53) is None
        assert await stores.journal.history(run, 2**53, 10) == []

    async def test_receipts_of_a_deleted_run_hurt_no_others(self, stores: Stores):
        run, gone = await made.run(stores), await made.run(stores)
        await stores.journal.append(run, made.draft())
        await stores.runs.delete(gone)
        await asyncio.gather(*(stores.journal.keep_receipts(of, [made.receipt(1, 1)]) for of in (gone, run)))
        assert await stores.journal.receipt(run, 1) == made.receipt(1, 1)

    async def test_a_batch_larger_than_one_job_is_appended_whole(self, stores: Stores):
        run = await made.run(stores)
        appends = (stores.journal.append(run, made.draft(str(key))) for key in range(1100))
        seqs = [appended.entry.seq for appended in await asyncio.gather(*appends)]
        assert seqs == list(range(1, 1101))


class SnapshotsContract:
    async def test_the_newest_snapshot_up_to_a_seq_is_found(self, stores: Stores):
        run = await made.run(stores)
        assert await stores.snapshots.newest(run, 100) is None
        rows = [_snapshot(seq) for seq in (3, 8, 5)]
        for row in rows:
            await stores.snapshots.save(run, row, bytes([row.seq]) * row.bytes)
        for up_to, seq in [(2, None), (3, 3), (7, 5), (8, 8), (100, 8)]:
            found = await stores.snapshots.newest(run, up_to)
            assert found == (None if seq is None else (_snapshot(seq), bytes([seq]) * _snapshot(seq).bytes))

    async def test_a_snapshot_that_is_there_stays_and_may_become_wanted(self, stores: Stores):
        run = await made.run(stores)
        first = _snapshot(3)
        assert await stores.snapshots.save(run, first, b"first") == first
        wanted = replace(first, wanted=True)
        assert await stores.snapshots.save(run, replace(wanted, created_at=9.0), b"second") == wanted
        assert await stores.snapshots.save(run, first, b"third") == wanted
        assert await stores.snapshots.newest(run, 3) == (wanted, b"first")

    async def test_snapshots_come_in_pages_and_go_when_dropped(self, stores: Stores):
        run = await made.run(stores)
        for seq in range(1, 8):
            await stores.snapshots.save(run, _snapshot(seq), b"state")
        await stores.snapshots.drop(run, [2, 3, 99])
        await stores.snapshots.drop(run, [])
        first = await stores.snapshots.after(run, 0, 3)
        rest = await stores.snapshots.after(run, first[-1].seq, 100)
        assert [row.seq for row in first + rest] == [1, 4, 5, 6, 7]

    async def test_the_answer_of_a_save_is_kept(self, stores: Stores):
        run = await made.run(stores)
        saved = await stores.snapshots.save(run, _snapshot(1), b"state", made.once("k"))
        answer = await stores.answers.find("PUT /it", "k", SnapshotRow)
        assert answer is not None
        assert answer.result == saved


def _snapshot(seq: int) -> SnapshotRow:
    return SnapshotRow(seq, 1, seq - 1, seq * 10, f"{seq:08x}", 1e9 + seq + 0.25, False)
