"""What lists of runs show: where each stands, and what is noted of it."""

import pytest

from bots_service.core.entries import Rewind
from bots_service.core.run_settings import RunSettings
from bots_service.errors import UnknownRunError
from bots_service.records import RunRow
from bots_service.storage.sql.courses import RunHead
from bots_service.storage.sql.stores import SqlStores
from tests.storage import made


async def head_of(stores: SqlStores, run: RunRow) -> RunHead:
    return next(head for head in await stores.courses.heads() if head.run_id == run.id)


async def test_refused_reports_are_counted_with_their_run_and_the_last_one_is_told(stores: SqlStores):
    run, other = await made.run(stores), await made.run(stores)
    await made.append(stores, run)
    for reason in ("first", "last"):
        await stores.runs.note_refused_report(run, reason)
    assert (await head_of(stores, run)).refused_reports == 2
    assert (await head_of(stores, other)).refused_reports == 0
    found = (await stores.courses.refused([run.id, other.id]))[run.id]
    assert (found.count, found.seq, found.reason) == (2, 1, "last")
    assert await stores.courses.refused([other.id]) == {}
    assert await stores.courses.refused([]) == {}


async def test_a_run_that_is_gone_or_has_other_settings_has_no_refused_reports(stores: SqlStores):
    run = await made.run(stores)
    await stores.runs.note_refused_report(run, "why")
    replaced, _ = await stores.runs.put(run.dataset_id, run.name, RunSettings(seed=99))
    assert await stores.courses.refused([run.id]) == {}
    await stores.runs.delete(replaced)
    for gone in (run, replaced):
        with pytest.raises(UnknownRunError):
            await stores.runs.note_refused_report(gone, "why")
    assert await stores.courses.refused([run.id]) == {}


async def test_more_runs_than_one_statement_takes_are_read_whole(stores: SqlStores):
    run = await made.run(stores)
    assert await stores.courses.rows([run.id, *range(10**9, 10**9 + 1200)]) == {run.id: run}
    await stores.runs.note_refused_report(run, "why")
    assert (await stores.courses.refused([run.id, *range(10**9, 10**9 + 1200)])).keys() == {run.id}


async def test_the_findings_are_those_of_the_last_look_in_the_present_history(stores: SqlStores):
    run = await made.run(stores)
    for _ in range(7):
        await made.append(stores, run)
    assert (await stores.courses.read([(run, 7)]))[run.id].findings == made.findings(6)
    await made.append(stores, run, Rewind(5, 5), step=5, closed=False)
    assert (await stores.courses.read([(run, 8)]))[run.id].findings == made.findings(3)
    assert await stores.courses.read([(run, 7)]) == {}, "entries before the rewind are no course any more"


async def test_a_run_that_is_gone_has_no_course(stores: SqlStores):
    run = await made.run(stores)
    await made.append(stores, run)
    other = await made.run(stores)
    assert (await stores.courses.read([(run, 1), (other, 0)])).keys() == {run.id, other.id}
    await stores.runs.delete(run)
    assert (await stores.courses.read([(run, 1), (other, 0)])).keys() == {other.id}
    assert await stores.courses.read([]) == {}
