"""What runs did, read from SQL: the present history where rewinds hide what stood before them, and every entry."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict

from bots_service.core.entries import Body, Rewind, SettingsChange
from bots_service.core.run_settings import RunSettings
from bots_service.core.summary import NO_SUMS, Sums, course_of, wanted_steps
from bots_service.errors import UnknownRunError
from bots_service.records import EntryKind, RunRow, StoredReceipt
from bots_service.storage.sql.history import RUNS_AT_ONCE, RunHead
from bots_service.storage.sql.stores import SqlStores
from tests.sizes import examples
from tests.storage import made


class Moment(NamedTuple):
    """The history as it stood after an entry.

    entries: its seqs. closed: (step, seq). step: the last one.
    """

    entries: tuple[int, ...]
    closed: tuple[tuple[int, int], ...]
    step: int


@dataclass
class Model:
    """A run's journal as whole lists after each entry. first: the step that the run begins with, and its seq."""

    moments: list[Moment] = field(default_factory=lambda: [Moment((), (), 0)])
    first: tuple[int, int] = (0, 0)

    @property
    def present(self) -> Moment:
        return self.moments[-1]

    def closing(self, step: int) -> int | None:
        own = [(closed, seq) for closed, seq in self.present.closed if closed > self.first[0]]
        return dict([self.first, *own]).get(step)

    def add(self, onto: Moment, *, closes: bool = False) -> int:
        seq, step = len(self.moments), onto.step + closes
        closed = (*onto.closed, (step, seq)) if closes else onto.closed
        self.moments.append(Moment((*onto.entries, seq), closed, step))
        return seq


async def act(stores: SqlStores, run: RunRow, model: Model, kind: str, number: int) -> None:
    here = model.present
    body: Body = made.report(number)
    if kind == "rewind":
        first = model.first[0]
        to_step = first + number % (here.step - first + 1)
        to_seq = model.closing(to_step)
        assert to_seq is not None
        body, here = Rewind(to_seq, to_step), model.moments[to_seq]
    elif kind == "change":
        body = SettingsChange({"seed": number})
    model.add(here, closes=kind == "close")
    await made.append(stores, run, body, step=model.present.step, closed=kind == "close")


async def compare(stores: SqlStores, run: RunRow, model: Model) -> None:
    first, present, last = model.first[0], model.present, len(model.moments) - 1
    for step in range(first - 1, present.step + 3):
        assert await stores.history.closing(run, step) == model.closing(step)
    steps = await stores.history.steps(run, 0, 1000)
    assert [(kept.step, kept.seq) for kept in steps] == list(present.closed)
    middle = (first + present.step) // 2
    page = await stores.history.steps(run, middle, 3)
    assert [kept.seq for kept in page] == [seq for step, seq in present.closed if step > middle][:3]
    for width in (1, 3):
        for up_to in (last // 2, last):
            points = await stores.history.curve(run, up_to, width)
            expected = points_of([kept for kept in steps if kept.seq <= up_to], width)
            told = [asdict(point) for point in points]
            for name in ("distribution", "time"):  # exactly
                assert [one.pop(name) for one in told] == [one.pop(name) for one in expected]
            assert told == [pytest.approx(one) for one in expected]
    await compare_entries(stores, run, model)
    await compare_course(stores, run, model, steps)


def points_of(steps: list[StoredReceipt], width: int) -> list[dict[str, Any]]:
    places: dict[int, list[StoredReceipt]] = {}
    for kept in steps:
        places.setdefault((kept.step - 1) // width, []).append(kept)
    return [point_of(several) for several in places.values()]


def point_of(several: list[StoredReceipt]) -> dict[str, Any]:
    end = several[-1]
    sums: dict[str, Any] = {"first_step": several[0].step, "last_step": end.step}
    sums |= {"capability": end.capability, "distinct_tasks": end.distinct_tasks}
    sums["time"] = datetime.fromtimestamp(end.created_at, UTC)
    names = ("reported", "effective", "rollouts")
    sums |= {name: sum(getattr(receipt, name) for receipt in several) for name in names}
    for name in ("brier", "log_loss"):
        known = [(getattr(one, name), one.rollouts) for one in several if getattr(one, name) is not None]
        sums[name] = (
            sum(error * weight for error, weight in known) / sum(weight for _, weight in known) if known else None
        )
    sums["effective_task_ratio"] = sums["effective"] / sums["reported"]
    sums["success_rate"] = sum(receipt.successes for receipt in several) / sums["rollouts"]
    estimates = [(made.uniform(one.seq).ratio or 0.0, one.reported) for one in several]
    sums["uniform_effective_task_ratio"] = sum(ratio * tasks for ratio, tasks in estimates) / sums["reported"]
    looks = [made.uniform(one.seq).distribution for one in several]
    sums["distribution"] = next((look for look in reversed(looks) if look is not None), None)
    return sums


async def compare_entries(stores: SqlStores, run: RunRow, model: Model) -> None:
    """The whole journal comes backwards, page by page, and tells what was hidden."""
    pages = [await stores.history.entries(run, None, 4)]
    while pages[-1]:
        pages.append(await stores.history.entries(run, pages[-1][-1].seq, 4))
    read = [logged for page in pages for logged in page]
    assert [logged.seq for logged in read] == list(range(len(model.moments) - 1, 0, -1))
    assert sorted(logged.seq for logged in read if not logged.hidden) == list(model.present.entries)
    assert all(logged.step == model.moments[logged.seq].step for logged in read)
    closed = {logged.seq: (logged.step, logged.seq) in model.moments[logged.seq].closed for logged in read}
    assert all(logged.closed == (closed[logged.seq] if logged.kind == "report" else None) for logged in read)


async def compare_course(stores: SqlStores, run: RunRow, model: Model, steps: list[StoredReceipt]) -> None:
    """What lists of runs show of it."""
    first, last = model.first[0], len(model.moments) - 1
    ends = {
        kept.step: Sums(
            kept.total_reported,
            kept.total_effective,
            kept.total_rollouts,
            made.uniform(kept.seq).expected,
            kept.created_at,
        )
        for kept in steps
    }
    found = await stores.history.ends(run, last, [*ends, 10**6])
    ends[0] = NO_SUMS
    assert found == ends
    known = (await stores.history.known([await head_of(stores, run)]))[run.id]
    wanted = wanted_steps(first, model.present.step)
    expected = course_of(first, model.present.step, {step: ends[step] for step in wanted})
    assert (known.course, known.strategy) == (expected, "uniform" if last and last % 4 == 0 else "pass")


kinds = st.sampled_from(["close", "close", "close", "part", "change", "rewind"])
# To one step twice, then to nested ones, then to the beginning.
CLOSES, TO = [("close", 0)] * 4, "rewind"
NESTED = [*CLOSES, (TO, 2), (TO, 2), *CLOSES, (TO, 3), (TO, 1), *CLOSES, (TO, 0), ("close", 0)]


# Each example makes a run of its own, so the database may be shared by all.
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(actions=NESTED, forked=False)
@example(actions=NESTED, forked=True)
@given(actions=st.lists(st.tuples(kinds, st.integers(0, 20)), max_size=25), forked=st.booleans())
async def test_the_present_history_is_that_of_a_slow_model(
    stores: SqlStores, actions: list[tuple[str, int]], forked: bool
):
    run, model = await made.run(stores), Model()
    if forked:
        for kind, number in [*CLOSES, (TO, 2), *CLOSES]:
            await act(stores, run, model, kind, number)
        step, seq = model.present.closed[-2]
        source = await stores.runs.get(run.dataset_id, run.name)
        run, _ = await stores.runs.put(run.dataset_id, "forked", run.settings, fork=made.fork(source, seq, step))
        model = Model(model.moments[: seq + 1], (step, seq + 1))
        model.add(model.present)
    for kind, number in actions:
        await act(stores, run, model, kind, number)
    await compare(stores, run, model)


async def test_an_empty_journal_and_a_run_that_is_gone_have_no_history(stores: SqlStores):
    run = await made.run(stores)
    history = stores.history
    await made.append(stores, run)
    assert (await history.closing(run, 2**53), await history.steps(run, 2**53, 10)) == (None, [])
    await stores.runs.delete(None, run)
    assert (await history.steps(run, 0, 10), await history.closing(run, 1)) == ([], None)
    assert await history.entries(run, None, 10) == []


async def test_what_a_page_tells_of_each_kind_of_entry(stores: SqlStores):
    run, report = await made.run(stores), made.report(3)
    change = SettingsChange({"forgetting": 0.1 + 0.2, "reward_range": (-1.0, 1 / 3)})
    for body in (report, made.report(4, tasks=0), change, Rewind(2, 1)):
        await made.append(stores, run, body)
    read = (await stores.history.entries(run, None, 9))[::-1]
    rollouts = float(report.evidence.successes.sum() + report.evidence.failures.sum())
    assert [(one.kind, one.seq, one.epoch, one.tasks, one.rollouts, one.to_step, one.changed) for one in read] == [
        ("report", 1, 0, 4, rollouts, None, None),
        ("report", 2, 0, 0, 0.0, None, None),
        ("settings", 3, 0, None, None, None, change.values),
        ("rewind", 4, 1, None, None, 1, None),
    ]


async def test_a_page_can_be_of_some_kinds_only(stores: SqlStores):
    run = await made.run(stores)
    kinds: list[EntryKind] = ["report", "settings", "rewind"]
    for seed in range(4):
        for body in (made.report(seed), SettingsChange({"seed": seed}), Rewind(1, 1)):
            await made.append(stores, run, body)
    whole = {one.seq: one for one in await stores.history.entries(run, None, 12)}
    for wanted in (kinds[:1], kinds[1:], kinds[::2], kinds[2:], kinds):
        of_kinds = [whole[seq] for seq in range(12, 0, -1) if kinds[(seq - 1) % 3] in wanted]
        assert await stores.history.entries(run, None, 9, wanted) == of_kinds[:9]
        assert await stores.history.entries(run, 8, 2, wanted) == [one for one in of_kinds if one.seq < 8][:2]


# --- courses of many runs ---------------------------------------------------------------------------------------------


async def head_of(stores: SqlStores, run: RunRow) -> RunHead:
    return next(head for head in await stores.history.heads() if head.run_id == run.id)


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
    await stores.runs.delete(None, replaced)
    for gone in (run, replaced):
        with pytest.raises(UnknownRunError):
            await stores.runs.note_refused_report(gone, "why")


async def test_the_findings_are_those_of_the_last_look_in_the_present_history(stores: SqlStores):
    run = await made.run(stores)
    for _ in range(7):
        await made.append(stores, run)
    before = await head_of(stores, run)
    assert (await stores.history.known([before]))[run.id].findings == made.findings(6)
    await made.append(stores, run, Rewind(5, 5), step=5, closed=False)
    assert (await stores.history.known([await head_of(stores, run)]))[run.id].findings == made.findings(3)
    assert await stores.history.known([before]) == {}, "entries before the rewind are no course any more"


async def test_more_runs_than_are_read_at_once_are_read_whole_without_those_that_are_gone(stores: SqlStores):
    run = await made.run(stores)
    await made.append(stores, run)
    other = await made.run(stores)
    heads = [await head_of(stores, one) for one in (run, other)]
    gone = [heads[0]._replace(run_id=10**9 + number) for number in range(RUNS_AT_ONCE)]
    assert (await stores.history.known([heads[0], *gone, heads[1]])).keys() == {run.id, other.id}
    await stores.runs.delete(None, run)
    assert (await stores.history.known(heads)).keys() == {other.id}
    assert await stores.history.known([]) == {}
