"""What lists of runs show: where each stands, and what is noted of it."""

import pytest

from bots_service.core.run_settings import RunSettings
from bots_service.core.summary.verdict import RunFindings, RunVerdict
from bots_service.errors import UnknownRunError
from bots_service.records import RunRow
from bots_service.storage.sql.courses import NO_NOTES, Judgement, RunHead
from bots_service.storage.sql.stores import SqlStores
from tests.storage import made


async def head_of(stores: SqlStores, run: RunRow) -> RunHead:
    return next(head for head in await stores.courses.heads() if head.run_id == run.id)


async def test_notes_are_the_newest_judgement_and_the_refused_reports(stores: SqlStores):
    run, other = await made.run(stores), await made.run(stores)
    before = await head_of(stores, run)
    await made.append(stores, run)
    newest = Judgement(1, 7, 2, RunFindings(RunVerdict("narrow", "Why ü.", "What to do."), None, ("A hint.",)))
    for judgement in (Judgement(0, 9, 1, RunFindings()), newest, Judgement(1, 6, 3, RunFindings())):
        await stores.courses.keep_judgement(run, judgement)
    for reason in ("first", "last"):
        await stores.runs.note_refused_report(run, reason)
    head = await head_of(stores, run)
    assert (head.refused_reports, head.judged_at is None) == (2, False)
    assert (before.refused_reports, before.judged_at) == (0, None)
    found = await stores.courses.notes([run.id, other.id])
    assert found[other.id] == NO_NOTES
    assert found[run.id].judgement == newest
    refused = found[run.id].refused
    assert refused is not None
    assert (refused.count, refused.seq, refused.reason) == (2, 1, "last")
    assert await stores.courses.notes([]) == {}


async def test_a_run_that_is_gone_or_has_other_settings_has_no_notes(stores: SqlStores):
    run = await made.run(stores)
    await stores.courses.keep_judgement(run, Judgement(0, 0, 1, RunFindings()))
    await stores.runs.note_refused_report(run, "why")
    replaced, _ = await stores.runs.put(run.dataset_id, run.name, RunSettings(seed=99))
    assert (await stores.courses.notes([run.id]))[run.id] == NO_NOTES
    await stores.runs.delete(replaced)
    for gone in (run, replaced):
        await stores.courses.keep_judgement(gone, Judgement(0, 1, 1, RunFindings()))
        with pytest.raises(UnknownRunError):
            await stores.runs.note_refused_report(gone, "why")
    assert await stores.courses.notes([run.id]) == {}


async def test_more_runs_than_one_statement_takes_are_read_whole(stores: SqlStores):
    run = await made.run(stores)
    assert await stores.courses.rows([run.id, *range(10**9, 10**9 + 1200)]) == {run.id: run}
    assert await stores.courses.notes([run.id, *range(10**9, 10**9 + 1200)]) == {run.id: NO_NOTES}


async def test_a_run_that_is_gone_has_no_course(stores: SqlStores):
    run = await made.run(stores)
    await made.append(stores, run)
    assert await stores.courses.read(run, 1) is not None
    await stores.runs.delete(run)
    assert await stores.courses.read(run, 1) is None
