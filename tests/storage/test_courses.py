"""What lists of runs show: where each stands, and what is noted of it."""

import pytest

from bots_service.core.entries import Rewind
from bots_service.core.run_settings import RunSettings
from bots_service.errors import UnknownRunError
from bots_service.records import RunRow
from bots_service.storage.sql.courses import RUNS_AT_ONCE, RunHead
from bots_service.storage.sql.stores import SqlStores
from tests.storage import made


async def head_of(stores: SqlStores, run: RunRow) -> RunHead:
    return next(head for head in await stores.courses.heads() if head.run_id == run.id)


async def test_refused_reports_are_counted_with_their_run_and_the_last_one_is_told(stores: SqlStores):
    run, other = await made.run(stores), await made.run(stores)
    await made.append(stores, run)
    for reason in ("first", "last"):
        await stores.runs.note_refused_report(run, reason)
    head = await head_of(stores, run)
    assert head.refused is not None
    assert (head.refused.count, head.refused.reason, head.refused_seq) == (2, "last", 1)
    assert (await head_of(stores, other)).refused is None


async def test_a_run_that_is_gone_or_has_other_settings_has_no_refused_reports(stores: SqlStores):
    run = await made.run(stores)
    await stores.runs.note_refused_report(run, "why")
    replaced, _ = await stores.runs.put(run.dataset_id, run.name, RunSettings(seed=99))
    assert (await head_of(stores, replaced)).refused is None
    await stores.runs.delete(replaced)
    for gone in (run, replaced):
        with pytest.raises(UnknownRunError):
            await stores.runs.note_refused_report(gone, "why")


async def test_the_findings_are_those_of_the_last_look_in_the_present_history(stores: SqlStores):
    run = await made.run(stores)
    for _ in range(7):
        await made.append(stores, run)
    before = await head_of(stores, run)
    assert (await stores.courses.read([before]))[run.id].findings == made.findings(6)
    await made.append(stores, run, Rewind(5, 5), step=5, closed=False)
    assert (await stores.courses.read([await head_of(stores, run)]))[run.id].findings == made.findings(3)
    assert await stores.courses.read([before]) == {}, "entries before the rewind are no course any more"


async def test_more_runs_than_are_read_at_once_are_read_whole_without_those_that_are_gone(stores: SqlStores):
    run = await made.run(stores)
    await made.append(stores, run)
    other = await made.run(stores)
    heads = [await head_of(stores, one) for one in (run, other)]
    gone = [heads[0]._replace(run_id=10**9 + number) for number in range(RUNS_AT_ONCE)]
    assert (await stores.courses.read([heads[0], *gone, heads[1]])).keys() == {run.id, other.id}
    await stores.runs.delete(run)
    assert (await stores.courses.read(heads)).keys() == {other.id}
    assert await stores.courses.read([]) == {}
