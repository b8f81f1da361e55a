"""What is read of many runs at once, what is noted of each, and outlooks: estimates that nothing depends on."""

import time

import pytest

from bots_service.core.run_settings import RunSettings
from bots_service.core.summary.course import StepRange, StepSums
from bots_service.core.summary.verdict import RunFindings, RunVerdict
from bots_service.errors import UnknownRunError
from bots_service.records import RunRow, SeqRange, StoredOutlook
from bots_service.storage.sql.courses import NO_NOTES, Judgement, RunHead, WantedCourse, WantedSums
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


async def test_a_run_that_is_gone_or_has_other_settings_has_neither_notes_nor_outlooks(stores: SqlStores):
    run = await made.run(stores)
    await stores.courses.keep_judgement(run, Judgement(0, 0, 1, RunFindings()))
    await stores.runs.note_refused_report(run, "why")
    await stores.outlooks.keep(run, 0, 0, made.outlook(), made.coverage())
    replaced, _ = await stores.runs.put(run.dataset_id, run.name, RunSettings(seed=99))
    assert (await stores.courses.notes([run.id]))[run.id] == NO_NOTES
    assert await stores.outlooks.read(replaced, 10, 10) == []
    await stores.runs.delete(replaced)
    for gone in (run, replaced):
        await stores.courses.keep_judgement(gone, Judgement(0, 1, 1, RunFindings()))
        with pytest.raises(UnknownRunError):
            await stores.runs.note_refused_report(gone, "why")
        with pytest.raises(UnknownRunError, match=run.name):
            await stores.outlooks.keep(gone, 0, 0, made.outlook(), made.coverage())
    assert await stores.courses.notes([run.id]) == {}


async def test_more_runs_than_one_statement_takes_are_read_whole(stores: SqlStores):
    run = await made.run(stores)
    tallies = [(await made.append(stores, run)).tally for _ in range(3)]
    wanted = [WantedCourse(run.id, (SeqRange(0, 1), SeqRange(1, 3)), ())]
    wanted += [WantedCourse(10**9 + number, (SeqRange(0, 9),), ()) for number in range(1200)]
    found = await stores.courses.read(wanted[::-1])
    assert found[run.id].steps.seqs.tolist() == [1, 2, 3]
    assert len(found[10**9].steps) == 0
    sums = StepSums(*(sum(getattr(tally, name) for tally in tallies) for name in StepSums.__slots__))
    some = [WantedSums(run.id, (SeqRange(0, 3),), StepRange(1, 3))] * 1200
    assert await stores.courses.sums(some) == [sums] * 1200
    as_it_stands = await stores.runs.get(run.dataset_id, run.name)
    assert await stores.courses.rows([run.id, *range(10**9, 10**9 + 1200)]) == {run.id: as_it_stands}
    assert (await stores.courses.read([]), await stores.courses.sums([]), await stores.courses.rows([])) == ({}, [], {})


async def test_an_outlook_comes_back_as_it_was_and_the_first_of_an_entry_stays(stores: SqlStores):
    run, before = await made.run(stores), time.time()
    for seed in (5, 2):
        await stores.outlooks.keep(run, 0, 0, made.outlook(seed), made.coverage(seed))
    (found,) = await stores.outlooks.read(run, 0, 10)
    assert before <= found.created_at <= time.time()
    kept = made.outlook(5)
    assert found == StoredOutlook(
        0, 0, kept.effective_task_ratio, kept.distribution, made.coverage(5), found.created_at
    )
