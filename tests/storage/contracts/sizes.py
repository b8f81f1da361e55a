"""What every Sizes tells."""

import time
from dataclasses import replace

import pytest

from bots_service.core.entries import Rewind
from bots_service.errors import UnknownRunError
from bots_service.ports.history import RunSizes
from bots_service.ports.records import NewEntry, SnapshotRow
from bots_service.storage.sql import outlooks as sql_sizes
from bots_service.storage.sql.codecs import encode_body
from bots_service.storage.sql.outlooks import SqlSizes
from bots_service.storage.sql.retention import SqlRetention
from tests.storage import made
from tests.storage.made import Stores

STATE = SnapshotRow(1, 0, 1, 5, "", 0.0, False)


class SizesContract:
    """The tests; `stores` says over what."""

    async def test_an_empty_run_takes_nothing(self, stores: Stores):
        run = await made.run(stores)
        assert await SqlSizes(stores.database).measure(run) == RunSizes(0, 0, None, 0, 0, None)

    async def test_entries_and_stored_states_are_added_up(self, stores: Stores):
        run, before = await made.run(stores), time.time()
        drafts = [made.draft(seed=seed) for seed in range(5)]
        await stores.journal.append(run, drafts[0])
        after = time.time()
        for draft in drafts[1:]:
            await stores.journal.append(run, draft)
        for seq in (2, 4):
            await stores.snapshots.save(run, replace(STATE, seq=seq, bytes=10 * seq, created_at=1e9 + seq), b"state")
        found = await SqlSizes(stores.database).measure(run)
        assert found.oldest_entry_at is not None
        assert before <= found.oldest_entry_at <= after
        bytes_ = sum(len(encode_body(draft.body)) for draft in drafts)
        assert replace(found, oldest_entry_at=None) == RunSizes(5, bytes_, None, 2, 20 + 40, 1e9 + 4)

    async def test_bytes_are_estimated_by_the_newest_entries(self, stores: Stores):
        run = await made.run(stores)
        newest = [made.draft(seed=seed) for seed in range(sql_sizes.SAMPLED)]
        for draft in [NewEntry(made.report(tasks=50), 3), NewEntry(made.report(tasks=50), 3), *newest]:
            await stores.journal.append(run, draft)
        bytes_ = sum(len(encode_body(draft.body)) for draft in newest)
        found = await SqlSizes(stores.database).measure(run)
        assert found.about_bytes == (len(newest) + 2) * bytes_ // len(newest)

    async def test_pruned_entries_do_not_count_nor_do_the_rewinds_that_stay(self, stores: Stores):
        run, retention = await made.run(stores), SqlRetention(stores.database)
        for body in (made.report(), Rewind(0, 0), made.report(), made.report()):
            seq = (await stores.journal.append(run, NewEntry(body, 3))).entry.seq
            await stores.journal.keep_receipts(run, [made.receipt(seq, seq)])
        await stores.snapshots.save(run, replace(STATE, seq=3), b"state")
        earlier = (await SqlSizes(stores.database).measure(run)).oldest_entry_at
        assert await retention.truncate(run, 3)
        for _ in range(2):
            found = await SqlSizes(stores.database).measure(run)
            assert (found.entries, found.about_bytes) == (1, len(encode_body(made.report())))
            assert found.oldest_entry_at is not None
            assert earlier is not None
            assert found.oldest_entry_at > earlier
            await retention.delete_entries(run)

    async def test_a_run_that_is_gone_has_none(self, stores: Stores):
        run = await made.run(stores)
        await stores.runs.delete(run)
        with pytest.raises(UnknownRunError, match=run.name):
            await SqlSizes(stores.database).measure(run)
