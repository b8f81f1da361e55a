"""What every Journal owes who asks for the reports of one task."""

import pytest
from sqlalchemy import insert, update

from bots_service.core.entries import Body, Rewind, SettingsChange
from bots_service.errors import DamagedStateError
from bots_service.records import NewEntry, RunRow, VisitsPage
from bots_service.storage.sql.codecs import encode_body
from bots_service.storage.sql.tables import journal, runs
from bots_service.storage.sql.task_history import BODY_CHARACTERS, CHUNK, ENTRIES
from tests.core.journals import report_of
from tests.storage import made
from tests.storage.made import Stores


async def write_bodies(stores: Stores, run: RunRow, bodies: list[str]) -> None:
    """Let the journal hold these reports, as if they had been appended."""
    body = {"run_id": run.id, "epoch": 0, "kind": "report", "profiles": 3, "created_at": 0.0}
    rows = [{**body, "seq": seq, "body": text} for seq, text in enumerate(bodies, start=1)]
    await stores.database.write(lambda connection: connection.execute(insert(journal), rows))
    head = update(runs).where(runs.c.id == run.id).values(head=len(bodies))
    await stores.database.write(lambda connection: connection.execute(head))


class TaskHistoryContract:
    async def test_only_reports_of_the_task_are_told_and_hidden_ones_are_marked(self, stores: Stores):
        run = await made.run(stores)
        bodies: list[Body] = [
            report_of((7, 1.0, 3.0), (2, 1.0, 0.0)),
            report_of((2, 1.0, 3.0)),
            report_of((7, 0.0, 2.0), (7, 2.0, 0.0), (7, 0.5, 0.0)),
            SettingsChange({"target": 0.6}),
            SettingsChange({"target": 0.4}),
            Rewind(1, 1),
            report_of((7, 4.0, 0.0)),
        ]
        for body in bodies:
            await stores.journal.append(run, NewEntry(body, 5))
        await stores.journal.keep_receipts(run, [made.receipt(seq, seq) for seq in (1, 3)])
        page = await stores.journal.visits(run, 7, None, 10)
        told = [(one.seq, one.step, one.successes, one.trials, one.is_effective) for one in page.visits]
        assert told == [(7, None, 4.0, 4.0, False), (3, 3, 2.5, 4.5, True), (1, 1, 1.0, 4.0, True)]
        assert [(one.is_late, one.is_hidden) for one in page.visits] == [(None, False), (True, True), (True, False)]
        assert (page.next, page.pruned) == (None, 0)
        logged = {one.seq: one.created_at for one in await stores.journal.before(run, None, 9)}
        assert [one.created_at for one in page.visits] == [logged[one.seq] for one in page.visits]
        assert (await stores.journal.visits(run, 5, None, 10)).visits == []

    async def test_a_page_reads_a_bounded_number_of_entries_and_the_pages_lose_none(self, stores: Stores):
        run, last = await made.run(stores), 2 * ENTRIES + 100
        having = {1, 2, 60, 61, 62, 3 * CHUNK, last - 2 * CHUNK, last}
        other, wanted = encode_body(report_of((7, 1.0, 1.0))), encode_body(report_of((3, 1.0, 1.0), (77, 2.0, 0.0)))
        await write_bodies(stores, run, [wanted if seq in having else other for seq in range(1, last + 1)])
        page = await stores.journal.visits(run, 77, None, 1000)
        assert ([one.seq for one in page.visits], page.next) == ([last, last - 2 * CHUNK], last + 1 - ENTRIES)
        for limit, requests in ((1, None), (3, None), (1000, 3)):
            pages, before = list[VisitsPage](), None
            while not pages or before is not None:
                pages.append(await stores.journal.visits(run, 77, before, limit))
                before = pages[-1].next
            assert requests in (None, len(pages))
            assert [one.seq for page in pages for one in page.visits] == sorted(having, reverse=True)
            assert max(len(page.visits) for page in pages) <= limit

    async def test_a_page_ends_once_it_read_many_bytes(self, stores: Stores):
        run, size = await made.run(stores), BODY_CHARACTERS // CHUNK
        large = encode_body(report_of((7, 1.0, 1.0))).ljust(size + 1)
        await write_bodies(stores, run, [large] * (CHUNK + 1))
        page = await stores.journal.visits(run, 8, None, 10)
        assert (page.visits, page.next) == ([], 2)
        assert (await stores.journal.visits(run, 8, 2, 10)).next is None

    async def test_a_body_that_can_not_be_read_is_damage(self, stores: Stores):
        run = await made.run(stores)
        await write_bodies(stores, run, ["{"])
        with pytest.raises(DamagedStateError):
            await stores.journal.visits(run, 7, None, 10)

    async def test_an_empty_journal_and_a_run_that_is_gone_have_no_history(self, stores: Stores):
        run = await made.run(stores)
        nothing = VisitsPage([], None, 0)
        assert await stores.journal.visits(run, 7, None, 10) == nothing
        assert await stores.journal.visits(run, 7, 2**53, 10) == nothing
        await stores.runs.delete(run)
        assert await stores.journal.visits(run, 7, None, 10) == nothing
