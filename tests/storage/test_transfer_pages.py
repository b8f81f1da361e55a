"""What an export reads comes in pages of bounded size, without a gap."""

import asyncio

from bots_service.storage.sql.transfer import MOST_BYTES, MOST_ROWS, SqlTransfers, last_within
from tests.storage import made
from tests.storage.made import Stores


def test_a_page_ends_before_it_is_too_large_but_holds_one_entry():
    half = MOST_BYTES // 2
    assert last_within([], 7) == 7
    assert last_within([(8, 3 * MOST_BYTES), (9, 1)], 7) == 8
    assert last_within([(8, half), (9, half), (10, 1)], 7) == 9


async def test_pages_of_entries_follow_each_other(both_stores: Stores):
    run = await made.run(both_stores)
    count = 2 * MOST_ROWS + 5
    await asyncio.gather(
        *(both_stores.journal.append(run, made.draft(f"key-{seed}", seed=seed)) for seed in range(count))
    )
    transfers = SqlTransfers(both_stores.database)
    seqs: list[int] = []
    while page := await transfers.entries(run, seqs[-1] if seqs else 0, count - 1):
        assert len(page) <= MOST_ROWS
        seqs += [row.seq for row in page]
    assert seqs == list(range(1, count))
